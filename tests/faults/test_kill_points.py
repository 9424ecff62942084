"""kill -9 between write, sync, index and reply, and the client's repeat after each.

Every death is at an exact call. The next owner is asked again for what was not acknowledged, under
the same request ids: each turn is there once, and what was acknowledged keeps its seq.
"""

from __future__ import annotations

import signal
from contextlib import closing
from pathlib import Path

import pytest

from tests.faults.forked import Forked
from tests.faults.oracle import STORE_ID, Appender, Oracle, Owner, create_region
from tests.faults.shim import Action, Shim

DEATHS = [
    pytest.param("pwrite", Action.KILL_BEFORE, id="before-write"),
    pytest.param("pwrite", Action.KILL_AFTER, id="between-write-and-sync"),
    pytest.param("fdatasync", Action.KILL_BEFORE, id="before-sync"),
    pytest.param("fdatasync", Action.KILL_AFTER, id="between-sync-and-reply"),
]


@pytest.mark.parametrize(("call", "action"), DEATHS)
def test_a_death_at_an_exact_call_loses_and_doubles_nothing(
    shim: Shim, tmp_path: Path, long_run: bool, call: str, action: Action
) -> None:
    region, acks = tmp_path / "p0", tmp_path / "acks"
    create_region(region)

    def heard() -> Oracle:
        oracle = Oracle(turns=2)
        for line in acks.read_text().split("\n")[:-1] if acks.exists() else []:
            oracle.hear(line)
        return oracle

    with closing(Forked("tests.faults.many_appenders", shim)) as appenders:
        for death in range(50 if long_run else 3):
            # The log's own file, and never the first write of a life: that may be recovery's.
            rule = shim.arm(call, action, path=".seg", first=2 + death * 3)
            appenders.ready(f"{acks} {region} {STORE_ID} --first {heard().last + 1} --turns 2")
            assert appenders.go() == -signal.SIGKILL
            assert rule.hits == 1
            shim.disarm_all()
        # The last repeat, in peace.
        last = heard().last + 1
        appenders.ready(f"{acks} {region} {STORE_ID} --first {last} --turns 2 --count 3")
        assert appenders.go() == 0
    oracle = heard()
    assert oracle.errors == []
    with Owner(region) as owner:
        turns = owner.check(oracle)
        assert turns == 2 * oracle.last, "every number was asked for until it was acknowledged"
        assert owner.verify() == []


def test_repeats_of_everything_change_nothing(tmp_path: Path) -> None:
    """A client that has lost all its answers asks for 1..n again, twice, of two owners."""
    region = tmp_path / "p0"
    create_region(region)
    oracle = Oracle()
    for life in range(3):
        writer = Appender(region, tmp_path / f"acks{life}", "--count", 100, "--group", 7)
        assert writer.wait() == 0
        writer.heard_by(oracle)
        with Owner(region) as owner:
            assert owner.check(oracle) == 100
    assert oracle.acked == {number: number - 1 for number in range(1, 101)}
