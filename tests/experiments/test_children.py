"""The processes that a worker starts, and what becomes of them when it is interrupted."""

import functools
import subprocess
from concurrent.futures import ThreadPoolExecutor

from attn_jax.runs.children import Children

SLEEPS = functools.partial(subprocess.Popen, ["sleep", "600"])


def test_all_end_and_none_is_started_later():
    children = Children()
    started = [children.start(SLEEPS) for _ in range(2)]
    children.end()
    assert all(process.poll() is not None for process in started)
    assert children.ended
    assert children.start(SLEEPS) is None


def test_none_that_is_started_meanwhile_is_left():
    children, started = Children(), []

    def start():
        while (process := children.start(SLEEPS)) is not None and len(started) < 30:
            started.append(process)

    with ThreadPoolExecutor(3) as pool:
        futures = [pool.submit(start) for _ in range(3)]
        while len(started) < 3:
            pass
        children.end()
        for future in futures:
            future.result()
    assert all(process.poll() is not None for process in started)
