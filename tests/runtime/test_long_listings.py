"""Histories and relations that are longer than one reply: whole for the caller, page by page at the
owner.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import neverforget as nf
from neverforget.actors import longterm_requests
from neverforget.runtime import memory_reading
from neverforget.storage.errors import Corrupt
from neverforget.storage.longterm_bodies import LogBodies


@pytest.fixture
def store(tmp_path: Path) -> Iterator[nf.Store]:
    with nf.open(tmp_path / "store", inline=True, embedder="none") as opened:
        yield opened


@pytest.mark.long  # with smaller pages: the test below
def test_more_than_ten_thousand_relations_are_all_returned(store: nf.Store) -> None:
    """They were cut at 10,000, without a word."""
    hub = store.remember("hub")
    for start in range(0, 10_002, 1_667):
        store.remember_many(
            {"text": f"m{n}", "related_to": [(hub.id, "about")]}
            for n in range(start, start + 1_667)
        )
    found = store.relations(hub.id)
    assert len(found) == len({each.source for each in found}) == 10_002
    assert store.relations(hub.id, direction="out") == []


def test_relations_come_in_order_whatever_a_page_holds(
    store: nf.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub = store.remember("hub")
    inside, outside = store.scoped(namespace="inside"), store.scoped(namespace="outside")
    target = inside.remember("target")
    sources = []
    for n in range(12):
        view = inside if n % 3 == 0 else outside
        source = view.remember(f"m{n}")
        sources.append(source.id)
        store.relate(source.id, target.id, "about")
        store.relate(source.id, hub.id, "other")
    store.forget(sources[6], confirm=nf.CONFIRMED)
    left = [each for each in sources if each != sources[6]]
    monkeypatch.setattr(memory_reading, "RELATIONS_MAX", 2)
    monkeypatch.setattr(longterm_requests, "RELATIONS_MAX", 3)
    assert [each.source for each in store.relations(target.id, kind="about")] == left
    assert store.relations(target.id, kind="other") == []
    assert [each.source for each in inside.relations(target.id)] == [
        sources[n] for n in (0, 3, 9)
    ], "pages that show nothing of a view are gone through"


def test_a_history_is_read_version_by_version(
    store: nf.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each page made all versions and threw most of them away: n pages read n times as many."""
    memory = store.remember("version 1")
    for number in range(2, 31):
        store.revise(memory.id, text=f"version {number}")
    monkeypatch.setattr(longterm_requests, "VERSIONS_MAX", 3)
    reads = 0
    real = LogBodies.read

    def read(bodies: LogBodies, position: int) -> Any:
        nonlocal reads
        reads += 1
        return real(bodies, position)

    monkeypatch.setattr(LogBodies, "read", read)
    versions = store.history(memory.id)
    assert [each.version for each in versions] == list(range(1, 31))
    assert [each.text for each in versions] == [f"version {n}" for n in range(1, 31)]
    assert reads < 2 * 30, "each about once"


def test_a_history_with_a_lost_link_goes_on_over_pages(
    store: nf.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory = store.remember("version 1")
    positions = []
    for number in range(2, 9):
        store.revise(memory.id, text=f"version {number}")
    real = LogBodies.read

    def read(bodies: LogBodies, position: int) -> Any:
        header, body = real(bodies, position)
        if body.get(0) == "version 5":
            positions.append(position)
            raise Corrupt("made unreadable")
        return header, body

    monkeypatch.setattr(longterm_requests, "VERSIONS_MAX", 2)
    monkeypatch.setattr(LogBodies, "read", read)
    versions = store.history(memory.id)
    assert [each.text for each in versions] == [
        *[f"version {n}" for n in range(1, 5)], "", *[f"version {n}" for n in range(6, 9)],
    ]  # fmt: skip
    assert [each.status for each in versions].count("unreadable") == 1 and positions
