"""What was learned from turns goes with them when they are erased. Same in every mode."""

from __future__ import annotations

import neverforget as nf
from tests.runtime.conftest import filled


def turns(chat: nf.Session, first: int, last: int) -> nf.TurnRef:
    return nf.TurnRef(chat.namespace, chat.name, first, last)


def test_memories_of_erased_turns_alone_are_erased(store: nf.Store) -> None:
    chat, other = store.session("s"), store.session("t")
    filled(chat, 6)
    filled(other, 2)
    one = store.remember("secret one", related_to=turns(chat, 1, 1))
    both = store.remember("secret both", related_to=[turns(chat, 1, 1), turns(chat, 3, 3)])
    wide = store.remember("partly", related_to=turns(chat, 1, 2))
    mixed = store.remember("mixed", related_to=[turns(chat, 1, 1), turns(other, 0, 0)])
    elsewhere = store.remember("elsewhere", related_to=turns(other, 1, 1))
    report = chat.erase([1, 3], confirm=nf.CONFIRMED, reason="asked for")
    assert (report.turns, report.memories) == (2, 2)
    assert set(report.flagged) == {wide.id, mixed.id}
    assert [store.get(each.id, default=None) for each in (one, both)] == [None, None]
    assert {each.id for each in store.memories()} == {wide.id, mixed.id, elsewhere.id}
    (entry,) = store.audit(operation="erase", target=one.id)
    assert entry.reason == "asked for"
    again = chat.erase([1, 3], confirm=nf.CONFIRMED)
    assert again.memories == 0 and set(again.flagged) == {wide.id, mixed.id}
    report = chat.erase(confirm=nf.CONFIRMED)
    assert report.memories == 1 and report.flagged == (mixed.id,)


def test_a_view_reaches_no_further_than_it_sees(store: nf.Store) -> None:
    view = store.scoped(namespace=("team",))
    chat = view.session("s")
    filled(chat, 2)
    outside = store.remember("outside", related_to=turns(chat, 0, 0))
    inside = view.remember("inside", related_to=turns(chat, 0, 0))
    report = chat.erase(0, confirm=nf.CONFIRMED)
    assert (report.memories, report.flagged) == (1, ())
    assert view.get(inside.id, default=None) is None and store.get(outside.id) == outside


def test_refusing_reaches_nothing(store: nf.Store) -> None:
    chat = store.session("s")
    filled(chat, 1)
    kept = store.remember("kept", related_to=turns(chat, 0, 0))
    try:
        chat.erase(0)
    except nf.ConfirmationRequired:
        pass
    assert store.get(kept.id) == kept
