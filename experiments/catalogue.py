"""Writes docs/mechanisms.md: `./launch.sh catalogue --workdir=runs/mechanisms`.

The list of mechanisms is made of their docstrings and signatures, the tables below it of the runs
in the workdir, which `experiments/presets/mechanisms.flags` says how to get.
"""

import re
from collections.abc import Callable, Mapping
from itertools import chain
from pathlib import Path

from attn_jax.attention.catalogue import NORMALIZERS, SCORES, WINDOWS
from attn_jax.attention.parts import Part, Sizes
from attn_jax.errors import InputError
from attn_jax.report.cells import Cell, find_cells
from attn_jax.report.systems import by_data, by_system
from attn_jax.report.tables import Table, mean_and_deviation, steps_to_learn
from experiments import flags
from experiments.flags import FLAGS
from experiments.program import run

FILE = Path(__file__).parents[1] / "docs" / "mechanisms.md"
MEASURED = "## Measured"
# Numbers that stand for sizes, since shapes are made of numbers.
Q, D, A = 1009, 1013, 1019
LETTERS = {Q: "Q", D: "D", A: "A", Q + D: "Q+D"}

INTRODUCTION = """# Mechanisms

*This page is made by `./launch.sh catalogue`.*

A mechanism is a score, a window and a normalizer: `--model.score='location_aware(width=5)'`,
`--model.window=local_p`, `--model.normalizer='entmax(alpha=1.25)'`, with any number of heads
(`--model.heads`, `--model.key_value_heads`, `--model.head_size`, `--model.projection`). All of them
run in every recurrent decoder (`bahdanau`, `luong`, `luong_input_feeding`), with any cell, and as
cross-attention of the Transformer decoder. One that *looks back* at earlier attention goes through
known targets step by step where the decoder would otherwise do all steps at once (`luong`,
`transformer`).

Refused, with a sentence that says why: windows or other normalizers for `mean` and `last`;
`exponential` for scores other than `gmm`; windows and monotonic normalizers for `gmm`; windows
for monotonic normalizers; `mocha` for a score with a carry; dot scores of states and annotations
that differ in size, without heads.

Parameters are those that a model owns. Without a model, what is done once per sentence comes in as
keys, and the rest is bound to the function. Where a score has `keys`, that makes them:
`SCORES["additive"].keys(h, U=U)`, which is `h @ U`, or `SCORES["general"].keys(h, W=W)`; otherwise
they are the annotations. `attend(s, h @ U, h, score=partial(SCORES["additive"], W=W, v=v))` reads
from one sentence. `mocha` reads two scores, [2, S]. `monotonic` and `mocha` are what a model trains
with; `attn_jax.attention.monotonic` has `hard_monotonic` and `hard_mocha`, with which it decodes.

T target steps, S source positions, Q units of the query, D features of an annotation, A alignment
units; s the query, h_j an annotation, e_j a score. Costs are those of all steps of one sentence and
one head; memory is that of training.
"""


def paragraph(docstring: str, name: str) -> str:
    """What follows `name:` in a docstring, on one line."""
    found = re.search(rf"^ *{name}: (.*?)(?:\n\s*\n|\n *[A-Z][a-z]+: |\Z)", docstring, re.S | re.M)
    return " ".join(found.group(1).split()).rstrip(".") if found else ""


def parameters(part: Part) -> str:
    """The parameters of a part with their shapes in letters."""
    try:
        shapes = part.shapes(Sizes(Q, D, A))
    except InputError:  # a dot score
        shapes = part.shapes(Sizes(Q, Q, A))
    return ", ".join(
        f"{name} [{', '.join(LETTERS.get(size, str(size)) for size in shape)}]"
        for name, shape in shapes.items()
    )


def catalogue(table: Mapping[str, Callable]) -> Table:
    """Everything that is known of the parts in a table."""
    heading = ["name", "formula", "parameters", "settings", "looks back", "cost", "paper"]
    sums = any("Sum:" in function.__doc__ for function in table.values())
    if sums:
        heading.insert(2, "sum")
    rows = []
    for name, function in table.items():
        part, docstring = Part(function), function.__doc__
        row = [
            f"`{name}`",
            docstring.partition("\n")[0].rstrip("."),
            parameters(part),
            ", ".join(f"{key}={value:g}" for key, value in part.settings.items()),
            "yes" if part.looks_back else "",
            paragraph(docstring, "Cost"),
            paragraph(docstring, "Paper"),
        ]
        if sums:
            row.insert(2, paragraph(docstring, "Sum"))
        rows.append(row)
    return Table(heading, rows)


def mechanisms() -> str:
    """The page without what was measured."""
    sections = [
        INTRODUCTION,
        *(
            f"## {title}\n\n{catalogue(table).markdown()}\n"
            for title, table in {
                "Scores": SCORES,
                "Windows": WINDOWS,
                "Normalizers": NORMALIZERS,
            }.items()
        ),
    ]
    return "\n".join(sections)


def measured(cells: list[Cell]) -> Table:
    """What each mechanism learned on each data set, mean ± standard deviation over seeds."""
    groups = {name: by_system(group) for name, group in sorted(by_data(cells).items())}
    heading = ["system", "seeds"]
    for name in groups:
        titles = ("exact %", "aligned %", "shift", "steps to 99 %", "steps/s")
        heading += [f"{name}: {title}" for title in titles]
    labels = dict.fromkeys(chain.from_iterable(groups.values()))
    rows = []
    for label in labels:
        row = [label, str(max(len(systems.get(label, [])) for systems in groups.values()))]
        for systems in groups.values():
            runs = systems.get(label, [])
            if not runs:
                row += [""] * 5
                continue
            shifts = {cell.evaluation["alignment_shift"] for cell in runs}
            rates = [cell.journal[-1]["steps_per_second"] for cell in runs]
            row += [
                mean_and_deviation([cell.evaluation["exact_match"] for cell in runs], 1),
                mean_and_deviation([cell.evaluation["alignment_accuracy"] for cell in runs], 1),
                ", ".join(f"{shift:+d}" for shift in sorted(shifts)),
                steps_to_learn(runs),
                mean_and_deviation(rates, 0),
            ]
        rows.append(row)
    return Table(heading, rows)


def main() -> None:
    """Writes the page; what was said of the measurements stays."""
    cells, left_out = find_cells(Path(FLAGS.workdir))
    if not cells or left_out:
        why = "".join(f", and {folder} ({why})" for folder, why in left_out.items())
        raise InputError(f"{FLAGS.workdir} holds {len(cells)} runs{why}")
    said = FILE.read_text("utf-8").partition(MEASURED)[2] if FILE.is_file() else "\n"
    for cell in cells:
        if "alignment_shift" not in cell.evaluation:
            raise InputError(f"the page needs gold alignments, which {cell.data} does not have")
    table = measured(cells)
    before = sum(line.startswith("|") for line in said.splitlines()) - 2  # less heading and rule
    if len(table.rows) < before:
        raise InputError(
            f"{FLAGS.workdir} holds {len(table.rows)} systems and would replace {before} in {FILE}"
        )
    remarks = "\n".join(line for line in said.splitlines() if not line.startswith("|")).strip()
    page = [mechanisms(), MEASURED, "", remarks, "", table.markdown(), ""]
    FILE.write_text("\n".join(page), "utf-8")
    print(f"wrote {FILE}")


if __name__ == "__main__":
    flags.define_workdir("folder of the sweep over all mechanisms")
    run(main)
