"""What export writes, import reads back equal."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest

import neverforget as nf
from neverforget.runtime.exporter import export_file, export_sessions, sessions_to_export
from neverforget.runtime.importers import import_file
from neverforget.runtime.importers.loading import STATE_FIELD
from neverforget.storage.errors import InvalidArgument

CONTENTS: list[Any] = [
    "plain",
    "",
    "NUL \x00 and \u2028",
    "lone \ud83d surrogate",
    "\ud83d\ude00",
    "👩‍🚀 עברית",
    b"\x00\xff bytes",
    {"nested": [1, 2.5, None, True, {"bytes": b"x", "\ud83d": "\udc00"}]},
    {"$bytes": "not ours"},
    [],
    None,
    2**64,
    float("inf"),
]


@pytest.fixture
def old(tmp_path: Path) -> Iterator[nf.Store]:
    with nf.open(tmp_path / "old", inline=True) as opened:
        yield opened


@pytest.fixture
def new(tmp_path: Path) -> Iterator[nf.Store]:
    with nf.open(tmp_path / "new", inline=True) as opened:
        yield opened


def fill(store: nf.Store) -> None:
    chat = store.session("everything", namespace=("acme", "a/b"), agent="writer")
    for number, content in enumerate(CONTENTS):
        chat.append(
            ("user", "assistant", "a role of its own")[number % 3],
            content,
            name="Zoë" if number % 2 else None,
            call_id=f"c{number}" if number % 4 == 0 else None,
            key=f"key {number}" if number % 3 else None,
            metadata={"n": number, "raw": b"\x01"} if number % 2 else {},
            timestamp=datetime(1969 + number, 1, 2, 3, 4, 5, 678_901, UTC),
            token_count=number * 7,
        )
    chat.hide([1, 2, 5], reason="test")
    other = store.session("..", agent=None)
    other.append("user", "same words")
    other.append("user", "same words")
    store.session("..", agent="second").append("tool_call", {"name": "f", "arguments": {}})


def export(store: nf.Store, path: Path, **arguments: Any) -> int:
    with export_file(path) as write:
        return export_sessions(store, sessions_to_export(store, **arguments), write).turns


def turns(store: nf.Store) -> list[dict[str, Any]]:
    found = []
    for info in store.sessions():
        chat = store.session(info.session, namespace=info.namespace)
        page = chat.page(limit=100, include_hidden=True)
        found += [msgspec.structs.asdict(turn) for turn in page]
    return found


def test_export_then_import_then_export_is_equal(tmp_path: Path) -> None:
    with (
        nf.open(tmp_path / "old", inline=True) as old,
        nf.open(tmp_path / "new", inline=True) as new,
    ):
        fill(old)
        count = export(old, tmp_path / "all.jsonl")
        report = import_file(new, tmp_path / "all.jsonl")
        assert (report.appended, report.problems) == (count, ())
        assert turns(new) == turns(old)
        export(new, tmp_path / "again.jsonl")
        # And once more into the store it came from: nothing is new there.
        back = import_file(old, tmp_path / "again.jsonl")
        assert (back.appended, back.existing, back.problems) == (0, count, ())
    assert (tmp_path / "again.jsonl").read_bytes() == (tmp_path / "all.jsonl").read_bytes()


def test_an_export_that_has_grown_brings_only_what_is_new_without_any_key(tmp_path: Path) -> None:
    with (
        nf.open(tmp_path / "old", inline=True, reflect_every_turns=0) as old,
        nf.open(tmp_path / "new", inline=True, reflect_every_turns=0) as new,
    ):
        chat = old.session("s")
        chat.append_many([{"role": "user", "content": n} for n in range(300)])
        export(old, tmp_path / "all.jsonl")
        import_file(new, tmp_path / "all.jsonl")
        chat.append_many([{"role": "user", "content": n} for n in range(300, 700)])
        export(old, tmp_path / "all.jsonl.gz")
        report = import_file(new, tmp_path / "all.jsonl.gz")
        assert (report.appended, report.existing, report.problems) == (400, 300, ())
        assert turns(new) == turns(old)
        assert {turn.key for turn in new.session("s")} == {None}


def test_a_session_that_went_another_way_is_reported_not_mixed(tmp_path: Path) -> None:
    with (
        nf.open(tmp_path / "old", inline=True) as old,
        nf.open(tmp_path / "new", inline=True) as new,
    ):
        old.session("s").append_many([{"role": "user", "content": n} for n in range(3)])
        export(old, tmp_path / "all.jsonl")
        new.session("s").append_many([{"role": "user", "content": n} for n in (0, "other")])
        report = import_file(new, tmp_path / "all.jsonl")
        assert (report.existing, report.refused) == (1, 1)
        assert report.problems[0].line == 2
        assert "another turn at seq 1" in report.problems[0].message
        assert [t.content for t in new.session("s")] == [0, "other", 2]


def test_lines_that_were_cut_out_are_missed(tmp_path: Path) -> None:
    with (
        nf.open(tmp_path / "old", inline=True) as old,
        nf.open(tmp_path / "new", inline=True) as new,
    ):
        old.session("s").append_many([{"role": "user", "content": n} for n in range(5)])
        export(old, tmp_path / "all.jsonl")
        kept = (tmp_path / "all.jsonl").read_bytes().splitlines(keepends=True)
        (tmp_path / "all.jsonl").write_bytes(b"".join(kept[:2] + kept[4:]))
        report = import_file(new, tmp_path / "all.jsonl")
        assert (report.appended, report.refused) == (2, 1)
        assert "lacks the turns from seq 2 to 3" in report.problems[0].message


def test_a_file_that_holds_an_export_twice_brings_it_once(
    old: nf.Store, new: nf.Store, tmp_path: Path
) -> None:
    fill(old)
    count = export(old, tmp_path / "all.jsonl")
    (tmp_path / "twice.jsonl").write_bytes((tmp_path / "all.jsonl").read_bytes() * 2)
    report = import_file(new, tmp_path / "twice.jsonl")
    assert (report.appended, report.existing, report.problems) == (count, count, ())
    assert turns(new) == turns(old)


def test_an_import_beside_another_one_of_the_same_export_finds_what_is_there(
    old: nf.Store, new: nf.Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While one looked, the other appended: the places are taken, and by the very same turns."""
    old.session("s").append_many([{"role": "user", "content": n} for n in range(5)])
    export(old, tmp_path / "all.jsonl")
    append_many = nf.Session.append_many
    monkeypatch.setattr(nf.Session, "append_many", race := Race(append_many))
    report = import_file(new, tmp_path / "all.jsonl")
    assert race.lost
    assert (report.appended, report.existing, report.problems) == (2, 3, ())
    assert turns(new) == turns(old)


class Race:
    """Before the first batch goes out, somebody else appends the first three of it."""

    def __init__(self, append_many: Any) -> None:
        self._append_many = append_many
        self.lost = False

    def __get__(self, chat: Any, owner: Any) -> Any:
        def append_many(batch: list[Any], **arguments: Any) -> Any:
            if not self.lost:
                self.lost = True
                self._append_many(chat, batch[:3])
            return self._append_many(chat, batch, **arguments)

        return append_many


def test_erased_turns_say_so_and_keep_their_place(tmp_path: Path) -> None:
    with (
        nf.open(tmp_path / "old", inline=True) as old,
        nf.open(tmp_path / "new", inline=True) as new,
    ):
        chat = old.session("s")
        chat.append_many([{"role": "user", "content": c, "key": c} for c in ("a", "secret", "c")])
        before = tmp_path / "before.jsonl"
        export(old, before)
        chat.erase([1], confirm=nf.CONFIRMED)
        export(old, tmp_path / "all.jsonl")
        exported = [json.loads(line) for line in (tmp_path / "all.jsonl").read_bytes().splitlines()]
        assert [line.get("state") for line in exported] == [None, "erased", None]
        assert "secret" not in (tmp_path / "all.jsonl").read_text()

        report = import_file(new, tmp_path / "all.jsonl")
        assert (report.appended, report.contentless) == (3, 1)
        stand_in = new.session("s").get(1)
        assert (stand_in.content, stand_in.metadata) == (None, {STATE_FIELD: "erased"})
        assert new.session("s").get(2).content == "c"
        again = import_file(new, tmp_path / "all.jsonl")
        assert (again.appended, again.existing) == (0, 3)

        # An export from before the erasure does not bring back what was erased.
        back = import_file(old, before)
        assert (back.appended, back.existing) == (0, 3)
        assert chat.get(1).state == "erased"


def test_an_erased_turn_of_a_role_of_its_own_is_imported_at_its_place(
    old: nf.Store, new: nf.Store, tmp_path: Path
) -> None:
    """Its role went with its body, the import refused it, and all behind it moved up by one."""
    chat = old.session("s")
    for n in range(3):
        chat.append("a role of its own", n)
    chat.erase([1], confirm=nf.CONFIRMED)
    export(old, tmp_path / "all.jsonl")
    report = import_file(new, tmp_path / "all.jsonl")
    assert (report.appended, report.refused, report.contentless) == (3, 0, 1)
    turns = new.session("s")[:]
    assert [(turn.role, turn.content) for turn in turns] == [
        ("a role of its own", 0),
        ("unknown", None),
        ("a role of its own", 2),
    ]
    assert import_file(new, tmp_path / "all.jsonl").existing == 3


def test_a_fork_is_exported_as_it_reads(tmp_path: Path) -> None:
    with (
        nf.open(tmp_path / "old", inline=True) as old,
        nf.open(tmp_path / "new", inline=True) as new,
    ):
        chat = old.session("trunk")
        chat.append_many([{"role": "user", "content": n} for n in range(3)])
        chat.fork("branch", at=2).append("user", "other")
        export(old, tmp_path / "all.jsonl")
        import_file(new, tmp_path / "all.jsonl")
        assert [t.content for t in new.session("branch")] == [0, 1, "other"]


def test_only_the_sessions_asked_for_are_exported(old: nf.Store, tmp_path: Path) -> None:
    for namespace, name in ((("a",), "x1"), (("a", "b"), "x2"), (("ab",), "x3"), ((), "y")):
        old.session(name, namespace=namespace).append("user", name)
    assert export(old, tmp_path / "1.jsonl", namespace=("a",)) == 2
    assert export(old, tmp_path / "2.jsonl", prefix="x") == 3


def test_a_file_appears_only_when_it_is_complete(tmp_path: Path) -> None:
    path = tmp_path / "out.jsonl.gz"
    with pytest.raises(ZeroDivisionError), export_file(path) as write:
        write(b"half")
        assert not path.exists()
        raise ZeroDivisionError
    assert list(tmp_path.iterdir()) == []
    with export_file(path) as write:
        write(b"whole")
    assert gzip.decompress(path.read_bytes()) == b"whole"
    with (
        pytest.raises(InvalidArgument, match="cannot be written"),
        export_file(tmp_path / "no" / "x"),
    ):
        pass
