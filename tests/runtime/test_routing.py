"""Routing, cursors and times: pure functions that stored data depends on."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime

import pytest

import neverforget as nf
from neverforget.runtime import cursors
from neverforget.runtime.routing import partition_of
from neverforget.runtime.times import from_us, to_us
from neverforget.storage.record import session_scope


def test_sessions_spread_evenly_and_stay_where_they_are() -> None:
    scopes = [session_scope(("team",), f"chat-{n}") for n in range(4000)]
    for partitions in (1, 2, 3, 8):
        counts = Counter(partition_of(scope, partitions) for scope in scopes)
        assert set(counts) == set(range(partitions))
        assert max(counts.values()) < 1.2 * 4000 / partitions
    kept = sum(partition_of(scope, 8) == partition_of(scope, 9) for scope in scopes)
    assert kept > 4000 * 0.85  # one partition more moves a ninth


def test_the_way_names_are_routed_is_part_of_the_format() -> None:
    """Another answer would hide every stored session: these may never change."""
    scopes = [
        session_scope((), "chat"),
        session_scope(("a", "b"), "é"),
        session_scope((), "x" * 300),
    ]
    assert [[partition_of(scope, n) for scope in scopes] for n in (2, 5, 16)] == [
        [1, 0, 1],
        [1, 0, 1],
        [9, 11, 8],
    ]


def test_a_cursor_gives_back_its_place_to_its_own_listing_only() -> None:
    bound = cursors.binding(b"this session")
    cursor = cursors.make(cursors.TURNS, bound, 41)
    assert cursors.read(cursor, cursors.TURNS, bound, int) == 41
    for kind, other in ((cursors.AUDIT, bound), (cursors.TURNS, cursors.binding(b"that session"))):
        with pytest.raises(nf.InvalidArgument, match="another listing"):
            cursors.read(cursor, kind, other, int)
    with pytest.raises(nf.InvalidArgument, match="no cursor"):
        cursors.read(cursors.make(cursors.TURNS, bound, "forged"), cursors.TURNS, bound, int)


def test_times_are_exact_from_year_1_to_9999() -> None:
    for text in (
        "0001-01-01T00:00:00.000001",
        "1969-12-31T23:59:59.999999",
        "9999-12-31T23:59:59.999999",
    ):
        at = datetime.fromisoformat(text).replace(tzinfo=UTC)
        assert from_us(to_us(at, "t")) == at
    assert from_us(-(2**62)).year == 1 and from_us(2**62).year == 9999
    for wrong in (
        datetime.fromisoformat("9999-12-31T23:59:59-05:00"),
        2**70,
        10**15,
        True,
        None,
        1.0,
    ):
        with pytest.raises(nf.InvalidArgument):
            to_us(wrong, "t")
