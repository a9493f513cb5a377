"""Runs that are made up, file by file: the manifest of each is of its files as they stand."""

import pytest

from attn_jax.records import manifest
from attn_jax.records.manifest import Content, Manifest


@pytest.fixture(autouse=True, scope="package")
def as_they_stand():
    def read(workdir):
        files = [file for file in workdir.rglob("*") if file.is_file()]
        names = [file.relative_to(workdir).as_posix() for file in files]
        contents = [[Content.of(file.read_bytes())] for file in files]
        return Manifest(dict(zip(names, contents, strict=True)))

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(manifest, "read", read)
        yield
