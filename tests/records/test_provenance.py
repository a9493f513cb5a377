"""The record of how a run came about."""

import contextlib
import json
import re
import subprocess
import warnings

import jax
import pytest

import attn_jax
from attn_jax.errors import InputError
from attn_jax.records import manifest, provenance, run_files
from attn_jax.reporting.about import made
from attn_jax.reporting.runs import Run
from tests.test_damage import train_in
from tests.translation.test_translator import OPTIONS

TINY = OPTIONS | {"train.steps": 1, "train.valid_every": 1, "data.examples": 100}


@pytest.fixture(scope="module")
def workdir(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "mine"
    train_in(folder, TINY)
    return folder


def test_each_start_of_a_run_is_recorded_and_none_is_lost(workdir):
    (first,) = provenance.read(workdir)
    train_in(workdir, TINY | {"train.steps": 2})
    before, after = provenance.read(workdir)
    assert before == first
    assert (before["from_step"], after["from_step"]) == (0, 1)
    assert before["begun"] <= before["ended"] <= after["begun"] <= after["ended"]
    train_in(workdir, TINY | {"train.steps": 2})  # nothing is left to train
    assert len(provenance.read(workdir)) == 2


def test_a_session_tells_with_what_the_run_was_made(workdir):
    session = provenance.read(workdir)[0]
    assert session["command"] == "Python"
    versions = session["versions"]
    assert versions["attn_jax"] == attn_jax.__version__
    assert versions["jax"] == jax.__version__
    assert None not in versions.values()
    device, *_ = jax.devices()
    assert session["devices"] == {
        "backend": device.platform,
        "kind": device.device_kind,
        "count": len(jax.devices()),
        "processes": 1,
    }


def test_the_commit_is_that_of_the_package_alone(tmp_path, monkeypatch):
    def git(*arguments):
        author = ["-c", "user.name=a", "-c", "user.email=a@b"]
        subprocess.run(["git", *author, *arguments], cwd=tmp_path, check=True, capture_output=True)

    file = tmp_path / "provenance.py"
    file.write_text("1\n")
    monkeypatch.setattr(provenance, "__file__", str(file))
    assert provenance._commit() is None
    git("init", "-q")
    assert provenance._commit() is None  # as if installed inside another repository
    git("add", "provenance.py")
    git("commit", "-qm", "first")
    (tmp_path / "notes").write_text("not of the repository")
    commit = provenance._commit()
    assert len(commit["id"]) == 40
    assert commit["clean"]
    file.write_text("2\n")
    assert provenance._commit() == commit | {"clean": False}
    monkeypatch.setenv("PATH", "")
    assert provenance._commit() is None


def test_an_end_is_recorded_after_an_error_too(tmp_path):
    with contextlib.suppress(KeyboardInterrupt), provenance.session(tmp_path, 5):
        assert provenance.read(tmp_path)[0]["ended"] is None
        raise KeyboardInterrupt
    (session,) = provenance.read(tmp_path)
    assert session["ended"]
    assert session["from_step"] == 5


def changed(workdir, folder, **changes):
    """A record like that of a run, with a session of other facts."""
    sessions = [provenance.read(workdir)[0] | changes]
    manifest.write(folder, run_files.provenance(folder), json.dumps(sessions))
    return folder


def test_a_run_of_a_newer_version_is_warned_of(workdir, tmp_path, monkeypatch):
    versions = provenance.read(workdir)[0]["versions"]
    newer = changed(workdir, tmp_path, versions=versions | {"attn_jax": "99.1.0"})
    assert "was made by attn_jax 99.1.0, newer than this one" in provenance.concern(newer)
    monkeypatch.setattr(provenance, "__version__", "0.0.9")
    told = re.escape(f"was made by attn_jax {attn_jax.__version__}, newer than this one")
    with pytest.warns(UserWarning, match=told):
        attn_jax.load(workdir)
    monkeypatch.setattr(provenance, "__version__", "0.10.0")
    older = changed(workdir, tmp_path, versions=versions | {"attn_jax": "0.9.1"})
    assert provenance.concern(older) is None
    assert "has files of format 2" in provenance.concern(changed(workdir, tmp_path, format=2))


def test_a_run_without_a_record_loads_without_a_word(workdir):
    file = run_files.provenance(workdir)
    record = file.read_bytes()
    file.unlink()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            attn_jax.load(workdir)
        assert provenance.read(workdir) == []
    finally:
        file.write_bytes(record)


def test_a_record_that_has_changed_is_refused(workdir, tmp_path):
    file = run_files.provenance(changed(workdir, tmp_path))
    file.write_text(file.read_text().replace('"begun": "2', '"begun": "3'))
    with pytest.raises(InputError, match=r"run.json is damaged: .*without that file"):
        provenance.read(tmp_path)


def test_reports_tell_the_versions_and_warn_where_they_differ(workdir):
    session = provenance.read(workdir)[0]

    def systems(**sessions):
        return {
            label: [Run({}, {}, [], [], [], sessions=[one] if one else [])]
            for label, one in sessions.items()
        }

    assert list(made(systems(dot=None))) == []
    (line,) = made(systems(dot=session, last=session, old=None))
    assert line == f"Trained by {provenance.summary(session)}."
    other = session | {"versions": session["versions"] | {"jax": "0.9.0"}}
    line, warning = made(systems(dot=session, last=other))
    assert line.startswith("Trained by dot: attn_jax")
    assert f"by different versions of JAX ({jax.__version__}, 0.9.0)" in warning
    other = session | {"devices": {"backend": "gpu", "kind": "H100", "count": 1}}
    _, warning = made(systems(dot=session, last=other))
    assert "on different kinds of device (cpu, H100)" in warning
