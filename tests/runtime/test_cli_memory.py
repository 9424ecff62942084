"""Memories at the command line: what people and programs see, exit codes, confirmation."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import neverforget as nf
from tests.runtime.cli_calls import Cli
from tests.storage.bytes_left import left_of

Teller = Callable[..., str]


@pytest.fixture
def memory(tmp_path: Path) -> Path:
    """A store without an embedder, so that no command waits for one."""
    path = tmp_path / "memory"
    with nf.open(path, inline=True, embedder="none", partitions=1) as store:
        store.session("talk").append("user", "Ferries leave on time")
    return path


@pytest.fixture
def told(cli: Cli, memory: Path) -> Teller:
    """Remembers a text and gives its id."""

    def remember(text: str, *options: str) -> str:
        ran = cli("remember", memory, text, *options)
        assert ran.code == 0, ran
        return ran.out.strip()

    return remember


# ---- remembering and reading ---------------------------------------------------------------------


def test_what_was_remembered_is_shown_whole(cli: Cli, memory: Path, told: Teller) -> None:
    name = told(
        "The 17:15 was late", "--tag", "ferries:delays", "--tag", "sula", "--type", "event",
        "--importance", "7", "--confidence", "0.5", "--key", "k", "--speaker", "Jon",
        "--agent", "scout", "--source", "log", "--metadata", '{"minutes": 12}', "-N", "acme",
        "--occurred-at", "2026-04-13T17:15:00+02:00", "--valid-to", "2027-01-01",
    )  # fmt: skip
    found = cli("get", memory, name, "--json").json
    assert found["id"] == name and found["kind"] == "memory"
    assert (found["text"], found["type"], found["key"]) == ("The 17:15 was late", "event", "k")
    assert (found["tags"], found["namespace"]) == (["ferries:delays", "sula"], ["acme"])
    assert (found["importance"], found["confidence"]) == (7.0, 0.5)
    assert (found["agent"], found["speaker"], found["source"]) == ("scout", "Jon", "log")
    assert found["metadata"] == {"minutes": 12}
    assert found["occurred_at"] == "2026-04-13T15:15:00Z"
    assert found["valid_to"] == "2027-01-01T00:00:00Z"
    shown = cli("get", memory, "--key", "k", "-N", "acme").out
    for expected in ("The 17:15 was late", name, "ferries:delays, sula", "7 of 10", "Jon", "event"):
        assert expected in shown


def test_a_key_makes_it_safe_to_repeat(cli: Cli, memory: Path, told: Teller) -> None:
    assert told("once", "--key", "k") == told("once", "--key", "k")
    assert cli("remember", memory, "other", "--key", "k").code == 1
    revised = cli("remember", memory, "other", "--key", "k", "--on-conflict", "revise", "--json")
    assert (revised.json["text"], revised.json["version"]) == ("other", 2)


def test_the_text_may_come_from_standard_input_or_a_file(
    cli: Cli, memory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("two\nlines"))
    assert cli("remember", memory, "-", "--json").json["text"] == "two\nlines"
    file = tmp_path / "text"
    file.write_text("from a file 🌿")
    assert cli("remember", memory, "--file", file, "--json").json["text"] == "from a file 🌿"
    assert cli("remember", memory, "and", "--file", file).code == 2
    assert cli("remember", memory, "--file", tmp_path / "no").code == 3
    file.write_bytes(b"\xff")
    assert cli("remember", memory, "--file", file).code == 2


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        [""],
        [" \n "],
        ["x", "--tag", "Not A Tag"],
        ["x", "--importance", "11"],
        ["x", "--type", "fact-chunk"],
        ["x", "--metadata", "[]"],
        ["x", "--metadata", "{"],
        ["x", "--occurred-at", "soon"],
        ["x", "--on-conflict", "ignore"],
    ],
)
def test_what_cannot_be_remembered_is_two(cli: Cli, memory: Path, arguments: list[str]) -> None:
    ran = cli("remember", memory, *arguments)
    assert (ran.code, ran.out) == (2, "")
    assert "Traceback" not in ran.err


def test_memories_are_listed_and_filtered(cli: Cli, memory: Path, told: Teller) -> None:
    told("first", "--tag", "ai:llm", "--type", "decision", "--occurred-at", "2026-03-11")
    told("second", "--tag", "ai", "--metadata", '{"n": 3}', "--agent", "ada")
    told("third", "-N", "acme")

    def texts(*options: str) -> list[str]:
        found = cli("memories", memory, *options, "--json").json
        return [item["text"] for item in found["items"]]

    assert texts() == ["first", "second", "third"]
    assert texts("--tag", "ai") == ["first", "second"]
    assert texts("--type", "decision") == ["first"]
    assert texts("--agent", "ada") == texts("--where", '{"metadata.n": {"$gt": 2}}') == ["second"]
    assert texts("-N", "acme") == ["third"]
    assert texts("--timeframe", "2026-03") == ["first"]
    assert texts("--timeframe", "2026-03-11..2026-03-12") == ["first"]
    assert texts("--timeframe", "..2026-03-11") == []
    assert cli("memories", memory, "--timeframe", "blursday").code == 2
    assert cli("memories", memory, "--where", "{").code == 2
    page = cli("memories", memory, "-n", "2")
    assert "second" in page.out and "third" not in page.out and "more: --after" in page.err
    rest = cli("memories", memory, "--after", page.err.split()[-1])
    assert "third" in rest.out and "first" not in rest.out


# ---- recall --------------------------------------------------------------------------------------


def test_recall_shows_what_was_found_where_it_is_from_and_how(
    cli: Cli, memory: Path, told: Teller
) -> None:
    name = told("Captain Eilertsen waits for the school bus", "--occurred-at", "2026-04-08")
    told("Something else entirely")
    with nf.open(memory, inline=True) as store:
        store.session("talk").append("user", "hello")
        store.relate(name, nf.TurnRef((), "talk", 0, 0), "derived-from")
    ran = cli("recall", memory, "school buses", "--strategy", "text")
    assert ran.code == 0
    for expected in ("Captain Eilertsen", "2026-04-08", name, "from talk #0", "text 1"):
        assert expected in ran.out
    found = cli("recall", memory, "school buses", "--strategy", "text", "--json", "--explain").json
    (item,) = found["items"]
    assert item["memory"]["id"] == name
    assert item["sources"]["text"] == 1
    assert item["arithmetic"]["score"] == item["score"]
    assert item["provenance"] == [{"namespace": [], "session": "talk", "first": 0, "last": 0}]
    assert (found["complete"], found["pending"]) == (True, 0)
    explained = cli("recall", memory, "school buses", "--strategy", "text", "--explain").out
    assert "weight" in explained and "sum" in explained


def test_recall_takes_the_time_out_of_the_query(cli: Cli, memory: Path, told: Teller) -> None:
    told("The pilot began", "--occurred-at", "2020-01-01")
    told("The pilot ended")
    ran = cli("recall", memory, "pilot today", "--timeframe", "auto", "--strategy", "text")
    assert "ended" in ran.out and "began" not in ran.out
    assert '"today": from' in ran.err
    assert "nothing found" in cli("recall", memory, "pilot", "--timeframe", "2019").err


def test_recall_without_a_model_says_so(cli: Cli, memory: Path, told: Teller) -> None:
    told("cats purr")
    assert "cats purr" in cli("recall", memory, "cats").out
    refused = cli("recall", memory, "cats", "--strategy", "vector")
    assert refused.code in (2, 4) and refused.out == ""
    assert cli("recall", memory, "cats", "--strategy", "magic").code == 2


def test_what_one_command_remembered_the_next_recalls_by_meaning(cli: Cli, tmp_path: Path) -> None:
    """No process is left between the two that could have worked out what the text means."""
    path = tmp_path / "new"
    name = cli("remember", path, "The cat sat on the mat").out.strip()
    cli("remember", path, "Stock prices fell on Monday")
    found = cli("recall", path, "a feline on the rug", "-n", "1", "--json").json
    assert [(item["memory"]["id"], set(item["sources"])) for item in found["items"]] == [
        (name, {"vector"})
    ]
    assert (found["complete"], found["pending"]) == (True, 0)


def test_words_from_a_memory_cannot_command_the_terminal(
    cli: Cli, memory: Path, told: Teller
) -> None:
    told("\x1b]0;owned\x07 evil [bold]x[/] \u202egnp.exe 日本語 👩‍🚀", "--tag", "t")
    for ran in (cli("recall", memory, "evil 日本語"), cli("memories", memory)):
        assert "\\x1b]0;owned\\x07" in ran.out
        assert "[bold]x[/]" in ran.out and "日本語 👩‍🚀" in ran.out
        assert not {"\x1b", "\x07", "\u202e"} & set(ran.out)


def test_long_texts_are_shown_where_they_were_found(cli: Cli, memory: Path, told: Teller) -> None:
    told("word " * 1000 + "end")
    short = cli("memories", memory).out
    assert "--full shows them" in short and "end" not in short
    assert "word end" in cli("memories", memory, "--full").out


# ---- changing ------------------------------------------------------------------------------------


def test_a_revision_keeps_the_versions_before(cli: Cli, memory: Path, told: Teller) -> None:
    name = told("Thursdays", "--speaker", "Dele", "--tag", "deploys")
    ran = cli("revise", memory, name, "Tuesdays", "--expect-version", "1", "--speaker", "none")
    assert (ran.code, ran.out.strip(), ran.err.strip()) == (0, name, "version 2")
    found = cli("revise", memory, name, "--importance", "9", "--json").json
    assert (found["text"], found["importance"], found["version"]) == ("Tuesdays", 9.0, 3)
    assert "speaker" not in found and found["tags"] == ["deploys"]
    assert cli("revise", memory, name, "x", "--expect-version", "1").code == 1
    assert cli("revise", memory, name).code == 2
    lines = [json.loads(line) for line in cli("history", memory, name, "--json").out.splitlines()]
    assert [line["version"] for line in lines] == [1, 2, 3]
    shown = cli("history", memory, name).out
    assert "Thursdays" in shown and "version 2 of" in shown


def test_tags_and_relations(cli: Cli, memory: Path, told: Teller) -> None:
    first, second = told("first", "--tag", "a"), told("second")
    assert cli("tag", memory, first, "--add", "b:c", "--remove", "a").out == "b:c\n"
    assert cli("tag", memory, first).code == 2
    wrong = cli("tag", memory, first, "work")
    assert wrong.code == 2 and "--add TAG" in wrong.err
    for arguments in ((first, second, "replaces"), (first, "replaces", second)):
        wrong = cli("relate", memory, *arguments)
        assert wrong.code == 2 and "--kind KIND" in wrong.err
    assert cli("relate", memory, first, second, "--kind", "replaces").code == 0
    assert f"→ replaces {second}" in cli("get", memory, first).out
    assert f"← replaces {first}" in cli("get", memory, second).out
    assert cli("relate", memory, first, second, "--kind", "replaces", "--remove").code == 0
    assert "replaces" not in cli("get", memory, first).out


# ---- forgetting ----------------------------------------------------------------------------------


def test_forgetting_wants_the_word_and_can_be_undone(cli: Cli, memory: Path, told: Teller) -> None:
    name = told("to be forgotten")
    for confirm in ([], ["--confirm", "yes"], ["--confirm", "CONFIRMED"]):
        refused = cli("forget", memory, name, *confirm, "--by", "ada")
        assert (refused.code, refused.out) == (5, "")
        assert "--confirm confirmed" in refused.err
    assert cli("get", memory, name).code == 0
    done = cli("forget", memory, name, "--confirm", "confirmed", "--reason", "test", "--by", "ada")
    assert done.code == 0 and "because: test" in done.out
    assert cli("get", memory, name).code == 3
    assert cli("recall", memory, "forgotten", "--strategy", "text").out == ""
    assert "forgotten" in cli("get", memory, name, "--forgotten").out
    assert "to be forgotten" in cli("undo-forget", memory, name).out
    assert cli("get", memory, name).code == 0
    entries = cli("audit", memory, "--memory", name, "--json").json["items"]
    assert [e["operation"] for e in entries] == ["forget-refused"] * 3 + ["forget", "undo-forget"]
    assert {e["by"] for e in entries[:4]} == {"ada"}
    shown = cli("audit", memory, "--operation", "forget").out
    assert "because: test" in shown and name in shown and "refused" not in shown
    report = cli("deletion-report", memory, "today", "--json").json
    assert (report["forgotten"], report["restored"], report["refused"]) == (1, 1, 3)


def test_archived_memories_are_found_on_request(cli: Cli, memory: Path, told: Teller) -> None:
    name = told("the old timetable")
    assert cli("archive", memory, name).code == 5
    assert cli("archive", memory, name, "--confirm", "confirmed").code == 0
    assert cli("recall", memory, "timetable").out == ""
    assert "old timetable" in cli("recall", memory, "timetable", "--archived").out
    assert "archived" in cli("memories", memory, "--status", "archived").out
    assert cli("unarchive", memory, name).code == 0
    assert "old timetable" in cli("recall", memory, "timetable").out


def test_erased_words_are_gone_from_the_disk(cli: Cli, memory: Path, told: Teller) -> None:
    name = told("the xylophone secret")
    assert cli("erase", memory, name).code == 5
    done = cli("erase", memory, name, "--confirm", "confirmed")
    assert done.code == 0 and "1 memory" in done.out
    assert cli("get", memory, name, "--forgotten").code == 3
    assert left_of(memory, "xylophone") == []
    assert cli("erase", memory).code == 2


def test_purging_counts_before_it_does_anything(cli: Cli, memory: Path, told: Teller) -> None:
    name = told("long gone")
    cli("forget", memory, name, "--confirm", "confirmed")
    assert cli("purge", memory, "--older-than", "1d", "--dry-run").out == "0 would be purged\n"
    dry = cli("purge", memory, "--older-than", "0h", "--dry-run", "--json").json
    assert dry == {"purged": 1, "dry_run": True}
    assert cli("purge", memory, "--older-than", "0h").code == 5
    assert cli("purge", memory, "--older-than", "0h", "--confirm", "confirmed").code == 0
    assert cli("undo-forget", memory, name).code == 3
    assert cli("purge", memory, "--older-than", "some time").code == 2


# ---- the store -----------------------------------------------------------------------------------


def test_status_tells_about_the_memories(cli: Cli, memory: Path, told: Teller) -> None:
    name = told("one")
    told("two")
    cli("forget", memory, name, "--confirm", "confirmed")
    found = cli("status", memory, "--json").json
    assert (found["memories"], found["longterm"]["forgotten"], found["healthy"]) == (1, 1, True)
    shown = cli("status", memory).out
    assert "1, 1 forgotten" in shown and "none" in shown


@pytest.mark.parametrize(
    "command",
    [
        ["get"], ["revise", "x"], ["history"], ["tag", "--add", "a"], ["forget"], ["undo-forget"],
        ["archive"], ["unarchive"], ["erase"],
    ],
    ids=lambda command: command[0],
)  # fmt: skip
def test_a_memory_that_is_not_there_is_three(cli: Cli, memory: Path, command: list[str]) -> None:
    name, *rest = command
    for missing in ("0199a8f3-2c51-7a0e-9d43-5f0e6a7b8c9d", "nonsense"):
        ran = cli(name, memory, missing, *rest)
        assert (ran.code, ran.out) == (3, ""), ran
        assert ran.err.count("\n") == 1


def test_another_embedder_takes_over_with_every_memory(
    cli: Cli, memory: Path, told: Teller
) -> None:
    told("The cat sat on the mat")
    ran = cli("reindex", memory, "--embedder", "minilm", "--json")
    assert (ran.code, ran.json["vectors"], ran.json["dimension"]) == (0, 1, 384)
    assert "cat" in cli("recall", memory, "feline", "--strategy", "vector").out
    assert cli("reindex", memory, "--embedder", "none").out == "0 vectors by none\n"
    assert cli("reindex", memory, "--embedder", "nonsense").code == 2
