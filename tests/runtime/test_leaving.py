"""When a node host leaves by itself. With Ray: ``tests/cluster/test_drain.py``."""

from __future__ import annotations

import threading

from neverforget.runtime.leaving import (
    DRAINED_S_MAX,
    DRAINED_S_MIN,
    ENDED_S,
    Leave,
    Leaving,
    drained,
)


def test_a_drained_node_is_left_before_its_deadline() -> None:
    assert drained(1030.0, 1000.0).within_s == 29.0
    assert drained(1000.0 + 86_400.0, 1000.0).within_s == DRAINED_S_MAX
    assert drained(0.0, 1000.0).within_s == DRAINED_S_MAX  # 0: there is none
    assert drained(990.0, 1000.0).within_s == DRAINED_S_MIN  # late is no reason not to try


def test_the_first_reason_counts() -> None:
    left: list[Leave | None] = []
    too_late = threading.Event()
    leaving = Leaving(lambda: left.append(leaving.reason), lambda code: too_late.set())
    first = Leave("first", 0.0)
    threads = [threading.Thread(target=leaving.leave, args=(first,)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    leaving.leave(Leave("second", ENDED_S))
    assert left == [first] and leaving.reason is first
    assert too_late.wait(60.0)  # and who hangs is ended
