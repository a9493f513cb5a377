#!/usr/bin/env bash
# Sets up and runs everything.
#
#   ./launch.sh                  install, compare attention mechanisms, write a report (the main job)
#   ./launch.sh test [ARGS]      install, check style and types, and run the tests; --all: both stages
#   ./launch.sh bench [FLAGS]    install the peers too, and measure this project beside them
#   ./launch.sh docs [FOLDER]    install Sphinx too, and make a site of all documentation: runs/docs/html
#   ./launch.sh PROGRAM [FLAGS]  install, and run a program, such as train; ./launch.sh help lists all
#
# The first call creates .venv beside this file with the newest working Python (3.11 to 3.14).
set -euo pipefail

# Python is not to look for its own modules in the current folder.
export PYTHONSAFEPATH=1

root=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
venv=$root/.venv
python=$venv/bin/python
peers=$root/.venv-peers/bin/python
if [[ $root == *:* ]]; then
    echo "error: Python cannot use a folder with : in its name: move $root" >&2
    exit 2
fi

# Prints the path of the first of some versions of Python that starts; an empty pyenv shim does not.
working_python() {
    local minor candidate
    for minor in "$@"; do
        for candidate in "$(command -v "python3.$minor" || true)" \
            "${PYENV_ROOT:-${HOME:-}/.pyenv}"/versions/3."$minor".*/bin/python \
            "${HOME:-}"/.local/share/uv/python/cpython-3."$minor".*/bin/python \
            "$(command -v python3 || true)"; do
            if [ -x "$candidate" ] && "$candidate" -c \
                "import sys, venv; sys.exit(sys.version_info[:2] != (3, $minor))" 2>/dev/null; then
                echo "$candidate"
                return
            fi
        done
    done
    echo "error: no working Python 3.x was found, x one of: $*" >&2
    exit 2
}

# Installs the package with extras, unless that has already been done for this pyproject.toml.
install() {
    local extras=$1 stamp=$venv/.installed base wanted
    wanted=$(cksum <"$root/pyproject.toml")
    # nvidia-smi may take seconds, or be missing; once it has found a GPU, the stamp remembers it.
    if grep -qs cuda "$stamp" || nvidia-smi >/dev/null 2>&1; then
        extras=cuda${extras:+,$extras} # first, as the stamp of more extras begins
    fi
    if [ -x "$python" ] && grep -qsF "$wanted $extras" "$stamp"; then
        return
    fi
    if [ ! -x "$python" ]; then
        if [ -e "$venv" ] && [ ! -w "$venv" ]; then
            echo "error: $venv belongs to another user, whose Python cannot be started" >&2
            exit 2
        fi
        base=$(working_python 14 13 12 11)
        echo "making .venv with $("$base" --version)" >&2
        rm -rf "$venv" # one whose Python has been removed since would be mended only in part
        trap 'rm -rf "$venv"' EXIT # half made, it would be taken for whole the next time
        if command -v uv >/dev/null; then
            uv venv --quiet --python "$base" "$venv"
        else
            "$base" -m venv "$venv"
        fi
        trap - EXIT
    fi
    echo "installing attn_jax${extras:+ with $extras} (the first time takes a minute)" >&2
    if command -v uv >/dev/null; then
        uv pip install --quiet --compile-bytecode --python "$python" -e "$root${extras:+[$extras]}"
    else
        "$python" -m pip install --quiet --disable-pip-version-check -e "$root${extras:+[$extras]}"
    fi
    echo "$wanted $extras" >"$stamp"
}

# Installs the peers of the benchmarks into an environment of their own.
install_peers() {
    local folder=$root/.venv-peers stamp=$root/.venv-peers/.installed
    local packages=(torch==2.13.0 numpy keras==3.15.1)
    if grep -qsxF "${packages[*]}" "$stamp"; then
        return
    fi
    echo "installing ${packages[*]} into .venv-peers (some minutes)" >&2
    "$(working_python 11)" -m venv "$folder"
    "$peers" -m pip install --quiet --disable-pip-version-check "${packages[@]}" >&2
    echo "${packages[*]}" >"$stamp"
}

usage() {
    sed -n '4,8s/^# *//p' "${BASH_SOURCE[0]}"
}

command=${1:-main}
[ $# -gt 0 ] && shift
case $command in
test)
    install test
    cd "$root"
    unset PYTHONSAFEPATH # the current folder is this project
    export JAX_PLATFORMS=${JAX_PLATFORMS:-cpu} # a process for each core would each want all of a GPU
    "$python" -m ruff check --quiet .
    "$python" -m ruff format --check --quiet .
    "$python" -m pyrefly check --python-interpreter-path="$python" --min-severity=error --summary=none
    exec "$python" -m pytest -n auto --dist=loadfile "$@"
    ;;
bench)
    install ""
    export PYTHONPATH=$root # for the peers
    exec "$python" -m experiments.bench "$@"
    ;;
peers) # for `bench`, which calls this if it needs them
    install_peers
    echo "$peers"
    ;;
docs)
    install docs
    folder=${1:-runs/docs}
    exec "$python" -m sphinx --quiet --fail-on-warning --conf-dir "$root/docs" \
        --doctree-dir "$folder/doctrees" "$root" "$folder/html"
    ;;
catalogue)
    install ""
    exec "$python" -m experiments.catalogue "$@"
    ;;
sweep)
    extras=
    [[ " $* " == *" --executor=slurm "* ]] && extras=slurm
    install "$extras"
    exec "$python" -m attn_jax sweep "$@"
    ;;
help | --help | -h)
    usage
    install ""
    exec "$python" -m attn_jax help
    ;;
*)
    install ""
    exec "$python" -m attn_jax "$command" "$@"
    ;;
esac
