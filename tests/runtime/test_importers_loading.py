"""Turns of a file into a store: once, however often, however far the last run came."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import neverforget as nf
from neverforget.runtime.importers import ImportReport, import_file
from neverforget.runtime.importers import loading as loading_module
from neverforget.storage.errors import Unavailable
from tests.runtime.conversation_files import chatgpt_conversation, locomo_sample, message_node


@pytest.fixture
def store(tmp_path: Path) -> Iterator[nf.Store]:
    with nf.open(tmp_path / "store", inline=True, reflect_every_turns=0) as opened:
        yield opened


def lines(folder: Path, *turns: dict[str, Any], name: str = "turns.jsonl") -> Path:
    path = folder / name
    path.write_text("".join(json.dumps({"role": "user", **turn}) + "\n" for turn in turns))
    return path


def said(store: nf.Store, session: str, **place: Any) -> list[Any]:
    return [turn.content for turn in store.session(session, **place)]


def counts(report: ImportReport) -> tuple[int, int, int]:
    return report.appended, report.existing, report.refused


def test_a_second_run_appends_nothing(store: nf.Store, tmp_path: Path) -> None:
    """With keys and without; the same words twice are two turns."""
    path = lines(
        tmp_path,
        {"session": "a", "content": "yes", "key": "k1"},
        {"session": "b", "content": "yes"},
        {"session": "b", "content": "yes"},
        {"session": "a", "content": "no", "key": "k2"},
    )
    assert counts(import_file(store, path)) == (4, 0, 0)
    assert counts(import_file(store, path)) == (0, 4, 0)
    assert said(store, "a") == ["yes", "no"]
    assert said(store, "b") == ["yes", "yes"]


def test_a_file_that_has_grown_brings_only_what_is_new(store: nf.Store, tmp_path: Path) -> None:
    turns = [{"session": f"s{n % 3}", "content": f"turn {n}"} for n in range(600)]
    import_file(store, lines(tmp_path, *turns[:400]))
    report = import_file(store, lines(tmp_path, *turns))
    assert counts(report) == (200, 400, 0)
    for n in range(3):
        assert said(store, f"s{n}") == [f"turn {i}" for i in range(n, 600, 3)]


def test_an_import_that_was_interrupted_goes_on_where_it_stopped(
    store: nf.Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = lines(tmp_path, *({"session": "s", "content": n} for n in range(1000)))
    appended = 0
    append_many = type(store.session("s")).append_many

    def failing(chat: Any, turns: Any, **arguments: Any) -> Any:
        nonlocal appended
        if appended >= 3 * loading_module.BATCH_TURNS_MAX:
            raise Unavailable("the owner is gone", outcome="not_applied")
        appended += len(turns)
        return append_many(chat, turns, **arguments)

    monkeypatch.setattr(type(store.session("s")), "append_many", failing)
    with pytest.raises(Unavailable) as raised:
        import_file(store, path)
    assert "goes on from there" in raised.value.__notes__[0]
    monkeypatch.undo()
    assert counts(import_file(store, path)) == (232, 768, 0)
    assert said(store, "s") == list(range(1000))


def test_two_files_about_one_session_do_not_collide(store: nf.Store, tmp_path: Path) -> None:
    """Turns without keys are numbered by file; files that begin differently are different."""
    first = lines(tmp_path, {"content": "hi"}, {"content": "ok"}, name="first.jsonl")
    second = lines(tmp_path, {"content": "ok"}, {"content": "bye"}, name="second.jsonl")
    for path in (first, second, first, second):
        import_file(store, path, namespace="x")
    assert said(store, "first", namespace="x") == ["hi", "ok"]
    assert said(store, "second", namespace="x") == ["ok", "bye"]
    both = [
        lines(tmp_path, {"session": "s", "content": "hi"}, {"session": "s", "content": "ok"}),
        lines(tmp_path, {"session": "s", "content": "ok"}, name="other.jsonl"),
    ]
    for path in (*both, *both):
        import_file(store, path)
    assert said(store, "s") == ["hi", "ok", "ok"]


def test_a_turn_that_changed_in_the_file_is_reported_not_overwritten(
    store: nf.Store, tmp_path: Path
) -> None:
    before = [{"session": "s", "content": c} for c in ("one", "two", "three")]
    import_file(store, lines(tmp_path, *before))
    after = [{"session": "s", "content": c} for c in ("one", "TWO", "three", "4")]
    report = import_file(store, lines(tmp_path, *after))
    assert counts(report) == (1, 2, 1)
    assert [problem.line for problem in report.problems] == [2]
    assert said(store, "s") == ["one", "two", "three", "4"]


def test_one_turn_that_the_store_refuses_does_not_keep_its_neighbours_out(
    store: nf.Store, tmp_path: Path
) -> None:
    deep: Any = "x"
    for _ in range(700):
        deep = [deep]
    path = lines(tmp_path, *({"session": "s", "content": c} for c in ("a", deep, "b")))
    report = import_file(store, path)
    assert counts(report) == (2, 0, 1)
    assert report.problems[0].line == 2
    assert not report.ok
    assert said(store, "s") == ["a", "b"]


def test_agents_take_turns_in_the_order_of_the_file(store: nf.Store, tmp_path: Path) -> None:
    turns = [{"session": "s", "content": n, "agent": f"a{n % 2}"} for n in range(10)]
    import_file(store, lines(tmp_path, *turns))
    found = [(t.content, t.agent) for t in store.session("s")]
    assert found == [(n, f"a{n % 2}") for n in range(10)]


def test_everything_lands_below_the_namespace(store: nf.Store, tmp_path: Path) -> None:
    path = lines(tmp_path, {"session": "s", "content": "x", "namespace": ["inner"]})
    import_file(store.scoped(namespace="view"), path, namespace="given")
    assert said(store, "s", namespace=("view", "given", "inner")) == ["x"]


def test_a_dry_run_counts_and_writes_nothing(store: nf.Store, tmp_path: Path) -> None:
    turns = [{"session": "s", "content": n} for n in range(5)]
    import_file(store, lines(tmp_path, *turns[:2]))
    report = import_file(store, lines(tmp_path, *turns), dry_run=True)
    assert counts(report) == (3, 2, 0)
    assert report.dry_run
    assert said(store, "s") == [0, 1]


def test_progress_ends_at_the_size_of_the_file(store: nf.Store, tmp_path: Path) -> None:
    path = lines(tmp_path, *({"session": "s", "content": n} for n in range(50)))
    seen: list[tuple[int, int | None]] = []
    import_file(store, path, progress=lambda done, total: seen.append((done, total)))
    done = [each for each, _ in seen]
    assert done == sorted(done)
    assert seen[-1] == (path.stat().st_size, path.stat().st_size)


def test_hidden_turns_are_hidden_again_once(store: nf.Store, tmp_path: Path) -> None:
    path = lines(
        tmp_path,
        {"session": "s", "content": "a"},
        {"session": "s", "content": "b", "state": "hidden"},
        {"session": "s", "content": "c"},
    )
    import_file(store, path)
    hides = len(store.audit(operation="hide"))
    import_file(store, path)
    assert [t.content for t in store.session("s").tail()] == ["a", "c"]
    assert store.session("s").get(1).state == "hidden"
    assert len(store.audit(operation="hide")) == hides == 1


# ---- data exports --------------------------------------------------------------------------------


def export_of(folder: Path, *conversations: dict[str, Any]) -> Path:
    path = folder / "conversations.json"
    path.write_text(json.dumps(list(conversations)))
    return path


def test_a_chatgpt_export_that_has_grown_continues_its_sessions(
    store: nf.Store, tmp_path: Path
) -> None:
    nodes = [message_node("m0"), message_node("m1", "m0"), message_node("m2", "m1")]
    import_file(store, export_of(tmp_path, chatgpt_conversation("c", nodes[:2])))
    report = import_file(store, export_of(tmp_path, chatgpt_conversation("c", nodes)))
    assert counts(report) == (1, 2, 0)
    assert [t.key for t in store.session("chatgpt/c")] == ["m0", "m1", "m2"]


def test_a_branch_that_became_current_later_does_not_mix_with_the_one_before(
    store: nf.Store, tmp_path: Path
) -> None:
    """The question was asked again and answered otherwise: the session keeps the first course, the
    new one has the name of its leaf."""
    nodes = [message_node("q"), message_node("a1", "q"), message_node("a2", "q")]
    import_file(store, export_of(tmp_path, chatgpt_conversation("c", nodes[:2])))
    again = export_of(tmp_path, chatgpt_conversation("c", nodes, current="a2"))
    for _ in range(2):
        import_file(store, again)
    assert [t.key for t in store.session("chatgpt/c")] == ["q", "a1"]
    assert [t.key for t in store.session("chatgpt/c#a2")] == ["q", "a2"]


def test_locomo_keys_are_unique_within_their_sample_only(store: nf.Store, tmp_path: Path) -> None:
    path = tmp_path / "locomo.json"
    path.write_text(json.dumps([locomo_sample(f"s{n}", sessions=3) for n in range(2)]))
    assert counts(import_file(store, path)) == (24, 0, 0)
    assert counts(import_file(store, path)) == (0, 24, 0)
    first = store.session("locomo/s1/session_2").get(0)
    assert (first.name, first.key) == ("Anouk", "D2:1")


def test_empty_names_and_ids_in_a_file_are_taken_for_none(store: nf.Store, tmp_path: Path) -> None:
    """Exports of other programs hold them; no turn does."""
    path = lines(tmp_path, {"session": "s", "content": 1, "name": "", "call_id": "", "key": ""})
    assert counts(import_file(store, path)) == (1, 0, 0)
    assert counts(import_file(store, path)) == (0, 1, 0)
    (turn,) = store.session("s")
    assert (turn.name, turn.call_id) == (None, None)
