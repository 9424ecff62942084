"""Memories, hits, relations and reports as a person and a program meet them."""

from __future__ import annotations

import copy
import os
import pickle
import threading
import uuid
from datetime import UTC, datetime
from typing import Any

import pytest

import neverforget as nf
from neverforget.runtime.longterm_client import LongTermClient
from neverforget.runtime.values import Namespace

AT = datetime(2026, 3, 11, 14, 30, tzinfo=UTC)


def memory(**changes: Any) -> nf.Memory:
    fields: dict[str, Any] = {
        "id": "019ce53a-7a40-7000-8000-000000000001",
        "key": None,
        "text": "Ada lives in Oslo",
        "type": "fact",
        "tags": (),
        "importance": 1.0,
        "confidence": 1.0,
        "source": None,
        "agent": None,
        "speaker": None,
        "namespace": Namespace(),
        "metadata": {},
        "created_at": AT,
        "occurred_at": None,
        "valid_from": None,
        "valid_to": None,
        "version": 1,
        "status": "active",
        "context": None,
        "revised_at": AT,
        "by": "ada",
    }
    return nf.Memory(**{**fields, **changes})


def hits(count: int, **about: Any) -> nf.Hits:
    found = [nf.Hit(memory(text=f"fact {n}"), 1 / (n + 1), {"text": n + 1}) for n in range(count)]
    return nf.Hits(found, **about)


def test_a_memory_is_one_short_line() -> None:
    assert repr(memory()) == (
        "Memory('Ada lives in Oslo', id='019ce53a-7a40-7000-8000-000000000001')"
    )
    shown = repr(
        memory(
            text="much\n" * 5_000_000,
            key="k",
            type="event",
            tags=("geo",),
            namespace=Namespace(("acme",)),
            version=3,
            status="archived",
        )
    )
    assert len(shown) < 300 and "\n" not in shown and "…" in shown
    for part in ("key='k'", "type='event'", "tags=('geo',)", "('acme',)", "version=3", "archived"):
        assert part in shown


def test_hits_print_as_a_list_that_a_person_reads() -> None:
    span = nf.Timeframe(AT, None, "since today")
    dated = nf.Hit(memory(occurred_at=datetime(2025, 1, 2, tzinfo=UTC), tags=("geo",)), 0.5, {})
    assert repr(nf.Hits([dated], timeframe=span, complete=False, reason="words only")) == (
        "<Hits: 1 hit, timeframe 2026-03-11T14:30:00+00:00.., not complete: words only>\n"
        "  0.500  2025-01-02  Ada lives in Oslo  [geo]"
    )
    many = repr(hits(25, pending=3)).split("\n")
    assert many[0] == "<Hits: 25 hits, 3 pending>" and many[-1] == "  … 5 more"
    assert repr(nf.Hits()) == "<Hits: 0 hits>"
    assert repr(hits(1)[0]) == "Hit(1.000, 'fact 0', text #1)"


def test_hits_are_a_tuple_that_says_what_was_searched() -> None:
    found = hits(3, timeframe=nf.Timeframe(AT, None), complete=False, pending=2, reason="why")
    assert isinstance(found, tuple) and len(found) == 3 and found[0].memory.text == "fact 0"
    for copied in (pickle.loads(pickle.dumps(found)), copy.copy(found), copy.deepcopy(found)):
        assert type(copied) is nf.Hits and copied == found
        assert copied.timeframe == found.timeframe
        assert (copied.complete, copied.pending, copied.reason) == (False, 2, "why")
    with pytest.raises(AttributeError):
        found.complete = True


def test_values_are_frozen_hashable_and_pickle() -> None:
    one = memory(metadata={"a": [1]})
    ref = nf.TurnRef(Namespace(("acme",)), "chat", 0, 3)
    relation = nf.Relation(one.id, ref, "derived-from", 1.0)
    hit = nf.Hit(one, 0.5, {"text": 1}, nf.Chunk("x", 0, 4, "Ada "), {"score": 0.5})
    report = nf.DeletionReport(AT, None, 2, 0, 0, 0, 0, 1, 0, 3, {"ada": 6}, ())
    for value in (one, ref, relation, hit, hit.chunk, report, nf.Timeframe(AT, None, "today")):
        assert pickle.loads(pickle.dumps(value)) == value == copy.deepcopy(value)
        assert hash(pickle.loads(pickle.dumps(value))) == hash(value)
        with pytest.raises(AttributeError):
            setattr(value, "id", "other")  # noqa: B010
    assert hash(one) == hash(memory(text="same id and version"))
    assert len({memory(version=1), memory(version=2)}) == 2
    assert type(pickle.loads(pickle.dumps(one)).namespace) is Namespace
    assert "forgotten=2, erased=1, refused=3" in repr(report)


def test_a_timeframe_knows_what_lies_in_it() -> None:
    assert AT in nf.Timeframe(AT, None) and AT not in nf.Timeframe(None, AT)
    assert AT in nf.Timeframe(None, None)


# ---- ids -----------------------------------------------------------------------------------------


def test_ids_are_uuid7_and_ascend_even_when_the_clock_does_not() -> None:
    client = LongTermClient()
    now = 1_773_239_400_123_456
    drawn = [client.draw_id(now) for _ in range(10_000)]  # more than one millisecond holds
    drawn += [client.draw_id(now - 5_000_000), client.draw_id(now + 60_000_000)]
    assert drawn == sorted(set(drawn))
    for text in drawn[:3] + drawn[-1:]:
        parsed = uuid.UUID(text)
        assert str(parsed) == text and parsed.version == 7 and parsed.variant == uuid.RFC_4122
    assert int(drawn[0].replace("-", "")[:12], 16) == now // 1000
    assert int(drawn[-1].replace("-", "")[:12], 16) == (now + 60_000_000) // 1000


def test_threads_draw_different_ids_and_see_the_furthest_write() -> None:
    client = LongTermClient()
    drawn: list[str] = []

    def work(start: int) -> None:
        for n in range(200):
            drawn.append(client.draw_id(1_773_239_400_000_000))
            client.note(start + n)

    threads = [threading.Thread(target=work, args=(1000 * n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(drawn)) == 800 and client.end == 3199


def test_a_forked_child_draws_other_ids_though_a_thread_held_the_lock() -> None:
    client = LongTermClient()
    client._lock.acquire()
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(write, client.draw_id(1_773_239_400_000_000).encode())
        os._exit(0)
    client._lock.release()
    os.waitpid(child, 0)
    theirs = os.read(read, 100).decode()
    os.close(read)
    os.close(write)
    assert uuid.UUID(theirs).version == 7
    assert theirs != client.draw_id(1_773_239_400_000_000)


def test_a_client_is_never_copied() -> None:
    for copier in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError):
            copier(LongTermClient())
