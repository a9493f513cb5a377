"""How `./launch.sh docs` makes a site of the README, the pages of docs/ and the public names."""

import dataclasses
import shutil

import attn_jax

project, version = "attn_jax", attn_jax.__version__
html_title = f"attn_jax {version}"
root_doc = "README"
# By heading. A page that is missing here, or a link that leads nowhere, ends the build.
NAVIGATION = {
    "Learn": [
        "docs/lecture",
        "docs/lecture_answers",
        "docs/cross_attention",
        "docs/failed_alignments",
    ],
    "Train and compare": [
        "docs/training",
        "docs/models",
        "docs/mechanisms",
        "docs/comparing",
        "docs/running",
        "docs/report",
    ],
    "Use": ["docs/decoding", "docs/serving"],
    "Write programs": ["docs/library", "docs/attention", "docs/own_parts", "docs/reference"],
    "The project": ["docs/performance", "docs/design", "CONTRIBUTING", "CHANGELOG"],
}
include_patterns = ["*.md", "docs/*.md", "docs/*.ipynb"]
exclude_patterns = [".*", "runs"]
extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.githubpages",  # a file that has GitHub serve folders such as _static
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
]
html_theme = "furo"
html_show_copyright = False  # LICENSE says it
nb_execution_mode = "off"
myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 4
default_role = "code"
autodoc_default_options = {"members": True}
autodoc_member_order = "bysource"
napoleon_use_ivar, napoleon_attr_annotations = True, False


def navigated(app, page, source):
    """Adds the navigation to the home page; in the README, other readers would see its text."""
    if page == root_doc:
        for heading, pages in NAVIGATION.items():
            lines = "\n".join(pages)
            source[0] += f"\n```{{toctree}}\n:hidden:\n:caption: {heading}\n\n{lines}\n```\n"


def helped(app, what, name, value, options, lines):
    """Adds to the options of an experiment what `--help` says of them."""
    for field in dataclasses.fields(value) if dataclasses.is_dataclass(value) else ():
        if text := field.metadata.get("help"):
            lines.append(f":ivar {field.name}: {text}")


def undocumented(app, what, name, value, skip, options):
    """Leaves out the fields of named tuples, which their classes document."""
    return skip or str(value.__doc__).startswith("Alias for field number")


def opened_first(app, error):
    """Makes the home page that which a server shows."""
    if not error:
        shutil.copy(app.outdir / "README.html", app.outdir / "index.html")


def setup(app):
    """Calls these functions while the site is made."""
    app.connect("source-read", navigated)
    app.connect("autodoc-process-docstring", helped)
    app.connect("autodoc-skip-member", undocumented)
    app.connect("build-finished", opened_first)
