"""The layers of the package import in one direction only, and no part of it imports TensorFlow."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import attn_jax

PACKAGE = Path(attn_jax.__file__).parent
BASE = {"errors", "files", "tokens", "edits", "cache", "pairs", "settings", "recipe", "config"}
BASE |= {"records"}
# In this order: a room knows only those before it.
MAY_IMPORT = {
    "errors": set(),
    "tokens": set(),
    "edits": {"tokens"},
    "files": {"errors"},
    "cache": {"errors"},
    "pairs": {"errors", "files", "tokens"},
    "hugging_face": {"errors", "pairs"},
    "startup": {"cache", "errors"},
    "settings": {"errors", "settings"},
    "kernels": {"errors", "kernels"},
    "attention": {"errors", "settings", "kernels", "attention"},
    "recipe": {"attention.head_names", "attention.windows", "errors", "kernels.factors"}
    | {"recipe", "settings", "tokens"},
    "config": {"attention", "config", "errors", "recipe", "settings"},
    "records": {"__version__", "config", "errors", "files", "records", "settings"},
    "models": BASE | {"kernels", "attention", "models"},
    "nn": {"attention", "config", "errors", "models"},
    "checks": BASE | {"attention", "models", "checks"},
    "data": BASE | {"data"},
    "training": BASE | {"attention.head_names", "kernels", "models", "training"},
    "decoding": BASE | {"kernels", "models", "decoding"},
    "drawing": BASE | {"attention.head_names", "drawing"},
    "translation": BASE
    | {"attention.head_names", "data", "decoding", "drawing", "kernels", "models", "startup"}
    | {"training", "translation"},
    "alignment": BASE | {"alignment", "attention.head_names", "data", "translation"},
    "evaluation": BASE | {"alignment", "evaluation"},
    "reporting": BASE | {"attention", "data", "drawing", "evaluation", "reporting"},
    "runs": BASE
    | {"alignment", "attention", "checks", "data", "decoding", "drawing", "evaluation", "models"}
    | {"reporting", "runs", "startup", "training", "translation"},
    "cli": BASE
    | {"alignment", "attention", "checks", "cli", "data", "decoding", "drawing", "evaluation"}
    | {"models", "reporting", "runs", "startup", "training", "translation"},
    "trained": set(),  # runs that the package brings along
}
THIRD_PARTY = {
    "kernels": {"jax", "jaxtyping"},
    "attention": {"jax", "jaxtyping", "numpy"},
    "alignment": {"numpy"},
    "evaluation": {"numpy", "sacrebleu", "scipy"},
    "drawing": {"numpy", "matplotlib"},
    "reporting": {"numpy", "matplotlib", "pandas", "rich"},
}


def imported(file: Path) -> set[str]:
    modules = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            modules |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            inside = f"{file.parent.name}." if node.level else ""
            module = f"{inside}{node.module}" if node.module else file.parent.name
            modules |= {f"{module}.{alias.name}" for alias in node.names}
    return modules


@pytest.mark.parametrize("layer", MAY_IMPORT)
def test_imports_only_what_it_may(layer):
    folder = PACKAGE.joinpath(*layer.split("."))
    files = folder.rglob("*.py") if folder.is_dir() else [folder.with_suffix(".py")]
    for file in files:
        for module in imported(file):
            parts = module.split(".")
            assert parts[0] != "experiments", f"{file.name} imports a program"
            if parts[0] == "attn_jax":
                known = {parts[1], ".".join(parts[1:3])}
                assert known & MAY_IMPORT[layer], f"{file.name} imports {module}"
            elif layer in THIRD_PARTY and parts[0] not in sys.stdlib_module_names:
                assert parts[0] in THIRD_PARTY[layer], f"{file.name} imports {module}"


def test_every_layer_is_known():
    layers = {path.stem for path in PACKAGE.iterdir() if not path.name.startswith("__")}
    assert layers == {*MAY_IMPORT}


def test_flags_stay_in_the_programs():
    for file in {*PACKAGE.rglob("*.py")} - {*PACKAGE.glob("cli/*.py")}:
        assert not any(module.startswith("absl") for module in imported(file)), file


# What only `models/` knows; the records of a beam have words too.
OF_THE_MODEL = {"features", "readout", "output_layer", "words"}
OF_A_BEAM = {"live.words", "extended.words", "step.words", "trace.words"}


@pytest.mark.parametrize("room", ["training", "decoding"])
def test_models_answer_in_one_currency(room):
    """Training and decoding know nothing of what a model computes probabilities from."""
    for file in (PACKAGE / room).glob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Attribute) and ast.unparse(node) not in OF_A_BEAM:
                assert node.attr not in OF_THE_MODEL, f"{file.name}: {ast.unparse(node)}"
            if isinstance(node, (ast.Name, ast.arg)):
                name = node.id if isinstance(node, ast.Name) else node.arg
                assert name not in OF_THE_MODEL - {"words"}, f"{file.name}: {name}"


BY_HAND = {
    "custom_vjp",
    "custom_jvp",
    "custom_gradient",
    "optimization_barrier",
    "with_layout_constraint",
    "checkpoint",
    "checkpoint_name",
    "remat",
}


def test_what_is_written_by_hand_for_speed_stands_in_the_kernels():
    """Derivatives, layouts, barriers and what is recomputed; Orbax has its own checkpoints."""
    for file in PACKAGE.rglob("*.py"):
        if file.parent.name != "kernels":
            for node in ast.walk(ast.parse(file.read_text())):
                if isinstance(node, ast.Attribute) and ast.unparse(node).startswith("jax."):
                    assert node.attr not in BY_HAND, f"{file.name}: {ast.unparse(node)}"
            for module in imported(file):
                where, _, name = module.rpartition(".")
                assert not where.startswith("jax") or name not in BY_HAND, f"{file.name}: {module}"


def test_programs_import_no_programs():
    programs = {file.stem for file in (PACKAGE.parent / "experiments").glob("*.py")}
    for file in (PACKAGE / "cli").glob("*.py"):
        for module in imported(file):
            where, _, name = module.rpartition(".")
            assert where != "attn_jax.cli" or name not in programs, f"{file.name}: {module}"


def test_nothing_imports_tensorflow():
    modules = "attn_jax.runs.sweeping, attn_jax.runs.training"
    program = f"import sys, {modules}; print('tensorflow' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout.strip() == "False", done.stderr
