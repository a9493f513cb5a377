#!/usr/bin/env bash
# Runs the tests with Python 3.11 and the lowest versions that pyproject.toml allows.
#
#   tests/lowest.sh [ARGS]    ARGS are pytest's, such as tests/attention; all tests without them
#
# The environment is .venv-lowest beside the project; it needs uv, whose resolver knows how.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
command -v uv >/dev/null || {
    echo "error: install uv first (pip install uv)" >&2
    exit 2
}
venv=.venv-lowest
wanted=$(cksum <pyproject.toml)
if ! grep -qsxF "$wanted" "$venv/.installed"; then
    uv venv --quiet --clear --python 3.11 "$venv"
    # Of later versions of pyparsing, the lowest Matplotlib uses names that warn.
    uv pip install --quiet --python "$venv/bin/python" --resolution lowest-direct -e ".[test]" \
        "pyparsing<3.3"
    echo "$wanted" >"$venv/.installed"
fi
JAX_PLATFORMS=${JAX_PLATFORMS:-cpu} exec "$venv/bin/python" -m pytest -n auto "$@"
