"""From the folder of a run to a translator with the trained model."""

import difflib
import warnings
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import cast

import jax
from flax import nnx

from attn_jax import config
from attn_jax.config import Experiment, Model
from attn_jax.data.run_vocabularies import load_vocabulary
from attn_jax.data.vocabulary import Vocabulary
from attn_jax.decoding.ensemble import COMBINATIONS
from attn_jax.errors import InputError, choose
from attn_jax.files import path_of
from attn_jax.models.seq2seq import Seq2Seq
from attn_jax.records import manifest, provenance, run_files
from attn_jax.records.own_code import edited, import_modules, recorded_modules
from attn_jax.startup import start
from attn_jax.training.checkpoints import Checkpoints, named_leaves, shapes
from attn_jax.translation.translator import Translator

Place = str | Path

# Runs that the package brings along, by name; presets say how they were trained.
TRAINED = Path(__file__).parents[1] / "trained"


def load(
    paths: Place | Sequence[Place],
    checkpoint: str | int = "best",
    combination: str = "log_probabilities",
) -> Translator:
    """A translator with the model that a run has trained, or with several models.

    Needs only the folder of the run, and the user's own modules that its options name. Warns if
    such a module has changed since training, which is harmless if it still computes the same, and
    if a newer version of this package made the run. Sets up JAX, as `attn_jax.start` does.

    Args:
      paths: the folder of a run, or of one checkpoint in it, such as `runs/mine/checkpoints/1500`;
        or the name of a run that the package brings along, `dates`, if there is no such folder;
        or several of these, which must have the same vocabularies.
      checkpoint: which one to take from the folder of a run: `best` by the validation metric,
        `last`, or the number of a step.
      combination: of several models: an ensemble by the mean of their `log_probabilities` or of
        their `probabilities`, or one model with the mean of their `parameters`.

    Raises:
      InputError: a folder has no checkpoint of a run, or a damaged one; several models cannot be
        combined.
    """
    several = isinstance(paths, Iterable) and not isinstance(paths, str)
    places = cast(list[Place], list(cast(Iterable, paths)) if several else [paths])
    choose(COMBINATIONS | {"parameters": None}, combination, "combination of models")
    if not places:
        raise InputError("no run was given to load")
    start()
    runs = [located(path_of(place), str(checkpoint)) for place in places]
    for workdir, _ in runs:
        flags_of(workdir)
        concern = provenance.concern(workdir)
        if concern:
            warnings.warn(concern, stacklevel=2)
        manifest.check(workdir)
    sides = [load_vocabularies(workdir) for workdir, _ in runs]
    for (workdir, _), vocabularies in zip(runs, sides, strict=True):
        if [vocabulary.tokens for vocabulary in vocabularies] != [
            vocabulary.tokens for vocabulary in sides[0]
        ]:
            raise InputError(
                f"{workdir} has other vocabularies than {runs[0][0]}: models write together only "
                "in the same tokens"
            )
    changed = [
        phrase for workdir, _ in runs for phrase in edited(workdir, recorded_modules(workdir))
    ]
    try:
        experiments = [experiment_of(workdir) for workdir, _ in runs]
        models = [
            _load_model(*run, experiment.model, *vocabularies)
            for run, experiment, vocabularies in zip(runs, experiments, sides, strict=True)
        ]
    except InputError as error:
        raise InputError("; ".join([str(error), *changed])) from error
    for phrase in changed:
        warnings.warn(f"{phrase}: the parameters may no longer fit it", stacklevel=2)
    if combination == "parameters":
        starts = [experiment.train.initial for experiment in experiments]
        if len({workdir for workdir, _ in runs}) > 1 and not any(starts):
            warnings.warn(
                "the mean of parameters is meant for checkpoints of one run, or runs that started "
                "from another: those of runs of their own do not fit together",
                stacklevel=2,
            )
        models, combination = [mean_parameters(models)], "log_probabilities"
    limit = min(experiment.data.max_length for experiment in experiments)
    return Translator(models, *sides[0], limit, combination)


def located(place: Path, checkpoint: str = "best") -> tuple[Path, str]:
    """The folder of a run, and the checkpoint in it, that a path stands for.

    Args:
      place: the folder of a run, or of one checkpoint in it; or the name of a run that the package
        brings along, if there is no such folder.
      checkpoint: what to return as the checkpoint if `place` is the folder of a run.
    """
    if not place.exists() and run_files.flags(TRAINED / place.parts[0]).is_file():
        place = TRAINED / place
    workdir = place.parent.parent
    named = place.name.isdigit() or place.name in ("best", "last")
    a_run = run_files.flags(place).is_file()  # whatever its folder is called
    if place.parent == run_files.checkpoints(workdir) and named and not a_run:
        return workdir, place.name
    return place, checkpoint


def experiment_of(workdir: Path) -> Experiment:
    """The options of a run.

    Raises:
      InputError: the folder is not that of a run.
    """
    return config.read(flags_of(workdir))


def flags_of(workdir: Path) -> Path:
    """The flag file of a run.

    Raises:
      InputError: the folder is not that of a run.
    """
    file = run_files.flags(workdir)
    if not file.is_file():
        close = difflib.get_close_matches(str(workdir), [run.name for run in TRAINED.iterdir()], 1)
        hint = f" (did you mean {close[0]}?)" if close else ""
        raise InputError(f"{workdir} is not the folder of a run{hint}: it has no {file.name}")
    return file


def _load_model(
    workdir: Path, checkpoint: str, options: Model, source: Vocabulary, target: Vocabulary
) -> Seq2Seq:
    import_modules(options)

    def untrained() -> Seq2Seq:
        # Without `initialize`, which refuses to begin some models that earlier runs have trained.
        return Seq2Seq(options, source.sizes, len(target), rngs=nnx.Rngs(0))

    return load_parameters(workdir, jax.eval_shape(untrained), checkpoint)


def mean_parameters(models: Sequence[Seq2Seq]) -> Seq2Seq:
    """One model with the mean of the parameters, for example of several checkpoints of one run.

    As in Vaswani et al. 2017, section 6.1.

    Raises:
      InputError: the models have different options or sizes.
    """
    kinds = [(jax.tree.structure(model), shapes(named_leaves(model))) for model in models]
    if any(kind != kinds[0] for kind in kinds):
        raise InputError("parameters can be averaged only of models with the same --model options")
    return jax.tree.map(lambda *leaves: sum(leaves) / len(leaves), *models)


def load_parameters(workdir: Path, model: Seq2Seq, checkpoint: str = "best") -> Seq2Seq:
    """The model with the parameters of a checkpoint.

    Args:
      workdir: the folder of the run.
      model: a model, or its abstract value, with parameters of the same shapes.
      checkpoint: `best`, `last`, or the number of its step.

    Raises:
      InputError: there is no such checkpoint, it is damaged, or it is of another model.
    """
    checkpoints = _checkpoints(workdir)
    return checkpoints.restore(_step(workdir, checkpoints, checkpoint), "model", model)


def checkpoint_of(place: Path) -> Path:
    """The folder of the checkpoint that a path stands for, named after the number of its step.

    Args:
      place: the folder of a run, for the best one, or what else `located` takes.

    Raises:
      InputError: there is no such checkpoint.
    """
    return _folder(*located(place))


def best_checkpoint(workdir: Path) -> Path:
    """The folder of the best checkpoint of a run, named after the number of its step.

    Raises:
      InputError: the run has no checkpoint.
    """
    return _folder(workdir, "best")


def _folder(workdir: Path, checkpoint: str) -> Path:
    step = _step(workdir, _checkpoints(workdir), checkpoint)
    return run_files.checkpoints(workdir) / str(step)


def _checkpoints(workdir: Path) -> Checkpoints:
    if not run_files.checkpoints(workdir).is_dir():
        raise InputError(f"{workdir} has no checkpoint of a run")
    return Checkpoints(workdir)


def _step(workdir: Path, checkpoints: Checkpoints, name: str) -> int:
    steps = [*checkpoints.known()]
    if not steps:
        raise InputError(f"{workdir} has no checkpoint yet")
    named = {"best": None, "last": steps[-1]} | {str(step): step for step in steps}
    step = choose(named, name, "checkpoint")
    if name == "best":  # which needs a look into the checkpoints
        step = checkpoints.best
    if step is None:
        raise InputError(f"{workdir} has no best checkpoint")
    return step


def load_vocabularies(workdir: Path) -> tuple[Vocabulary, Vocabulary]:
    """The source and target vocabularies of a run."""
    source, target = (
        load_vocabulary(run_files.vocabulary(workdir, side)) for side in ("source", "target")
    )
    return source, target
