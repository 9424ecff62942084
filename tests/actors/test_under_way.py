"""What one process may have under way through Ray."""

from __future__ import annotations

from neverforget.actors.under_way import UnderWay


def test_calls_and_bytes_are_bounded_and_a_large_call_goes_beside_small_ones() -> None:
    way = UnderWay(calls_max=3, bytes_max=100)
    assert [way.begin(size) for size in (50, 1000)] == [True, True]
    assert not way.begin(1), "too many bytes"
    way.end(1000)
    assert [way.begin(size) for size in (40, 5)] == [True, True]
    assert not way.begin(0), "three calls"
    way.end(50)
    assert way.begin(50)
