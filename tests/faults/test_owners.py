"""Two owners, and an owner that comes back from the dead: one of them writes, never both."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from neverforget.actors import region_opening
from tests.faults.oracle import Appender, Oracle, Owner, create_region
from tests.faults.shim import Action, Shim


def log_bytes(region: Path) -> bytes:
    return b"".join(path.read_bytes() for path in sorted((region / "log").glob("*.seg")))


def test_a_second_owner_is_refused_and_writes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(region_opening, "LOCK_WAIT_S", 0.0)
    region = tmp_path / "p0"
    create_region(region)
    first = Appender(region, tmp_path / "first")
    first.wait_for("ack", 10)
    with Owner(region) as second:
        assert second.state == "recovering"
        assert f"process {first.process.pid}" in str(second.partition.reason)
    assert first.process.poll() is None
    first.wait_for("ack", 50)
    first.kill()
    with Owner(region) as owner:
        owner.check(first.heard_by(Oracle()))
        assert owner.verify() == []


def test_a_stopped_owner_is_ended_before_its_successor_reads(tmp_path: Path) -> None:
    """SIGSTOP, a new owner, SIGCONT: no byte of the old one after the new one's lock."""
    region = tmp_path / "p0"
    create_region(region)
    oracle = Oracle()
    old = Appender(region, tmp_path / "old")
    old.wait_for("ack", 50)
    old.stop()
    with Owner(region) as owner:
        assert owner.state == "serving"
        before = log_bytes(region)
        with pytest.raises(ProcessLookupError):
            # Dead and reaped by nobody yet: it can be found, but not continued into writing.
            os.waitid(os.P_PID, old.process.pid, os.WEXITED | os.WNOWAIT)
            old.signal(signal.SIGCONT)
            raise ProcessLookupError
        assert log_bytes(region) == before
        old.heard_by(oracle)
        owner.check(oracle)
    assert old.wait() == -signal.SIGKILL


@pytest.mark.parametrize("call", ["pwrite", "fdatasync"])
def test_an_owner_stopped_at_its_write_never_gets_to_write(
    shim: Shim, tmp_path: Path, call: str
) -> None:
    """The worst moment: it is stopped with the system call next, so that SIGCONT would write."""
    region = tmp_path / "p0"
    create_region(region)
    stop = shim.arm(call, Action.STOP, path=".seg", first=12)
    old = Appender(region, tmp_path / "old", env=shim.environment)
    os.waitid(os.P_PID, old.process.pid, os.WSTOPPED | os.WNOWAIT)
    assert stop.hits == 1
    oracle = old.heard_by(Oracle())
    stopped_at = oracle.last
    new = Appender(region, tmp_path / "new", "--first", stopped_at + 1, "--count", 30, env=None)
    assert new.wait() == 0
    old.signal(signal.SIGCONT)
    assert old.wait() == -signal.SIGKILL
    new.heard_by(oracle)
    assert oracle.last == stopped_at + 30
    with Owner(region) as owner:
        assert owner.check(oracle) == stopped_at + 30
        assert owner.verify() == []


def test_taking_over_again_and_again_loses_nothing(tmp_path: Path, long_run: bool) -> None:
    """Stop, take over, stop, take over: every owner but the last was ended by its successor."""
    region = tmp_path / "p0"
    create_region(region)
    oracle = Oracle()
    stopped: list[Appender] = []
    for life in range(50 if long_run else 4):
        writer = Appender(region, tmp_path / f"acks{life}", "--first", life * 1_000_000 + 1)
        writer.wait_for("ack", 20)
        writer.stop()
        stopped.append(writer)
    with Owner(region) as owner:
        assert [one.wait() for one in stopped] == [-signal.SIGKILL] * len(stopped)
        for one in stopped:
            one.heard_by(oracle)
        owner.check(oracle)
        assert owner.verify() == []
