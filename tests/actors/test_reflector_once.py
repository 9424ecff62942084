"""A window is done once, whatever was known of its session before."""

from __future__ import annotations

from pathlib import Path

import pytest

from neverforget.actors import reflector_pauses
from neverforget.actors.reflector_calls import Calls
from neverforget.actors.reflector_messages import Reflect
from neverforget.actors.reflector_room import Room
from neverforget.actors.reflector_schedule import Schedule
from neverforget.actors.reflector_subjects import Subjects
from neverforget.actors.reflector_work import Worker
from neverforget.actors.request_ids import RequestIds
from neverforget.storage.clock import SystemClock
from tests.actors.reflecting import Stage, Told
from tests.actors.regions import NAMESPACE


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reflector_pauses, "PAUSE_S_MIN", 0.001)


@pytest.mark.parametrize("by_a_run", [True, False])
def test_what_a_partition_said_before_is_not_done_twice(tmp_path: Path, by_a_run: bool) -> None:
    """Its answer about what is due was kept while a run did the same window, or came after it was
    done: the facts were stored twice, under two plans. Seen with real deaths.
    """
    stage = Stage(tmp_path, reflect_every=2)
    try:
        stage.append("s", "remember one", "remember two")
        spec = stage.spec(automatic=False)
        calls, schedule = Calls(stage.channel, RequestIds()), Schedule(spec, SystemClock())
        due = calls.due(0, 9)
        assert [each.session for each in due] == ["s"]
        if by_a_run:
            schedule.runs.begin(Reflect(0, "run", True, NAMESPACE, "s", False))
            (run,) = schedule.runs.active()
            schedule.searched(run, 0, due, None)
        else:
            stage.reflect_all(Told())
        schedule.found_due(0, due)

        def stepped() -> None:
            if not schedule.queue.busy:
                schedule.close()

        Worker(0, spec, calls, Subjects(calls), Told, schedule, stepped, Room()).run()
        assert stage.texts() == ["one", "two"]
    finally:
        stage.close()
