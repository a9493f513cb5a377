"""Advice about the precision of products."""

from types import SimpleNamespace

import pytest

from attn_jax.training import precision
from attn_jax.training.precision import PRECISIONS, advice


def device(platform, **more):
    return SimpleNamespace(platform=platform, **more)


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
    assert advice(fast, device("cpu")) is None
    assert f"--train.compute={fast}" in advice(slow, device("cpu"))


@pytest.mark.parametrize(
    ("device", "fast"),
    [
        (device("gpu", compute_capability="9.0"), "bfloat16"),
        (device("gpu", compute_capability="7.5"), "float32"),
        (device("gpu", compute_capability="gfx90a"), "float32"),
        (device("gpu"), "float32"),
        (device("tpu"), "bfloat16"),
    ],
)
def test_an_accelerator(device, fast):
    assert [name for name in PRECISIONS if advice(name, device) is None] == [fast]
