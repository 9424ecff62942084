"""How a host tells the client that started it how that went."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator

import pytest

from neverforget.runtime.start_report import ReportPipe, StartReport
from neverforget.storage.errors import StoreLocked, Unavailable


@pytest.fixture
def pipe() -> Iterator[ReportPipe]:
    found = ReportPipe()
    yield found
    found.close()


def host_side(pipe: ReportPipe, monkeypatch: pytest.MonkeyPatch) -> StartReport:
    """As in the host: its copy of the descriptor, in its environment."""
    for name in pipe.environment:
        monkeypatch.setenv(name, str(os.dup(pipe.descriptor)))
    pipe.started()
    return StartReport.from_environment()


def soon() -> float:
    return time.monotonic() + 20


def test_up_is_up(pipe: ReportPipe, monkeypatch: pytest.MonkeyPatch) -> None:
    report = host_side(pipe, monkeypatch)
    report.ready()
    assert pipe.wait(soon())
    report.ready()  # once is enough
    assert StartReport.from_environment()._descriptor is None


def test_what_went_wrong_is_raised_as_what_it_was(
    pipe: ReportPipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    host_side(pipe, monkeypatch).failed(StoreLocked("taken", pid=7, role="serve"))
    with pytest.raises(StoreLocked, match="taken") as caught:
        pipe.wait(soon())
    assert (caught.value.pid, caught.value.role) == (7, "serve")


def test_any_other_error_is_unavailable(pipe: ReportPipe, monkeypatch: pytest.MonkeyPatch) -> None:
    host_side(pipe, monkeypatch).failed(RuntimeError("no memory"))
    with pytest.raises(Unavailable, match="no memory"):
        pipe.wait(soon())


def test_a_death_without_a_word_is_noticed(
    pipe: ReportPipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    report = host_side(pipe, monkeypatch)
    assert report._descriptor is not None
    os.close(report._descriptor)
    assert not pipe.wait(soon())


def test_a_host_that_takes_too_long_is_not_waited_for(
    pipe: ReportPipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    report = host_side(pipe, monkeypatch)
    with pytest.raises(TimeoutError):
        pipe.wait(time.monotonic() + 0.01)
    report.ready()


def test_the_report_does_not_reach_further_processes(
    pipe: ReportPipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    report = host_side(pipe, monkeypatch)
    assert report._descriptor is not None
    assert not os.get_inheritable(report._descriptor)
    assert not set(pipe.environment) & set(os.environ)
    report.ready()
