"""The crash tests are only worth what they catch: the rules of recovery, broken one by one.

A mutant is the product with one rule taken out, here and nowhere else. Under each of them the crash
points of the log, or rot in a known place, must be seen to go wrong.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from neverforget.storage import judgement, recovery
from neverforget.storage.errors import NeverforgetError
from neverforget.storage.recovery import Recovery
from neverforget.storage.scan import Scan, scan
from neverforget.storage.segment import SEGMENT_HEADER_BYTES
from tests.fakes.crash_filesystem import CrashFileSystem
from tests.storage import test_log_crash_points as crash_points
from tests.storage.test_log_crash_points import DIRECTORY, Life, Oracle

Mutate = Callable[[pytest.MonkeyPatch], None]


def no_body_checksum(patch: pytest.MonkeyPatch) -> None:
    def trusting(*args: Any, **kwargs: Any) -> Scan:
        found = scan(*args, **kwargs)
        found.bad_bodies.clear()
        return found

    patch.setattr(recovery, "scan", trusting)


def a_later_record_means_rot(patch: pytest.MonkeyPatch) -> None:
    """ "A valid record after a bad one means rot": wrong under group commit."""

    def last_record(parts: list[Any]) -> int:
        mark: int = parts[0].segment.base + SEGMENT_HEADER_BYTES
        return max([mark, *(int(p.positions[-1]) for p in parts if len(p.positions))])

    patch.setattr(judgement, "_durable_mark", last_record)


def everything_bad_is_torn(patch: pytest.MonkeyPatch) -> None:
    """The mark proves nothing: whatever follows the first bad byte of the last segment goes."""

    def nothing_proven(parts: list[Any]) -> int:
        return int(parts[-1].segment.base) + SEGMENT_HEADER_BYTES

    patch.setattr(judgement, "_durable_mark", nothing_proven)


def half_a_batch_is_kept(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(judgement, "_without_half_a_batch", lambda part, mark, tail: tail)


def what_is_accepted_is_not_written_again(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Recovery, "_make_durable", lambda self, parts, verdict: None)


def names_are_not_synced(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(CrashFileSystem, "sync_directory", lambda self, path: None)


def crash_points_fail() -> bool:
    """Whether any of the deaths at every call is survived wrongly."""
    try:
        for death in ("power_cut", "process_death"):
            crash_points.test_a_death_at_any_call_loses_nothing_acknowledged(death, 1)
    except (AssertionError, NeverforgetError):  # not a mistake of the mutant itself
        return True
    return False


def rot_cuts_off_what_follows() -> bool:
    """Ten acknowledged turns, a flipped bit in the body of the third: are the later ones gone?"""
    fs, oracle, life = CrashFileSystem(), Oracle(), Life()
    crash_points.create(fs)
    log, _ = crash_points.open_log(fs, 1)
    for _ in range(10):
        crash_points.stage(log, life, [oracle.content(100)])
        crash_points.sync(log, life)
    log.close()
    segment = DIRECTORY / "0000000000000000.seg"
    third = fs.content(segment).index(b"turn 2")
    fs.flip_bit(segment, third * 8)
    log, recovered = crash_points.open_log(fs, 2)
    log.close()
    return sum(len(part.heads) for part in recovered.segments) < 10


def test_the_product_itself_keeps_what_follows_rot() -> None:
    assert not rot_cuts_off_what_follows()


@pytest.mark.parametrize(
    "mutate",
    [
        no_body_checksum,
        a_later_record_means_rot,
        half_a_batch_is_kept,
        what_is_accepted_is_not_written_again,
        names_are_not_synced,
    ],
)
def test_a_mutant_is_caught_by_the_crash_points(
    mutate: Mutate, monkeypatch: pytest.MonkeyPatch
) -> None:
    mutate(monkeypatch)
    assert crash_points_fail()


def test_a_mutant_that_takes_all_damage_for_torn_is_caught_by_rot(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    everything_bad_is_torn(monkeypatch)
    assert rot_cuts_off_what_follows()
