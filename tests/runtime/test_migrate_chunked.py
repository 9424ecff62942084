"""Memories of a system that replaced long ones by summaries: originals come back where that is
certain, and nothing else changes.
"""

from __future__ import annotations

import hashlib
import json
import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import neverforget as nf
from neverforget.runtime.importers.chunked import NotRestorable, Record, restored
from neverforget.runtime.importers.chunked_memories import REVIEW
from neverforget.runtime.importers.migrating import MigrationReport, migrate
from tests.runtime.cli_calls import Cli

TEXT = "Refunds are paid within 14 days. " * 40 + "Ünïcode — 漢字 👩‍👩‍👧 at the end."


def pieces(text: str, size: int, overlap: int = 0) -> list[tuple[int, int]]:
    return [(max(0, at - overlap), min(at + size, len(text))) for at in range(0, len(text), size)]


def exported(
    text: str = TEXT, size: int = 300, overlap: int = 0, **more: Any
) -> list[dict[str, Any]]:
    """A container and its chunks, as such a system exports them."""
    found: list[dict[str, Any]] = [
        {
            "id": "mem-1",
            "text": "About refunds.",
            "type": "policy-container",
            "tags": ["money"],
            "importance": 7,
            "created_at": "2025-03-01T10:00:00Z",
            "metadata": {"team": "support"},
            **more,
        }
    ]
    for number, (start, stop) in enumerate(pieces(text, size, overlap)):
        found.append(
            {
                "id": f"mem-1-c{number}",
                "parent_id": "mem-1",
                "chunk_index": number,
                "start": start,
                "end": stop,
                "type": "policy-chunk",
                "text": text[start:stop],
            }
        )
    return found


def without_spans(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{n: v for n, v in each.items() if n not in ("start", "end")} for each in records]


@pytest.fixture
def migrated(tmp_path: Path, store: nf.Store) -> Any:
    def run(records: Any, **how: Any) -> MigrationReport:
        file = tmp_path / "old.json"
        file.write_text(json.dumps(records))
        return migrate(store, str(file), **how)

    return run


@pytest.fixture
def store(tmp_path: Path) -> Any:
    with nf.open(tmp_path / "store", inline=True, embedder="none") as opened:
        yield opened


def test_an_original_comes_back_whole_with_what_was_said_of_it(
    store: nf.Store, migrated: Any
) -> None:
    records = exported(original_length=len(TEXT))
    random.Random(1).shuffle(records)
    report = migrated([*records, {"id": "mem-2", "text": "Ada lives in Oslo", "type": "fact"}])
    assert report.ok and (report.restored, report.flagged, report.plain) == (1, 0, 1)
    assert report.records == 1 + report.chunks + report.restored
    memory = store.get(key="mem-1")
    assert memory.text == TEXT and memory.type == "policy"
    assert (memory.tags, memory.importance) == (("money",), 7.0)
    assert memory.occurred_at is not None and memory.occurred_at.year == 2025
    assert memory.metadata["team"] == "support"
    assert memory.metadata["migration"] == {
        "restored": True,
        "summary": "About refunds.",
        "chunks": report.chunks,
    }
    assert store.get(key="mem-2").text == "Ada lives in Oslo"
    assert len(store.memories()) == 2, "chunks are made anew, not remembered"


def test_a_second_run_changes_nothing(store: nf.Store, migrated: Any) -> None:
    records = exported(original_length=len(TEXT))
    first, second = migrated(records), migrated(records)
    assert (first.remembered, first.existing) == (1, 0)
    assert (second.remembered, second.existing) == (0, 1)
    assert store.get(key="mem-1").version == 1


DAMAGES: dict[str, Any] = {
    "a chunk is missing": lambda r: r.pop(2),
    "the last chunk is missing": lambda r: r.pop(),
    "one says something else": lambda r: r[1].update(text=r[1]["text"].upper()),
    "a span is wrong": lambda r: r[1].update(end=9_999),
    "another digest": lambda r: r[0].update(original_sha256="0" * 64),
    "another length": lambda r: r[0].update(original_length=5),
    "another count": lambda r: r[0].update(chunk_count=77),
    "a listed chunk is missing": lambda r: r[0].update(chunks=["mem-1-c0", "gone"]),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_what_is_not_certain_is_flagged_and_kept_as_it_is(
    store: nf.Store, migrated: Any, name: str
) -> None:
    digest = hashlib.sha256(TEXT.encode()).hexdigest()
    records = exported(original_length=len(TEXT), original_sha256=digest)
    DAMAGES[name](records)
    report = migrated(records)
    assert not report.ok and report.restored == 0
    assert report.flagged == len(records) == report.remembered
    for record in records:
        memory = store.get(key=record["id"])
        assert memory.text == record["text"]
        assert REVIEW in memory.tags
        assert memory.metadata["migration"]["restored"] is False
    assert store.get(key="mem-1-c0").type == "policy-part", "-chunk is reserved"


def test_without_an_end_that_is_told_the_last_chunk_may_be_missing(migrated: Any) -> None:
    def judged(**told: Any) -> tuple[int, int]:
        report = migrated(exported(**told), dry_run=True)
        return report.restored, report.flagged

    count = len(pieces(TEXT, 300))
    assert judged() == (0, count + 1)
    assert judged(chunks=[f"mem-1-c{n}" for n in range(count - 1)]) == (0, count + 1)
    assert judged(chunks=[f"mem-1-c{n}" for n in range(count)]) == (1, 0)
    assert judged(chunk_count=count) == (1, 0)


def test_a_chunk_without_its_container_is_kept(store: nf.Store, migrated: Any) -> None:
    report = migrated(exported()[1:3])
    assert report.flagged == 2 and report.problem_count == 2
    assert store.get(key="mem-1-c0").metadata["parent_id"] == "mem-1"


NESTED: dict[str, list[dict[str, Any]]] = {
    "a container is a chunk": [
        {"id": "outer", "text": "Short", "original_length": 5},
        {"id": "inner", "text": "Short", "parent_id": "outer", "start": 0, "end": 5},
        {"id": "leaf", "text": "Long", "parent_id": "inner", "start": 0, "end": 4},
    ],
    "and its own container is not here": [
        {"id": "inner", "text": "Short", "parent_id": "gone", "chunks": ["leaf"]},
        {"id": "leaf", "text": "Long", "start": 0, "end": 4},
    ],
    "two are chunks of each other": [
        {"id": "a", "text": "A", "parent_id": "b", "start": 0, "end": 1, "chunk_count": 1},
        {"id": "b", "text": "B", "parent_id": "a", "start": 0, "end": 1, "chunk_count": 1},
    ],
    "two list each other": [
        {"id": "a", "text": "A", "chunks": ["b"], "start": 0, "end": 1},
        {"id": "b", "text": "B", "chunks": ["a"], "start": 0, "end": 1},
    ],
    "one lists itself": [{"id": "a", "text": "A", "chunks": ["a"], "start": 0, "end": 1}],
}


@pytest.mark.parametrize("name", NESTED)
def test_a_container_that_is_a_chunk_as_well_is_flagged(
    store: nf.Store, migrated: Any, name: str
) -> None:
    """The summary of one passed for a part of an original, and such a record was counted twice."""
    records = NESTED[name]
    report = migrated(records)
    assert (report.records, report.flagged) == (len(records), len(records))
    assert (report.restored, report.chunks, report.plain) == (0, 0, 0)
    assert report.remembered == len(records) and not report.ok
    for record in records:
        memory = store.get(key=record["id"])
        assert memory.text == record["text"] and REVIEW in memory.tags


def counted(report: MigrationReport) -> dict[str, int]:
    """How its records count, and what was done of the memories; without what is 0."""
    names = ("restored", "chunks", "flagged", "plain", "refused", "gone")
    found = {n: getattr(report, n) for n in (*names, "remembered", "revised", "existing")}
    assert sum(found[name] for name in names) == report.records
    return {name: count for name, count in found.items() if count}


def test_what_was_kept_for_review_is_restored_by_a_file_that_is_complete(
    store: nf.Store, migrated: Any
) -> None:
    """It was refused as something else than the file says, and counted as restored all the same."""
    records = exported(original_length=len(TEXT))
    assert not migrated(records[:-1]).ok
    kept = store.get(key="mem-1")
    assert (kept.text, REVIEW in kept.tags) == ("About refunds.", True)
    store.tag(kept.id, "mine")
    assert counted(migrated(records, dry_run=True))["revised"] == 1
    assert store.get(key="mem-1").version == 1
    count = len(records) - 1
    report = migrated(records)
    assert report.ok and counted(report) == {"restored": 1, "chunks": count, "revised": 1}
    memory = store.get(key="mem-1")
    assert (memory.text, memory.version, memory.type) == (TEXT, 2, "policy")
    assert sorted(memory.tags) == ["mine", "money"] and memory.metadata["team"] == "support"
    told = {"restored": True, "summary": "About refunds.", "chunks": count}
    assert memory.metadata["migration"] == told
    again = migrated(records)
    assert again.ok and counted(again) == {"restored": 1, "chunks": count, "existing": 1}
    assert store.get(key="mem-1").version == 2


def test_what_was_changed_here_is_refused_and_does_not_count_as_restored(
    store: nf.Store, migrated: Any, tmp_path: Path, cli: Cli
) -> None:
    records = exported(original_length=len(TEXT))
    migrated(records[:-1])
    store.revise(store.get(key="mem-1").id, text="Refunds: see the handbook.")
    report = migrated(records)
    assert not report.ok and counted(report) == {"refused": len(records)}
    assert store.get(key="mem-1").text == "Refunds: see the handbook."
    store.forget(store.get(key="mem-1").id, confirm=nf.CONFIRMED)
    report = migrated(records)
    assert report.ok and counted(report) == {"gone": len(records), "existing": 1}
    store.close()
    ran = cli("migrate-chunked", tmp_path / "store", tmp_path / "old.json")
    assert ran.code == 0 and "originals restored  0" in ran.out and "forgotten here" in ran.out


REPLACED: dict[str, dict[str, Any]] = {
    "a count": {"chunk_count": 4},
    "a count in the metadata": {"metadata": {"total_chunks": 4.0}},
    "a length": {"original_length": 5_000},
    "a length that is no number": {"metadata": {"original_length": "long"}},
}


@pytest.mark.parametrize("name", REPLACED)
def test_a_container_whose_chunks_are_all_missing_is_flagged(
    store: nf.Store, migrated: Any, name: str
) -> None:
    """It passed for a memory that was never cut."""
    report = migrated([{"id": "m", "text": "In short.", **REPLACED[name]}])
    assert not report.ok and counted(report) == {"flagged": 1, "remembered": 1}
    assert REVIEW in store.get(key="m").tags


def test_what_says_that_it_is_whole_is_no_container(migrated: Any) -> None:
    plain = [
        {"id": "a", "text": "Größe", "original_length": 5},
        {"id": "b", "text": "Größe", "original_length": 7.0, "chunk_count": 0},
        {"id": "c", "text": "Concert", "start": "2025-03-01", "index": "x"},
    ]
    report = migrated(plain)
    assert report.ok and counted(report) == {"plain": 3, "remembered": 3}


def test_whole_numbers_may_be_written_as_fractions(store: nf.Store, migrated: Any) -> None:
    records = exported(original_length=float(len(TEXT)), chunk_count=float(len(pieces(TEXT, 300))))
    for chunk in records[1:]:
        chunk.update({n: float(chunk[n]) for n in ("chunk_index", "start", "end")}, parent_id=1.0)
    records[0]["id"] = 1
    assert migrated(records).ok and store.get(key="1").text == TEXT


@pytest.mark.parametrize("wrong", [{"chunk_index": "one"}, {"start": [0]}, {"end": 1.5}])
def test_a_field_of_a_wrong_type_costs_the_original_and_no_chunk(
    store: nf.Store, migrated: Any, wrong: dict[str, Any]
) -> None:
    """Such a chunk was lost, and its container remembered without a word."""
    records = exported(original_length=len(TEXT))
    records[2] |= wrong
    report = migrated(records)
    assert counted(report) == {"flagged": len(records), "remembered": len(records)}
    assert f"its chunk mem-1-c1: {next(iter(wrong))} must be a whole" in report.problems[0].message
    assert all(REVIEW in store.get(key=each["id"]).tags for each in records)


def test_children_that_are_no_list_are_flagged_too(store: nf.Store, migrated: Any) -> None:
    report = migrated([*exported(chunks=5, original_length=len(TEXT))])
    assert report.restored == 0 and REVIEW in store.get(key="mem-1").tags


def test_what_cannot_be_remembered_counts_as_refused(migrated: Any) -> None:
    report = migrated([{"id": "a", "text": "one", "tags": "x"}, {"id": "b", "text": "two"}])
    assert report.problem_count == 1 and counted(report) == {
        "refused": 1,
        "plain": 1,
        "remembered": 1,
    }


@pytest.mark.parametrize("content", ["", "[]", "\n"])
def test_of_an_empty_file_it_says_so(cli: Cli, tmp_path: Path, content: str) -> None:
    file = tmp_path / "old.json"
    file.write_text(content)
    ran = cli("migrate-chunked", tmp_path / "memory", file)
    assert (ran.code, ran.out) == (0, "") and "nothing in it" in ran.err


@pytest.mark.parametrize("joint", ["", "\n", "\n\n", " "])
def test_chunks_without_spans_need_a_proof_of_how_they_join(migrated: Any, joint: str) -> None:
    texts = [f"Paragraph {n} about refunds." for n in range(6)]
    whole = joint.join(texts)
    chunks = [
        {"id": f"c{n}", "container_id": "m", "index": n + 1, "content": text}
        for n, text in enumerate(texts)
    ]
    digest = "sha256:" + hashlib.sha256(whole.encode()).hexdigest()
    container = {"id": "m", "content": "In short.", "type": "container"}
    assert migrated([container, *chunks]).restored == 0
    assert migrated([{**container, "content_hash": digest}, *chunks]).restored == 1


def test_records_may_stand_inside_of_containers_and_answers(store: nf.Store, migrated: Any) -> None:
    container, *chunks = exported(original_length=len(TEXT))
    for chunk in chunks:
        del chunk["parent_id"], chunk["id"]
    assert migrated({"memories": [{**container, "chunks": chunks}]}).restored == 1
    assert store.get(key="mem-1").text == TEXT


def test_spans_may_count_bytes(store: nf.Store, migrated: Any) -> None:
    text = "Größe: 漢字. " * 50
    records, at = exported(text, 100, chunk_count=6), 0
    for chunk in records[1:]:
        size = len(chunk["text"].encode())
        chunk.update(start=at, end=at + size)
        at += size
    records[0]["chunk_count"] = len(records) - 1
    assert migrated(records).restored == 1
    assert store.get(key="mem-1").text == text


def test_a_dry_run_writes_nothing(store: nf.Store, migrated: Any) -> None:
    report = migrated(exported(original_length=len(TEXT)), dry_run=True)
    assert (report.restored, report.remembered, report.dry_run) == (1, 1, True)
    assert len(store.memories(status=None)) == 0


def test_what_is_no_record_is_reported_with_its_line(migrated: Any) -> None:
    report = migrated([5, {"id": "x"}, {"text": "no id"}, {"id": "y", "text": "fine"}])
    assert report.problem_count == 3 and report.plain == 1
    twice = [{"id": "a", "text": "one"}, {"id": "a", "text": "two"}]
    report = migrated(twice)
    assert "twice" in report.problems[0].message
    assert report.records == report.plain == 1, "what is not taken is no record"


@given(st.text(max_size=300), st.integers(1, 40), st.integers(0, 20), st.randoms())
def test_any_text_that_is_covered_is_restored_exactly(
    text: str, size: int, overlap: int, chance: random.Random
) -> None:
    """Whatever order chunks come in, and however much they overlap."""
    chunks = [
        Record(f"c{n}", text[a:b], 1, {}, parent="m", span=(a, b))
        for n, (a, b) in enumerate(pieces(text, size, overlap))
    ]
    chance.shuffle(chunks)
    container = Record("m", "s", 1, {}, count=len(chunks))
    if not text:
        with pytest.raises(NotRestorable):
            restored(container, chunks)
        return
    assert restored(container, chunks) == text
    if overlap == 0 and len(chunks) > 1:
        with pytest.raises(NotRestorable):
            restored(container, chunks[1:])
        container.count = None
        with pytest.raises(NotRestorable):
            restored(container, chunks)


def test_the_command_tells_what_became_of_each(cli: Cli, tmp_path: Path) -> None:
    file, memory = tmp_path / "old.jsonl", tmp_path / "memory"
    lines = [*exported(original_length=len(TEXT)), {"id": "lost", "parent_id": "?", "text": "x"}]
    file.write_text("\n".join(map(json.dumps, lines)))
    rehearsed = cli("migrate-chunked", memory, file, "--dry-run")
    assert rehearsed.code == 1 and "would remember" in rehearsed.out and not memory.exists()
    ran = cli("migrate-chunked", memory, file)
    assert ran.code == 1 and "1, from 5 chunks" in ran.out
    assert f"{file}:{len(lines)}: memory lost: its container ? is not in this file" in ran.err
    told = json.loads(cli("migrate-chunked", memory, file, "--json").out)
    assert (told["remembered"], told["existing"], told["ok"]) == (0, 2, False)
    shown = json.loads(cli("get", memory, "--key", "mem-1", "--json").out)
    assert shown["text"] == TEXT
