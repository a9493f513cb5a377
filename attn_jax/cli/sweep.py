"""Runs a grid: `./launch.sh sweep --workdir=runs/scores --grid.model.score=additive,dot`.

Each option has a flag `--grid.<option>=value,value`; every combination that makes sense is one run,
in a folder of its own. `--systems=FILE` names a file with the flags of one system on each line, to
be combined with the grid. The same command again skips finished runs and resumes the others.
`--only` and `--part` make some of the runs, for other machines with the same folder.
`--executor=slurm` has Slurm make them. `--search.trials` tunes each system first,
by trials of what `--search.<option>` draws.
"""

from pathlib import Path
from typing import Any

import jax
from absl import flags as absl_flags

from attn_jax import config
from attn_jax.cli import flags, sweep_flags
from attn_jax.cli.flags import FLAGS
from attn_jax.cli.program import OF_TRAINING
from attn_jax.errors import InputError
from attn_jax.runs.executor import slots
from attn_jax.runs.measuring import Cost, makespan, measured_systems, told
from attn_jax.runs.standing import standings, summary
from attn_jax.runs.sweeping import (
    Sweep,
    part_of,
    plan_in,
    planned_sweep,
    sweep,
    sweep_in,
)
from attn_jax.runs.tuning import tuned_sweep

ADVICE = OF_TRAINING


def grid() -> dict[str, list[str]]:
    """The options that vary, each with its values."""
    found = {name: flags.value_of(f"grid.{name}") for name in config.known()}
    return {name: values for name, values in found.items() if values}


def define() -> None:
    """Defines the flags."""
    flags.define_workdir("folder for the runs")
    flags.define_experiment()
    flags.define_values("grid", "values to try")
    absl_flags.DEFINE_string("systems", "", "file with the flags of one system on each line")
    sweep_flags.define_jobs()
    absl_flags.DEFINE_integer(
        "only", None, "number of the only run to make, as --list counts them", lower_bound=1
    )
    absl_flags.DEFINE_string("part", "1/1", "runs to make: 3/8 is every eighth, from the third on")
    absl_flags.DEFINE_bool("list", False, "list the runs and how far they are, and make none")
    absl_flags.DEFINE_bool("dry_run", False, "list the runs and the time they need, and make none")
    sweep_flags.define_executor()
    sweep_flags.define_search()


def main() -> None:
    """Trains and evaluates all runs that are not finished, or tells how far they are."""
    # This process only checks the runs, so it leaves accelerators to them.
    jax.config.update("jax_platforms", "cpu")
    search = sweep_flags.search()
    if FLAGS.list and FLAGS.dry_run:
        raise InputError("--list tells how far runs are, --dry_run the time they need: give one")
    tells = FLAGS.list or FLAGS.dry_run
    if tells and not varies():
        refuse_options()
    if tells and FLAGS["executor"].present:
        raise InputError("--list and --dry_run make no runs: leave out --executor")
    executor = sweep_flags.executor()
    if FLAGS.list:
        print_runs()
        return
    if FLAGS.dry_run:
        print_estimates(part_of(planned(), FLAGS.only, FLAGS.part))
        return
    where = {"jobs": FLAGS.jobs, "executor": executor}
    part = {"only": FLAGS.only, "part": FLAGS.part}
    if search is not None:
        tuned_sweep(flags.given(), FLAGS.workdir, search, **varied(), **where)
    else:
        sweep(flags.given(), FLAGS.workdir, **varied(), **where, **part)
    print(f"report --workdir={FLAGS.workdir} compares them")


def varied() -> dict[str, Any]:
    """What varies, as `sweep` takes it."""
    return {"grid": grid(), "systems": sweep_flags.systems()}


def varies() -> bool:
    """Whether the flags tell what varies, and so plan a sweep."""
    return bool(grid() or FLAGS.systems)


def planned() -> Sweep:
    """The sweep that is planned in the folder, or that these flags would plan."""
    if varies():
        return planned_sweep(flags.given(), FLAGS.workdir, **varied())
    return sweep_in(FLAGS.workdir)


def print_runs() -> None:
    """Prints a line on each run, also on those that cannot be read."""
    if varies():
        root, plan, wanted, _ = part_of(planned(), FLAGS.only, FLAGS.part)
    else:
        root, plan = Path(FLAGS.workdir), plan_in(FLAGS.workdir)
        wanted = plan.chosen(FLAGS.only, FLAGS.part)
    runs = standings(root, plan)
    for one in runs:
        if one.label in wanted:
            far, said = f"{one.step}/{one.steps}", one.why or one.said
            print(f"{one.number:4} {one.state:8} {far:>13} {one.label} {said}".rstrip())
    print(summary(runs))


def print_estimates(chosen: Sweep) -> None:
    """Prints a line on each run, and the time that they need."""
    places = slots(FLAGS.jobs)
    todo = [one for one in standings(chosen.root, chosen.plan) if one.label in chosen.wanted]
    runs = {one.label: chosen.plan.runs[one.label] for one in todo if any(one.left)}
    costs, durations = measured_systems(chosen.root, runs, places), []
    for one in todo:
        needed, cost = one.left, costs.get(one.label, "finished")
        if isinstance(cost, Cost):
            durations.append(cost.of(needed))
            cost = (
                f"{needed.steps} steps of {cost.step:.4f} s, {needed.validations} validations of "
                f"{cost.validation:.1f} s, with start and test {told(durations[-1])}"
            )
        print(f"{one.number:4} {one.label}: {cost}")
    print(f"about {told(makespan(durations, len(places)))}, {len(places)} at a time")


def refuse_options() -> None:
    """Raises InputError if options are given beside those of the plan."""
    given = [*flags.given(), *(f"grid.{name}" for name in grid())]
    given += ["systems"] if FLAGS.systems else []
    if given:
        raise InputError(
            f"without a grid, --list and --dry_run take the plan as it is: leave out --{given[0]}"
        )
