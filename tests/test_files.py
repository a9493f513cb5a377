"""Files that are written whole or not at all."""

import errno
import os

import pytest

from attn_jax.errors import InputError
from attn_jax.files import path_of, write_whole, writing


@pytest.mark.parametrize("place", [None, 3, ["runs/mine"]])
def test_what_is_no_path_is_refused(place):
    with pytest.raises(InputError, match=r"^expected the path of a folder, got"):
        path_of(place)


def test_files_stay_as_they_were_when_writing_ends_early(tmp_path):
    old, new = tmp_path / "old", tmp_path / "new"
    old.write_text("before")

    def write():
        with writing(old, new) as beside:
            beside[0].write_text("after")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write()
    assert old.read_text() == "before"
    assert list(tmp_path.iterdir()) == [old]
    write_whole(old, "after")
    assert old.read_text() == "after"
    assert list(tmp_path.iterdir()) == [old]


def test_a_full_disk_is_said_of_which_file(tmp_path):
    file = tmp_path / "file"
    with pytest.raises(OSError, match="No space left") as raised, writing(file):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    assert raised.value.filename == str(file)
