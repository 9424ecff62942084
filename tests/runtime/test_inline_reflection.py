"""Reflection of a store inside this process: its thread begins when something is due, and ends with
the store.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

import neverforget as nf
from neverforget.actors import reflector, reflector_pauses
from neverforget.runtime.store import open_quietly
from tests.fakes.extractors import Failing, Hanging, Noting

SETTINGS: dict[str, Any] = {"inline": True, "partitions": 1, "embedder": "none"}


def say(chat: nf.Session, *texts: str) -> None:
    chat.append_many([{"role": "user", "name": "ada", "content": text} for text in texts])


def texts(store: nf.Store, **where: Any) -> list[str]:
    return sorted(memory.text for memory in store.memories(**where, limit=1_000))


def threads() -> set[str]:
    return {thread.name for thread in threading.enumerate()}


def test_what_was_said_often_enough_becomes_memories_by_itself(tmp_path: Path) -> None:
    before = threads()
    with nf.open(tmp_path / "s", **SETTINGS, extractor=Noting(), reflect_every_turns=3) as store:
        chat = store.session("chat", namespace=("acme",))
        say(chat, "one", "two")
        store.settle()
        assert store.status().reflection.state == "idle" and texts(store) == []
        assert not {name for name in threads() - before if "reflect" in name}
        say(chat, "three")
        found = store.settle().reflection
        assert texts(store) == ["ada: one", "ada: three", "ada: two"]
        assert (found.state, found.turns, found.turns_reflected, found.facts) == (
            "running",
            0,
            3,
            3,
        )
        memory = store.memories(namespace=("acme",))[0]
        assert store.provenance(memory.id) == [nf.TurnRef(("acme",), "chat", 0, 0)]
        assert memory.source == "reflection" and memory.speaker == "ada"
        assert chat.info().consolidated_through == 3


def test_a_session_that_fell_silent_is_reflected_too(tmp_path: Path) -> None:
    often: dict[str, Any] = {"reflect_every_turns": 1_000, "reflect_after_s": 0.01}
    with nf.open(tmp_path / "s", **SETTINGS, extractor=Noting(), **often) as store:
        say(store.session("chat"), "one")
        while not texts(store):
            store.settle()
        assert store.settle().reflection.turns == 0


def test_what_was_said_to_a_command_is_reflected_by_who_opens_the_store(tmp_path: Path) -> None:
    path = tmp_path / "s"
    settings = {**SETTINGS, "extractor": "rules", "reflect_every_turns": 3}
    nf.open(path, **settings).close()
    with open_quietly(path) as store:
        say(store.session("chat"), *(f"I live in Oslo and like tea, {n}" for n in range(3)))
        assert store.settle().reflection.due == 0 and texts(store) == []
    with nf.open(path, **settings) as store:
        store.settle()
        assert texts(store)


TALK = """
import sys
import neverforget as nf
store = nf.open(sys.argv[1], inline=True, partitions=1, embedder="none", extractor="rules")
chat = store.session("chat")
for n in range(int(sys.argv[2])):
    chat.append("user", f"I moved to town number {n} last year", name="Ada", sync="process")
if len(sys.argv) > 3:
    store.close()
else:
    while not store.status().reflection.turns_reflected:
        pass
heavy = ("neverforget.actors.reflector", "neverforget.actors.longterm", "faiss", "tantivy")
print([name for name in heavy if name in sys.modules])
"""


def talk(path: Path, turns: int, *more: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", TALK, str(path), str(turns), *more], capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.strip()


def test_who_only_talks_for_a_short_while_loads_nothing_that_reflects(tmp_path: Path) -> None:
    assert talk(tmp_path / "s", 99, "close") == "[]"


def test_a_process_that_ends_amid_a_reflection_ends_well_and_the_next_goes_on(
    tmp_path: Path,
) -> None:
    path = tmp_path / "s"
    talk(path, 1_000)
    with nf.open(path, **SETTINGS) as store:
        found = store.settle().reflection
        assert found.due == 0 and found.turns < 100
        store.reflect()
        kept = texts(store)
        assert len(kept) == len(set(kept)) == 1_000


def test_a_reflector_that_could_not_begin_begins_with_the_next_session(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where no thread was left for it, it stood there without one: nothing was reflected until the
    store was opened anew, and whoever called ``reflect`` waited for ever.
    """
    start, failed = threading.Thread.start, threading.Event()

    def refused(thread: threading.Thread) -> None:
        if thread.name == "neverforget-reflector" and not failed.is_set():
            failed.set()
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", refused)
    with nf.open(tmp_path / "s", **SETTINGS, extractor=Noting(), reflect_every_turns=1) as store:
        say(store.session("a"), "one")
        assert failed.wait(60)
        say(store.session("b"), "two")
        store.settle()
        assert texts(store) == ["ada: one", "ada: two"]
    failed.clear()
    with nf.open(tmp_path / "t", **SETTINGS, extractor=Noting(), reflect_every_turns=0) as store:
        say(store.session("a"), "one")
        with pytest.raises(nf.Unavailable, match="cannot be started"):
            store.reflect()
        assert store.reflect().facts == 1


def test_a_store_closes_while_its_extractor_hangs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The window is made again by who opens the store next."""
    monkeypatch.setattr(reflector, "END_S", 0.1)
    path, hanging = tmp_path / "s", Hanging()
    with nf.open(path, **SETTINGS, extractor=hanging, reflect_every_turns=1) as store:
        say(store.session("chat"), "one")
        assert hanging.asked.wait(60)
    hanging.released.set()
    with nf.open(path, **SETTINGS, extractor=Noting(None, "hanging-1")) as store:
        store.settle()
        assert texts(store) == ["ada: one"]


def test_reflect_takes_a_session_or_all_that_a_view_sees(tmp_path: Path) -> None:
    seen: list[tuple[int, int]] = []
    with nf.open(tmp_path / "s", **SETTINGS, extractor=Noting(), reflect_every_turns=0) as store:
        for namespace in (("a",), ("b",), ("b", "c")):
            for name in ("one", "two"):
                say(store.session(name, namespace=namespace), *"xyz")
        assert store.settle().reflection.turns == 18
        report = store.reflect(
            store.session("one", namespace=("a",)), progress=lambda *at: seen.append(at)
        )
        assert (report.sessions, report.turns, report.facts, report.failed) == (1, 3, 3, ())
        assert report.extractor == "noting-1" and seen[-1] == (3, 3)
        view = store.scoped(namespace="b")
        assert view.reflect().sessions == 4
        assert len(texts(store, namespace=("b",))) == 12 and store.settle().reflection.turns == 3
        with pytest.raises(nf.NotFound):
            view.reflect(store.session("two", namespace=("a",)))
        assert store.reflect().turns == 3 and store.reflect().turns == 0
        assert store.recall("x", namespace=("a",)).complete


def test_a_failed_range_is_shown_and_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reflector_pauses, "PAUSE_S_MIN", 0.01)
    failing = Failing()
    with nf.open(tmp_path / "s", **SETTINGS, extractor=failing, reflect_every_turns=0) as store:
        chat = store.session("chat")
        say(chat, "one", "two")
        failed = store.reflect().failed
        assert [(each.session, each.first, each.last, each.tries) for each in failed] == [
            ("chat", 0, 1, 3)
        ]
        assert "ValueError" in failed[0].error and failing.asked == 3
        found = store.status().reflection
        assert (found.failures, found.due, found.turns) == (1, 0, 0)
        assert [(each.first, each.last, each.error) for each in found.failed] == [
            (0, 1, failed[0].error)
        ]
        failing.fails = False
        assert store.reflect(chat).facts == 2
        assert store.status().reflection.failures == 0 and len(texts(store)) == 2


def test_an_extractor_of_another_version_supersedes_what_the_first_made(tmp_path: Path) -> None:
    path = tmp_path / "s"
    with nf.open(path, **SETTINGS, extractor=Noting(), reflect_every_turns=0) as store:
        say(store.session("chat"), "one")
        store.reflect()
        assert store.reflect(again=True).turns == 0
        (first,) = store.memories()
    again = Noting(None, "noting-2")
    with nf.open(path, **SETTINGS, extractor=again, reflect_every_turns=0) as store:
        assert store.reflect().turns == 0
        assert store.reflect(again=True).facts == 1
        older, newer = store.memories()
        assert older.id == first.id and older.valid_to is not None
        (relation,) = store.relations(newer.id, kind="supersedes")
        assert relation.target == older.id


def test_a_loop_reflects_and_settles(tmp_path: Path) -> None:
    async def run() -> int:
        async with await nf.aio.open(
            tmp_path / "s", **SETTINGS, extractor=Noting(), reflect_every_turns=2
        ) as store:
            chat = store.session("chat")
            await chat.append("user", "one")
            assert (await store.reflect(chat)).facts == 1
            await chat.append("user", "two")
            await chat.append("user", "three")
            await store.settle()
            return len(await store.memories())

    assert asyncio.run(run()) == 3


def test_what_cannot_be_reflected_is_refused(tmp_path: Path) -> None:
    with (
        nf.open(tmp_path / "a", **SETTINGS, extractor="none") as silent,
        nf.open(tmp_path / "b", **SETTINGS) as store,
    ):
        with pytest.raises(nf.InvalidArgument, match="none"):
            silent.reflect()
        say(silent.session("chat"), *map(str, range(100)))
        assert silent.settle().reflection.due == 0 and silent.status().reflection.turns == 100
        wrong: Any
        for wrong in ("chat", silent.session("chat")):
            with pytest.raises(nf.InvalidArgument, match="session"):
                store.reflect(wrong)
        with pytest.raises(nf.InvalidArgument, match="again"):
            store.reflect(again=1)  # type: ignore[arg-type]


def test_a_store_of_tests_reflects_when_it_is_told_to(tmp_path: Path) -> None:
    with nf.testing.store(tmp_path / "a") as store:
        say(store.session("chat"), *(f"I moved to Oslo, {n}" for n in range(150)))
        assert store.settle().reflection.turns == 150
        assert store.status().reflection.state == "idle"
    with nf.testing.store(tmp_path / "b", reflect_every_turns=1) as store:
        say(store.session("chat"), "I moved to Oslo last week")
        assert store.settle().reflection.turns == 0 and len(store.memories()) == 1
