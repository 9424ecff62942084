"""Requests that cannot be right, or go wrong by themselves: nobody else in their group notices."""

from __future__ import annotations

import errno
from typing import Any

import msgspec
import pytest

from neverforget.actors.messages import (
    AppendedReply,
    Failure,
    Fork,
    Hide,
    Info,
    encoder,
    request_decoder,
)
from neverforget.storage.results import ForkPoint
from tests.actors.regions import NAMESPACE, Owned, all_texts, append, get, texts
from tests.fakes.crash_filesystem import Fault


@pytest.mark.parametrize(("producer", "seq"), [(7, 2**32), (7, -1), (2**64, 1)])
def test_a_request_id_that_no_record_can_hold_hurts_nobody_else(
    owned: Owned, producer: int, seq: int
) -> None:
    """One such request took its whole group down, and the owner with it: the log was reopened."""
    bad = append(2)
    bad.producer, bad.producer_seq = producer, seq
    fork = Fork(4, NAMESPACE, "f", ForkPoint(NAMESPACE, "s", 1), 1, "me", producer, seq)
    epoch = owned.partition.welcome(0).epoch
    first, refused, last, forked = owned.ask(append(1, "a"), bad, append(3, "b"), fork)
    assert isinstance(first.answer, AppendedReply) and isinstance(last.answer, AppendedReply)
    assert refused.code == "invalid_argument"
    assert isinstance(forked.answer, Failure)
    assert owned.partition.welcome(0).epoch == epoch
    assert owned.partition.state == "serving"


@pytest.mark.parametrize("seq", [2**32, -1])
def test_a_frame_with_such_a_request_id_is_none(seq: int) -> None:
    frame = encoder.encode(append(1, seq=5))
    assert request_decoder.decode(frame).id == 1
    bad = append(1, seq=5)
    bad.producer_seq = seq
    with pytest.raises(msgspec.ValidationError):
        request_decoder.decode(encoder.encode(bad))


def test_a_sync_level_that_is_not_known_is_refused(owned: Owned) -> None:
    """It was answered as if ``process`` had been asked: less than was wanted, without a word."""
    (asked,) = owned.ask(append(1, sync=7))
    assert asked.code == "invalid_argument"
    assert all_texts(owned) == []


def test_a_conflict_is_told_when_what_it_conflicts_with_is_in_the_file(owned: Owned) -> None:
    """It was told at once; then the write failed, and the turn in the way had never been."""
    owned.fs.inject(Fault("pwrite", path=".seg", error=errno.EIO))
    first, second = owned.ask(append(1, "in the way"), append(2, expect=0))
    assert (first.code, second.code) == ("poisoned", "poisoned")
    owned.until("serving")
    found, late = owned.ask(append(3, "first", expect=0), append(4, expect=0))
    assert isinstance(found.answer, AppendedReply)
    assert late.code == "conflict"
    assert late.order == [3, 4]


def test_an_unexpected_error_of_one_request_leaves_the_others_alone(
    owned: Owned, monkeypatch: pytest.MonkeyPatch
) -> None:
    owned.ask(append(1, "a"))

    def short_of_memory(*_: Any) -> None:
        raise MemoryError

    monkeypatch.setattr(owned.partition._life.region, "hide", short_of_memory)
    monkeypatch.setattr(owned.partition._life.region, "info", short_of_memory)
    hide = Hide(2, NAMESPACE, "s", [(0, 0)], True, "me", None, 7, 2)
    hidden, info, appended, read = owned.ask(hide, Info(3, NAMESPACE, "s"), append(4, "b"), get(5))
    assert "internal error" in str(hidden.answer) and "internal error" in str(info.answer)
    assert isinstance(appended.answer, AppendedReply)
    assert texts(read) == ["a", "b"]
    assert owned.partition.state == "serving"
