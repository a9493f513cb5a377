"""The site of the documentation leaves out no page and no public name."""

import re
import runpy
from pathlib import Path

import attn_jax

ROOT = Path(__file__).parents[1]


def test_the_navigation_names_every_page():
    navigation = runpy.run_path(str(ROOT / "docs" / "conf.py"))["NAVIGATION"]
    named = [page for pages in navigation.values() for page in pages]
    files = [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("docs/*.ipynb")]
    assert sorted(["README", *named]) == sorted(
        str(file.relative_to(ROOT).with_suffix("")) for file in files
    )


def test_the_reference_has_every_public_name():
    page = (ROOT / "docs" / "reference.md").read_text()
    named = re.findall(r"^\.\. (?:auto|py:)\w+:: (?:attn_jax\.)?(\w+)", page, re.MULTILINE)
    assert sorted(named) == sorted(name for name in attn_jax.__all__ if not name.startswith("__"))
