"""Memories into a store from files, once however often it runs; out of it and back in, equal."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest

import neverforget as nf
from neverforget.runtime.exporter import export_file, export_memories
from neverforget.runtime.importers import import_file
from neverforget.runtime.importers.importing import load
from tests.runtime.test_importers_memories import MEM0

PLAIN: dict[str, Any] = {"inline": True, "embedder": "none", "partitions": 1}
# Of the writing, not of what was written: another store has its own.
OF_THE_STORE = ("created_at", "revised_at", "by", "occurred_at")


@pytest.fixture
def old(tmp_path: Path) -> Iterator[nf.Store]:
    with nf.open(tmp_path / "old", **PLAIN) as opened:
        yield opened


@pytest.fixture
def new(tmp_path: Path) -> Iterator[nf.Store]:
    with nf.open(tmp_path / "new", **PLAIN) as opened:
        yield opened


def exported(store: nf.Store, path: Path, **arguments: Any) -> list[dict[str, Any]]:
    with export_file(path) as write:
        export_memories(store, write, **arguments)
    return [json.loads(line) for line in path.read_bytes().splitlines()]


def written(path: Path, content: Any) -> Path:
    path.write_text(json.dumps(content))
    return path


def said(memory: nf.Memory) -> dict[str, Any]:
    fields = msgspec.structs.asdict(memory)
    return {name: value for name, value in fields.items() if name not in OF_THE_STORE}


def all_memories(store: nf.Store) -> list[nf.Memory]:
    return [*store.memories(limit=1000), *store.memories(limit=1000, status="archived")]


def counts(report: nf.ImportReport) -> tuple[int, int, int, int]:
    return (report.remembered, report.revised, report.memories_existing, report.memories_refused)


def fill(store: nf.Store) -> dict[str, str]:
    """Memories of every kind; their ids by name."""
    at = datetime(2026, 3, 11, 12, 30, 0, 123456, UTC)
    store.session("talk", namespace=("acme",)).append("user", "hello")
    turns = nf.TurnRef(("acme",), "talk", 0, 0)
    whole = store.remember(
        "everything 👩‍🚀\nNUL \x00", key="k 1", type="decision", tags=("a:b", "c"), importance=7.5,
        confidence=0.25, source="s", agent="ada", speaker="Zoë", namespace=("acme", "a/b"),
        metadata={"n": 2**70, "raw": b"\x00", "lone": "\ud83d", "deep": {"$bytes": "x"}},
        related_to=turns, occurred_at=at, context="next to it", valid_from=at,
        valid_to=at + timedelta(days=1),
    )  # fmt: skip
    plain = store.remember("plain")
    twin = store.remember("plain")
    changed = store.remember("first", tags=("x",), speaker="A", importance=3)
    store.revise(changed.id, text="second", speaker=None)
    store.revise(changed.id, text="third", importance=9, metadata={"v": 3})
    store.relate(plain.id, whole.id, "explains", weight=0.5)
    kept = store.remember("archived one")
    store.archive(kept.id, confirm=nf.CONFIRMED)
    gone = store.remember("forgotten one")
    store.forget(gone.id, confirm=nf.CONFIRMED)
    return {
        "whole": whole.id, "plain": plain.id, "twin": twin.id, "changed": changed.id,
        "kept": kept.id, "gone": gone.id,
    }  # fmt: skip


def test_export_then_import_is_equal(old: nf.Store, new: nf.Store, tmp_path: Path) -> None:
    ids = fill(old)
    lines = exported(old, tmp_path / "all.jsonl")
    assert {line["kind"] for line in lines} == {"memory"}
    assert ids["gone"] not in {line["id"] for line in lines}
    report = import_file(new, tmp_path / "all.jsonl")
    assert (report.format, counts(report), report.problems) == ("jsonl", (5, 0, 0, 0), ())
    assert list(map(said, all_memories(new))) == list(map(said, all_memories(old)))
    for before, after in zip(all_memories(old), all_memories(new)):
        assert after.occurred_at == (before.occurred_at or before.created_at)
        assert new.relations(after.id) == old.relations(before.id)
    versions = [(v.version, v.text, v.speaker, v.importance) for v in new.history(ids["changed"])]
    assert versions == [(1, "first", "A", 3), (2, "second", None, 3), (3, "third", None, 9)]
    # Once more there, and back where it came from: nothing is new.
    assert counts(import_file(new, tmp_path / "all.jsonl")) == (0, 0, 5, 0)
    exported(new, tmp_path / "again.jsonl")
    assert counts(import_file(old, tmp_path / "again.jsonl")) == (0, 0, 5, 0)


def test_turns_and_memories_travel_in_one_stream(
    old: nf.Store, new: nf.Store, tmp_path: Path
) -> None:
    ids = fill(old)
    memories = exported(old, tmp_path / "memories.jsonl")
    turn = {"namespace": ["acme"], "session": "talk", "seq": 0, "role": "user", "content": "hello"}
    path = tmp_path / "all.jsonl"
    path.write_text("\n".join(map(json.dumps, [turn, *memories])))
    report = import_file(new, path)
    assert (report.turns, report.appended, report.memories, report.remembered) == (1, 1, 5, 5)
    assert new.provenance(ids["whole"]) == [nf.TurnRef(("acme",), "talk", 0, 0)]


def test_below_a_namespace_memories_are_others_with_ids_of_their_own(
    old: nf.Store, tmp_path: Path
) -> None:
    ids = fill(old)
    exported(old, tmp_path / "all.jsonl")
    for _ in range(2):
        report = import_file(old, tmp_path / "all.jsonl", namespace=("copy",))
        assert report.ok
    copies = list(old.memories(namespace=("copy",), limit=100))
    assert len(copies) == 4 and not {each.id for each in copies} & set(ids.values())
    whole = old.get(key="k 1", namespace=("copy", "acme", "a/b"))
    assert old.provenance(whole.id)[0].namespace == ("copy", "acme")
    (relation,) = old.relations(whole.id, kind="explains")
    assert relation.source in {each.id for each in copies}


def test_what_was_forgotten_or_erased_here_is_not_brought_back(
    old: nf.Store, tmp_path: Path
) -> None:
    ids = fill(old)
    exported(old, tmp_path / "all.jsonl")
    written(tmp_path / "mem0.json", MEM0)
    assert counts(import_file(old, tmp_path / "mem0.json")) == (3, 0, 0, 0)
    lost = old.get(key="2")
    old.forget(lost.id, confirm=nf.CONFIRMED)
    old.forget(ids["plain"], confirm=nf.CONFIRMED)
    old.erase(ids["twin"], confirm=nf.CONFIRMED)
    assert counts(import_file(old, tmp_path / "mem0.json")) == (0, 0, 3, 0)
    report = import_file(old, tmp_path / "all.jsonl")
    assert counts(report) == (0, 0, 5, 0)
    assert {"plain", MEM0[1]["memory"]}.isdisjoint(each.text for each in old.memories(limit=100))


def test_what_was_changed_here_is_reported_and_what_changed_there_is_revised(
    old: nf.Store, new: nf.Store, tmp_path: Path
) -> None:
    ids = fill(old)
    exported(old, tmp_path / "all.jsonl")
    import_file(new, tmp_path / "all.jsonl")
    old.revise(ids["changed"], text="fourth")
    exported(old, tmp_path / "later.jsonl")
    assert counts(import_file(new, tmp_path / "later.jsonl")) == (0, 1, 4, 0)
    assert [each.text for each in new.history(ids["changed"])][-1] == "fourth"
    assert counts(import_file(new, tmp_path / "all.jsonl")) == (0, 0, 5, 0), "an older export"
    new.revise(ids["plain"], text="mine")
    old.revise(ids["plain"], text="theirs")
    exported(old, tmp_path / "latest.jsonl")
    report = import_file(new, tmp_path / "latest.jsonl")
    assert counts(report) == (0, 0, 4, 1)
    assert "says something else here" in report.problems[0].message
    assert new.get(ids["plain"]).text == "mine"


def test_mem0_is_revised_only_by_what_it_changed_since(new: nf.Store, tmp_path: Path) -> None:
    item = {"id": "m", "memory": "old", "user_id": "ann", "updated_at": "2026-01-01T00:00:00Z"}
    path = tmp_path / "mem0.json"
    import_file(new, written(path, [item]))
    there = new.get(key="m", namespace=("user", "ann"))
    assert counts(import_file(new, written(path, [{**item, "memory": "edited"}]))) == (0, 0, 0, 1)
    later = {**item, "memory": "new", "updated_at": "2026-02-01T00:00:00Z"}
    assert counts(import_file(new, written(path, [later]))) == (0, 1, 0, 0)
    assert [each.text for each in new.history(there.id)] == ["old", "new"]
    assert counts(import_file(new, written(path, [later, item]))) == (0, 0, 2, 0)


def test_an_interrupted_import_goes_on(
    new: nf.Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from neverforget.runtime.importers import memory_loading

    monkeypatch.setattr(memory_loading, "BATCH_MEMORIES_MAX", 10)
    items = [{"id": str(n), "memory": f"number {n}", "user_id": "u"} for n in range(35)]
    path = written(tmp_path / "mem0.json", {"results": items[:17]})
    assert import_file(new, path).remembered == 17
    report = import_file(new, written(path, {"results": items}))
    assert counts(report) == (18, 0, 17, 0)
    assert len(new.memories(limit=100)) == 35


def test_one_that_is_refused_does_not_stop_the_others(new: nf.Store, tmp_path: Path) -> None:
    new.remember("by hand", key="taken", namespace="user")
    lines = [
        {"kind": "memory", "text": "good"},
        {"kind": "memory", "text": "bad", "tags": ["Not A Tag"]},
        {"kind": "memory", "text": "other", "key": "taken", "namespace": "user"},
        {"kind": "memory", "text": "by hand", "key": "taken", "namespace": "user"},
        {"kind": "memory", "text": "was", "status": "forgotten"},
        {"kind": "memory", "text": "dangling", "relations": [{"kind": "k", "target": "nobody"}]},
    ]
    path = tmp_path / "lines.jsonl"
    path.write_text("\n".join(map(json.dumps, lines)))
    report = import_file(new, path)
    assert counts(report) == (2, 0, 1, 3)
    assert [problem.line for problem in report.problems] == [2, 3, 5, 6]
    assert {each.text for each in new.memories()} == {"by hand", "good", "dangling"}


def test_a_relation_to_a_chunk_is_a_problem_of_its_line(new: nf.Store, tmp_path: Path) -> None:
    told = new.remember("All about parcels and what they cost. " * 100)
    new.settle()
    target = new.chunks(told.id)[0].id
    line = {"kind": "memory", "text": "learned", "relations": [{"kind": "k", "target": target}]}
    report = import_file(new, written(tmp_path / "lines.jsonl", line))
    (problem,) = report.problems
    assert report.remembered == 1 and f"relate its original {told.id}" in str(problem)


def test_the_same_line_twice_is_two_memories(new: nf.Store, tmp_path: Path) -> None:
    path = tmp_path / "lines.jsonl"
    path.write_text('{"kind": "memory", "text": "again"}\n' * 2)
    assert counts(import_file(new, path)) == (2, 0, 0, 0)
    assert counts(import_file(new, path)) == (0, 0, 2, 0)


def test_a_dry_run_counts_and_writes_nothing(new: nf.Store, tmp_path: Path) -> None:
    path = written(tmp_path / "mem0.json", MEM0)
    assert load(None, path).remembered == 3
    assert import_file(new, path, dry_run=True).remembered == 3
    assert not new.memories()
    import_file(new, path)
    assert counts(import_file(new, path, dry_run=True)) == (0, 0, 3, 0)


def test_only_a_part_may_be_exported(old: nf.Store, tmp_path: Path) -> None:
    fill(old)
    lines = exported(old, tmp_path / "part.jsonl", namespace=("acme",))
    assert [line["namespace"] for line in lines] == [["acme", "a/b"]]
