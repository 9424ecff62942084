"""What an agent has in mind, at the command line: for people, for programs, for chat APIs."""

from __future__ import annotations

from pathlib import Path

import pytest

import neverforget as nf
from tests.runtime.cli_calls import Cli


@pytest.fixture
def memory(tmp_path: Path) -> Path:
    """A store in which ada, and the group support, have something in mind."""
    path = tmp_path / "memory"
    with nf.open(path, inline=True, embedder="none", partitions=1, agent="ada") as store:
        chat = store.session("talk")
        chat.append("user", "When does the ferry leave?", name="Mara")
        chat.append("assistant", "At 17:15.")
        ref = nf.TurnRef((), "talk", 0, 1)
        ferry = store.remember("The ferry leaves at 17:15", related_to=ref, importance=3)
        wm = store.working_memory(max_tokens=200)
        wm.add(ferry, pinned=True)
        wm.recall("ferry leaves", strategy="text")
        store.remember("Oslo is\x1b[2J the next stop")
        with_group = store.working_memory(group="support")
        with_group.join()
        with_group.add(ferry)
    return path


def test_a_context_is_printed_as_it_goes_into_a_prompt(cli: Cli, memory: Path) -> None:
    ran = cli("context", memory, "ada", "--session", "talk", "--max-tokens", "300")
    assert ran.code == 0, ran
    lines = ran.out.splitlines()
    assert lines[0] == "<recalled-memories>" and lines[-1] == "ada: At 17:15."
    assert "; talk #0-1] The ferry leaves at 17:15" in lines[2]
    assert "of 300 tokens, 1 memory, 2 turns" in ran.err


def test_messages_are_those_of_a_chat_api(cli: Cli, memory: Path) -> None:
    told = cli("context", memory, "ada", "--session", "talk", "--messages").json
    assert [message["role"] for message in told] == ["system", "user", "assistant"]
    assert told[1] == {"role": "user", "content": "When does the ferry leave?", "name": "Mara"}


def test_recall_brings_more_into_it(cli: Cli, memory: Path) -> None:
    ran = cli("context", memory, "ada", "--recall", "next stop", "--strategy", "recent")
    assert ran.code == 0 and "Oslo is\\x1b[2J the next stop" in ran.out, ran
    made = cli("context", memory, "ada", "--json").json
    assert [each["memory"]["text"][:4] for each in made["items"]] == ["The ", "Oslo"]
    assert made["items"][0]["pinned"] and made["items"][0]["provenance"][0]["session"] == "talk"
    assert made["tokens"] <= made["max_tokens"] and made["left_out"] == {"memories": 0, "turns": 0}
    assert made["text"].startswith("<recalled-memories>") and made["turns"] == []


def test_too_little_room_for_what_is_pinned_is_told(cli: Cli, memory: Path) -> None:
    ran = cli("context", memory, "ada", "--max-tokens", "20")
    assert ran.code == 2 and "unpin some of it" in ran.err
    assert cli("context", memory, "ada", "--strategy", "best").code == 2


def test_a_working_memory_is_shown_with_its_use(cli: Cli, memory: Path) -> None:
    ran = cli("working-memory", memory, "ada")
    assert ran.code == 0 and "The ferry leaves at 17:15" in ran.out, ran
    assert "pinned, 11 tokens" in ran.out and "recalled 1 time" in ran.out
    assert "from talk #0-1" in ran.out
    assert "1 memory, 11 tokens, 6% of its budget" in ran.err


def test_a_group_is_shown_with_its_members(cli: Cli, memory: Path) -> None:
    told = cli("working-memory", memory, "bob", "--group", "support", "--json").json
    assert (told["group"], told["utilization"]) == ("support", 11 / 128_000)
    (item,) = told["items"]
    assert item["memory"]["text"] == "The ferry leaves at 17:15" and not item["pinned"]
    (member,) = told["members"]
    assert (member["agent"], member["active"]) == ("ada", True)
    assert "ada: active, joined" in cli("working-memory", memory, "x", "--group", "support").err
    of_ada = cli("working-memory", memory, "ada", "--group", "support", "--json").json
    assert of_ada["members"][0]["seen_at"] is None  # who looks from outside is not there


def test_a_context_of_a_group_holds_what_the_group_has_in_mind(cli: Cli, memory: Path) -> None:
    made = cli("context", memory, "bob", "--group", "support", "--json").json
    assert [each["memory"]["text"] for each in made["items"]] == ["The ferry leaves at 17:15"]
    assert not made["items"][0]["pinned"]


def test_an_empty_one_is_no_error(cli: Cli, memory: Path) -> None:
    ran = cli("working-memory", memory, "eve")
    assert (ran.code, ran.out) == (0, "") and "nothing in it" in ran.err
    assert cli("context", memory, "eve", "--messages").json == []
    ran = cli("context", memory, "ada", "--session", "tlak")
    assert ran.code == 0 and "nothing was said in 'tlak' yet" in ran.err
    assert cli("context", memory, "ada", "-N", "acme", "--messages").json == []
