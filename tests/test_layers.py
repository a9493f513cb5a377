"""The layers of the package import in one direction only, and no part of it imports TensorFlow."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import attn_jax

PACKAGE = Path(attn_jax.__file__).parent
BASE = {
    "errors",
    "tokens",
    "options",
    "config",
    "facts",
    "files",
    "run_files",
    "strict_json",
    "journal",
    "names",
    "settings",
    "part_names",
    "head_names",
    "own_code",
    "cache",
    "progress",
    "provenance",
    "version",
}
MAY_IMPORT = {
    "errors": set(),
    "tokens": set(),
    "files": {"errors"},
    "run_files": set(),
    "cache": {"errors"},
    "strict_json": set(),
    "journal": {"errors", "files", "strict_json"},
    "options": {"errors"},
    "part_names": {"attention", "errors", "names"},
    "config": {"attention", "errors", "options", "part_names"},
    "progress": {"config"},
    "facts": {"config", "errors", "files", "own_code", "run_files"},
    "provenance": {"facts", "files", "run_files", "strict_json", "version"},
    "version": set(),
    "names": {"errors", "options"},
    "head_names": {"errors"},
    "own_code": {"config", "errors", "files", "names", "run_files"},
    "settings": {"errors", "options"},
    "attention": {"errors", "settings", "attention"},
    "models": BASE | {"attention", "models"},
    "checks": BASE | {"attention", "models", "checks"},
    "data": BASE | {"data"},
    "training": BASE | {"models", "training"},
    "decoding": BASE | {"models", "decoding"},
    "alignment": BASE | {"data", "alignment"},
    "evaluation": BASE | {"alignment", "evaluation"},
    "report": BASE | {"attention", "evaluation", "report"},
    "translator": BASE | {"data", "models", "decoding"},
    "loading": BASE | {"data", "models", "decoding", "training", "translator"},
    "exporting": BASE | {"data", "decoding", "loading", "translator"},
}
THIRD_PARTY = {
    "attention": {"jax", "jaxtyping"},
    "alignment": {"numpy"},
    "evaluation": {"numpy", "sacrebleu", "scipy"},
    "report": {"numpy", "matplotlib", "rich"},
}


def imported(file: Path) -> set[str]:
    modules = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            modules |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            modules |= {f"{node.module}.{alias.name}" for alias in node.names}
    return modules


@pytest.mark.parametrize("layer", MAY_IMPORT)
def test_imports_only_what_it_may(layer):
    folder = PACKAGE / layer
    files = folder.glob("*.py") if folder.is_dir() else [folder.with_suffix(".py")]
    for file in files:
        for module in imported(file):
            parts = module.split(".")
            assert parts[0] != "experiments", f"{file.name} imports a program"
            if parts[0] == "attn_jax":
                assert parts[1] in MAY_IMPORT[layer], f"{file.name} imports {module}"
            elif layer in THIRD_PARTY and parts[0] not in sys.stdlib_module_names:
                assert parts[0] in THIRD_PARTY[layer], f"{file.name} imports {module}"


def test_every_layer_is_known():
    layers = {path.stem for path in PACKAGE.iterdir() if not path.name.startswith("__")}
    assert layers == set(MAY_IMPORT)


def test_flags_stay_in_the_programs():
    for file in PACKAGE.rglob("*.py"):
        assert not any(module.startswith("absl") for module in imported(file)), file


def test_programs_import_no_programs():
    files = {file.stem: file for file in (PACKAGE.parent / "experiments").glob("*.py")}
    programs = {name for name, file in files.items() if "__main__" in file.read_text()}
    for name, file in files.items():
        for module in imported(file):
            where, _, rest = module.partition(".")
            assert where != "experiments" or rest.split(".")[0] not in programs, name


def test_nothing_imports_tensorflow():
    program = "import sys, experiments.train, experiments.sweep; print('tensorflow' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout.strip() == "False", done.stderr
