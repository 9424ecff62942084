"""Who did what, at the command line: agents, and the history of a topic."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

import neverforget as nf
from tests.runtime.cli_calls import Cli


def day(number: int) -> datetime:
    return datetime(2026, 3, number, 9, tzinfo=UTC)


@pytest.fixture
def memory(tmp_path: Path) -> Path:
    """Two agents talked to Ann about the pilot; what they learned came in another order."""
    path = tmp_path / "memory"
    with nf.open(path, inline=True, embedder="none", partitions=2) as store:
        for number, (agent, words) in enumerate(
            [("desk", "the pilot starts on Monday"), ("field", "the pilot was stopped")], 1
        ):
            view = store.scoped(agent=agent, namespace="acme")
            chat = view.session(f"talk-{number}")
            chat.append("user", f"Ann says {words}", name="Ann", timestamp=day(number))
            chat.append("assistant", "noted", timestamp=day(number))
        view = store.scoped(namespace="acme")
        view.remember(
            "The pilot was stopped", occurred_at=day(2), speaker="Ann", agent="field",
            related_to=[(nf.TurnRef((), "talk-2", 0, 1), "derived-from")],
        )  # fmt: skip
        view.remember(
            "The pilot starts on Monday", occurred_at=day(1), speaker="Ann", agent="desk",
            related_to=[(nf.TurnRef((), "talk-1", 0, 0), "derived-from")],
        )  # fmt: skip
        store.scoped(agent="desk").recall("pilot")
    return path


def test_agents_are_listed_with_what_they_did(cli: Cli, memory: Path) -> None:
    ran = cli("agents", memory)
    assert ran.code == 0 and not ran.err
    head, *rows = ran.out.splitlines()
    assert head.split() == ["agent", "last", "active", "turns", "sessions", "memories", "recalls"]
    assert [row.split()[0] for row in rows] == ["desk", "field"], (
        "the one that recalled comes first"
    )
    assert [row.split()[-4:] for row in rows] == [["2", "1", "1", "1"], ["2", "1", "1", "0"]]
    items = cli("agents", memory, "--namespace", "acme", "--json").json["items"]
    assert [(each["agent"], each["recalls"]) for each in items] == [("desk", 0), ("field", 0)]
    assert set(items[0]) == set(nf.AgentInfo.__struct_fields__)


def test_a_store_that_nobody_used_says_so(cli: Cli, tmp_path: Path) -> None:
    with nf.open(tmp_path / "new", inline=True, embedder="none"):
        pass
    ran = cli("agents", tmp_path / "new")
    assert (ran.code, ran.out) == (0, "") and "nobody" in ran.err
    assert cli("agents", tmp_path / "new", "--json").json == {"items": []}


def test_a_recall_says_whose_words_a_memory_holds_and_by_which_agent(
    cli: Cli, memory: Path
) -> None:
    ran = cli("recall", memory, "pilot stopped", "-n", "1", "--strategy", "text")
    assert "Ann  by field" in ran.out and "from acme / talk-2 #0-1" in ran.out


def test_a_timeline_is_in_the_order_of_events_with_what_was_said(cli: Cli, memory: Path) -> None:
    ran = cli("recall", memory, "pilot stopped", "--strategy", "text", "--timeline")
    first, second = ran.out.index("starts on Monday"), ran.out.index("was stopped")
    assert first < second, "though the second is the better hit"
    assert "#0  Ann to desk  2026-03-01 09:00  Ann says the pilot starts on Monday" in ran.out
    assert "#1  field  2026-03-02 09:00  noted" in ran.out
    items = cli(
        "recall", memory, "pilot stopped", "--strategy", "text", "--timeline", "--json"
    ).json["items"]
    assert [item["memory"]["occurred_at"][:10] for item in items] == ["2026-03-01", "2026-03-02"]
    assert items[0]["score"] < items[1]["score"]
    assert [(t["speaker"], t["agent"], t["seq"]) for t in items[1]["turns"]] == [
        ("Ann", "field", 0),
        ("field", "field", 1),
    ]


def test_a_timeline_shows_nothing_of_turns_that_were_erased(cli: Cli, memory: Path) -> None:
    with nf.open(memory, inline=True, reflect_after_s=0) as store:
        store.session("talk-2", namespace="acme").erase([0], confirm=nf.CONFIRMED)
    ran = cli("recall", memory, "pilot stopped", "--strategy", "text", "--timeline")
    assert "(erased)" in ran.out and "Ann says the pilot was stopped" not in ran.out
    items = cli("recall", memory, "pilot", "--strategy", "text", "--timeline", "--json").json[
        "items"
    ]
    assert [turn["text"] for turn in items[1]["turns"]] == [None, "noted"]
