"""Advice about the precision of products."""

from unittest.mock import NonCallableMock

import jax
import pytest

from attn_jax.errors import InputError
from attn_jax.recipe import precision
from attn_jax.recipe.precision import LARGE, PRECISIONS, Bfloat16, Float32, advice, check


def device(platform, **more):
    return NonCallableMock(jax.Device, platform=platform, **more)


@pytest.mark.parametrize(
    ("flags", "fast", "slow"),
    [
        ("flags : avx512f amx_bf16 amx_tile", "bfloat16", "float32"),
        ("flags : avx512f avx512_bf16 avx512vl", "bfloat16", "float32"),
        ("flags : avx2", "float32", "bfloat16"),
        (None, "float32", "bfloat16"),
    ],
)
def test_a_processor(tmp_path, monkeypatch, flags, fast, slow):
    file = tmp_path / "cpuinfo"
    if flags is not None:
        file.write_text(flags)
    monkeypatch.setattr(precision, "PROCESSOR", file)
    assert advice(PRECISIONS[fast](), device("cpu"), LARGE) is None
    assert f"train.compute={fast}" in advice(PRECISIONS[slow](), device("cpu"), LARGE)


@pytest.mark.parametrize(
    ("device", "fast"),
    [
        (device("gpu", compute_capability="9.0"), "bfloat16"),
        (device("gpu", compute_capability="7.5"), "float32"),
        (device("gpu", compute_capability="gfx90a"), "float32"),
        (device("gpu"), "float32"),
    ],
)
def test_a_gpu(device, fast):
    known = [name for name, kind in PRECISIONS.items() if advice(kind(), device, LARGE) is None]
    assert known == [fast]


def test_bfloat16_is_not_recommended_for_small_models():
    assert advice(Float32(), device("gpu", compute_capability="9.0"), LARGE - 1) is None


def test_a_tpu_multiplies_bfloat16_in_either():
    assert [advice(kind(), device("tpu"), LARGE) for kind in PRECISIONS.values()] == [None, None]


def test_a_gpu_that_cannot_multiply_bfloat16_is_refused():
    old = device("gpu", device_kind="Tesla T4", compute_capability="7.5")
    with pytest.raises(InputError, match=r"capability 8 or more: this one, Tesla T4, has 7\.5"):
        check(Bfloat16(), old)
    check(Float32(), old)


@pytest.mark.parametrize(
    "device",
    [
        device("gpu", compute_capability="8.0"),
        device("gpu", compute_capability="gfx90a"),
        device("gpu"),
        device("tpu"),
        device("cpu"),
    ],
)
def test_no_other_device_is_refused(device):
    for kind in PRECISIONS.values():
        check(kind(), device)
