"""The page of a comparison: `report.md` and the figures beside it."""

from collections.abc import Iterable
from pathlib import Path

from attn_jax.files import write_whole
from attn_jax.reporting import drawings, tables
from attn_jax.reporting.about import about
from attn_jax.reporting.answer import answer
from attn_jax.reporting.cautions import cautions
from attn_jax.reporting.comparisons import Comparison
from attn_jax.reporting.drawings import Drawing, seeds_drawn
from attn_jax.reporting.printing import escaped, markdown
from attn_jax.reporting.sentences import telling_sentences
from attn_jax.reporting.style import save
from attn_jax.reporting.systems import stem

OUTPUTS = 3  # sentences whose translations are shown


def write_report(comparisons: Iterable[Comparison], folder: Path) -> Path:
    """Writes the page of some comparisons into a folder and returns its path."""
    parts = ["# Comparison of attention mechanisms"]
    for comparison in comparisons:
        parts += section(comparison, folder)
    page = folder / "report.md"
    write_whole(page, "\n\n".join(parts) + "\n")
    return page


def section(comparison: Comparison, folder: Path) -> list[str]:
    """The section of the page on one data set; writes its figures into the folder."""
    systems, profile = comparison.systems, comparison.profile

    def picture(drawing: Drawing) -> str:
        path = f"{stem(comparison.name)}-{drawing.kind}.png"
        save(drawing.draw(), folder / path)
        caption = escaped(drawing.caption)
        return f"![{caption}]({path})\n\n*{caption}*"

    parts = [
        f"## {escaped(comparison.name)}",
        *map(escaped, [*filter(None, [comparison.apart]), *answer(comparison)]),
        *filter(None, ["\n".join(f"- {escaped(line)}" for line in cautions(systems))]),
        *about(systems, profile, escaped, "`{}`".format),
        *tables.as_markdown(comparison),
        *map(picture, drawings.of_quality(systems, profile)),
    ]
    indices = telling_sentences(systems, OUTPUTS)
    order = ", first those on which systems differ most" if len(systems) > 1 else ""
    parts.append(f"Some test sentences{order} ({escaped(seeds_drawn(systems))}):")
    parts += [markdown(tables.outputs(systems, index)) for index in indices]
    parts += map(picture, drawings.one_sentence(systems, indices[0]))
    for run, drawing in drawings.all_heads(systems, indices[0]):
        parts += [picture(drawing), markdown(tables.heads(run)), tables.ABOUT_HEADS]
    return parts
