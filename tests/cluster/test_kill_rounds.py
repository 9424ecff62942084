"""kill -9 of owners, of the host, and stopped owners, under load from eight processes. The long run
is the script itself: ``python -m tests.faults.kill_rounds --rounds 50``.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults.kill_rounds import rounds

pytestmark = pytest.mark.faults


def test_killed_owners_lose_and_double_nothing(short_path: Path, seed: int) -> None:
    summary = rounds(short_path / "store", short_path, count=2, clients=8, seed=seed)
    print(summary)
    assert summary.ok, summary
    assert summary.acknowledged > 1000


def test_killed_hosts_and_stopped_owners_lose_and_double_nothing(
    short_path: Path, seed: int
) -> None:
    summary = rounds(
        short_path / "store", short_path, count=3, clients=3, seed=seed, host_every=2, stop_every=3
    )
    print(summary)
    assert summary.ok, summary


@pytest.mark.long
@pytest.mark.timeout(1200)
def test_fifty_rounds(short_path: Path, seed: int) -> None:
    summary = rounds(
        short_path / "store", short_path, count=50, clients=8, seed=seed, host_every=10,
        stop_every=7,
    )  # fmt: skip
    print(summary)
    assert summary.ok, summary
