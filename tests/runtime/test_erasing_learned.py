"""What was learned from turns goes with them when they are erased. Same in every mode."""

from __future__ import annotations

from pathlib import Path

import neverforget as nf
from neverforget import testing
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


def test_what_reflection_took_from_beside_loses_its_context(
    tmp_path: Path,
) -> None:
    """An erased turn stood in the contexts of facts of its neighbours still, byte for byte."""
    with testing.store(tmp_path / "store", reflect_every_turns=0) as store:
        chat = store.session("s")
        for text in (
            "I live in Oslo with my two dogs.",
            "My sister Maria has the codeword xyzzyplugh, you know.",
            "I work as a potter in a studio downtown.",
        ):
            chat.append("user", text, name="ann")
        far = store.session("far")
        far.append("user", "I live in Rome with my cat.", name="bo")
        store.reflect()
        before = {each.text: each for each in store.memories()}
        assert any("xyzzyplugh" in (each.context or "") for each in before.values())
        report = chat.erase(1, confirm=nf.CONFIRMED)
        left = {each.text: each for each in store.memories()}
        assert report.memories >= 1 and report.revised and report.flagged == ()
        assert not any("xyzzyplugh" in each.text + (each.context or "") for each in left.values())
        assert any("Oslo" in text for text in left) and any("Rome" in text for text in left)
        assert store.recall("xyzzyplugh", strategy="text") == ()
        path = store.address
        store.settle()
    data = b"".join(one.read_bytes() for one in tmp_path.rglob("*") if one.is_file())
    assert b"xyzzyplugh" not in data, path


def test_what_stands_far_off_is_in_no_context(tmp_path: Path) -> None:
    """Behind turns that were hidden, a turn far off stood in the context of a fact, where erasing
    it did not look: its words were found still.
    """
    with testing.store(tmp_path / "store", reflect_every_turns=0) as store:
        chat = store.session("s")
        chat.append("user", "My sister Maria has the codeword xyzzyplugh, you know.", name="ann")
        filled(chat, 6)
        chat.hide(range(1, 7))
        chat.append("user", "I work as a potter in a studio downtown.", name="ann")
        store.reflect()
        assert any("potter" in each.text for each in store.memories())
        chat.erase(0, confirm=nf.CONFIRMED)
        for each in store.memories():
            assert "xyzzyplugh" not in each.text + (each.context or "")
