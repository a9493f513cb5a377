__version__: str

# Attention as a module for a decoder of somebody else's.
from . import nn

# When words were spoken.
from .alignment.times import Timed, word_times

# Mechanisms: parts, your own too, and how they compute weights and contexts.
from .attention.attend import Sentence, attend, attend_all, attend_step, begin
from .attention.catalogue import GATES, MIXING, NORMALIZERS, SCORES, SOURCES, VALUES, WINDOWS
from .attention.mechanism import Mechanism
from .attention.protocol import (
    Gate,
    Mixing,
    Normalizer,
    Part,
    Past,
    Score,
    Values,
    Window,
    scaled_normal,
)
from .attention.steps import Memory
from .checks.mechanisms import check

# Experiments: what is trained, and in which folder.
from .config import Data, Experiment, Model, Train
from .drawing.alignments import heat_map
from .drawing.exchange import page

# Errors, and weights of models of other toolkits.
from .errors import InputError
from .hugging_face import weights_of
from .pairs import save_weights

# Losses of the weights of attention, your own too.
from .recipe.loss import Loss, Seen
from .recipe.losses import LOSSES
from .reporting.report import Answer, Report, report
from .runs.comparing import compare
from .runs.evaluation import evaluate
from .runs.slurm import Slurm
from .runs.sweeping import sweep
from .runs.training import train
from .runs.tuning import Trials, tuned_sweep
from .settings.value import inner, setting
from .startup import start

# Trained models.
from .translation.exporting import export, load_exported
from .translation.hypothesis import Hypothesis
from .translation.loading import load
from .translation.translator import Translator

__all__ = [
    "GATES",
    "LOSSES",
    "MIXING",
    "NORMALIZERS",
    "SCORES",
    "SOURCES",
    "VALUES",
    "WINDOWS",
    "Answer",
    "Data",
    "Experiment",
    "Gate",
    "Hypothesis",
    "InputError",
    "Loss",
    "Mechanism",
    "Memory",
    "Mixing",
    "Model",
    "Normalizer",
    "Part",
    "Past",
    "Report",
    "Score",
    "Seen",
    "Sentence",
    "Slurm",
    "Timed",
    "Train",
    "Translator",
    "Trials",
    "Values",
    "Window",
    "attend",
    "attend_all",
    "attend_step",
    "begin",
    "check",
    "compare",
    "evaluate",
    "export",
    "heat_map",
    "inner",
    "load",
    "load_exported",
    "nn",
    "page",
    "report",
    "save_weights",
    "scaled_normal",
    "setting",
    "start",
    "sweep",
    "train",
    "tuned_sweep",
    "weights_of",
    "word_times",
]
