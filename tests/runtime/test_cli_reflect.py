"""``neverforget reflect``, and what ``status`` shows of reflection."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import neverforget as nf
from neverforget.actors import reflector_pauses
from neverforget.runtime.cli_reflect import print_failed, reflection_rows, summary
from tests.fakes.embedding_server import says, serving
from tests.fakes.extractors import Noting
from tests.runtime.cli_calls import Cli

SAID = (
    "I moved to Oslo last week",
    "My sister Ida is a nurse in Bergen",
    "I decided to sell the boat",
)


def said(path: Path, *places: tuple[tuple[str, ...], str], extractor: Any = "rules") -> None:
    settings: dict[str, Any] = {"inline": True, "partitions": 1, "embedder": "none"}
    with nf.open(path, **settings, extractor=extractor) as store:
        for namespace, name in places or (((), "chat"),):
            chat = store.session(name, namespace=namespace)
            for text in SAID:
                chat.append("user", text, name="Ada")


def test_reflect_shows_what_was_learned_and_from_which_turns(cli: Cli, tmp_path: Path) -> None:
    memory = tmp_path / "memory"
    said(memory)
    waits = json.loads(cli("status", memory, "--json").out)["reflection"]
    assert (waits["turns"], waits["sessions"], waits["due"]) == (3, 1, 0)
    assert "3 turns of 1 session," in cli("status", memory).out
    ran = cli("reflect", memory)
    assert ran.code == 0 and "of 3 turns in 1 session," in ran.out
    assert "moved to Oslo" in ran.out and "from chat #0" in ran.out
    assert cli("reflect", memory).out.strip() == "nothing waits to be reflected"
    assert "to be reflected" in cli("status", memory).out


def test_reflect_prints_data_for_programs(cli: Cli, tmp_path: Path) -> None:
    memory = tmp_path / "memory"
    said(memory)
    found = json.loads(cli("reflect", memory, "--session", "chat", "--json").out)
    assert (found["turns"], found["sessions"], found["failed"]) == (3, 1, [])
    assert found["facts"] >= len(found["newest"]) > 0
    assert all(each["metadata"]["session"] == "chat" for each in found["newest"])
    assert json.loads(cli("reflect", memory, "--json", "--again").out)["turns"] == 0


def test_reflect_says_what_it_does_not_find(cli: Cli, tmp_path: Path) -> None:
    assert cli("reflect", tmp_path / "nothing").code == 3
    memory = tmp_path / "memory"
    said(memory)
    ran = cli("reflect", memory, "--session", "chta")
    assert ran.code == 0 and "no turns in chta" in ran.err


def test_reflect_keeps_to_the_session_and_the_namespace(cli: Cli, tmp_path: Path) -> None:
    memory = tmp_path / "memory"
    said(memory, ((), "chat"), (("acme",), "chat"), (("acme",), "more"), (("acme", "x"), "chat"))
    told = [
        cli("reflect", memory, *words, "--json").json
        for words in (("-N", "acme", "--session", "chat"), ("-N", "acme"), ())
    ]
    assert [(each["sessions"], each["turns"]) for each in told] == [(1, 3), (2, 6), (1, 3)]


def test_reflect_again_does_what_another_extractor_did(cli: Cli, tmp_path: Path) -> None:
    memory = tmp_path / "memory"
    said(memory, extractor=Noting())
    with nf.open(memory, inline=True, extractor=Noting()) as store:
        assert store.reflect().facts == 3
    settings = memory / "store.toml"
    text = settings.read_text()
    assert "object:noting-1" in text
    settings.write_text(text.replace("object:noting-1", "rules"))
    assert cli("reflect", memory, "--json").json["turns"] == 0
    again = cli("reflect", memory, "--again", "--json").json
    assert again["turns"] == 3 and again["extractor"].startswith("rules-")


def test_reflect_fails_where_its_extractor_does(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.delenv("NEVERFORGET_EXTRACTOR_KEY", raising=False)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.setattr(reflector_pauses, "PAUSE_S_MIN", 0.01)
    memory = tmp_path / "memory"
    with serving() as model:
        model.usual = says(lambda text: "no facts, but words")
        said(memory, extractor=model.name)
        ran = cli("reflect", memory)
    assert ran.code == 1 and "failed: chat #0-2, 3 times: it was not the JSON" in ran.out, ran
    assert "not reflectable" in cli("status", memory).out


def test_other_commands_reflect_nothing(cli: Cli, tmp_path: Path) -> None:
    memory = tmp_path / "memory"
    with nf.open(memory, inline=True, embedder="none", reflect_every_turns=1) as store:
        assert store.config.reflect_every_turns == 1
    cli("append", memory, "chat", "user", "I moved to Oslo last week")
    assert json.loads(cli("memories", memory, "--json").out)["items"] == []
    assert json.loads(cli("status", memory, "--json").out)["reflection"]["turns"] == 1


AT = datetime(2026, 3, 3, tzinfo=UTC)


@pytest.mark.parametrize(
    ("turns", "failed", "said"),
    [
        (0, 0, "nothing waits to be reflected"),
        (0, 1, "nothing was reflected, by rules-1"),  # its endpoint is away, nothing is set aside
        (5, 1, "1 memory of 5 turns in 1 session, by rules-1"),
    ],
)
def test_a_summary_does_not_say_that_nothing_waits_where_it_failed(
    turns: int, failed: int, said: str
) -> None:
    ranges = (nf.FailedRange((), "chat", 0, 4, "rules-1", 3, "no answer", AT),) * failed
    report = nf.ReflectionReport(1, turns, 1, 1, ranges, "rules-1")
    assert summary(report) == said


def test_failed_ranges_and_lag_are_shown(capsys: pytest.CaptureFixture[str]) -> None:
    failed = [
        nf.FailedRange(("acme",), "chat", 10 * n, 10 * n + 9, "rules-1", 3, "ValueError", AT)
        for n in range(7)
    ]
    found = nf.ReflectionInfo(
        "rules", 120, 2, 1, AT, "running", 1, 7, tuple(failed), "it is away", 60, 9
    )
    rows = reflection_rows(found)
    assert rows["to be reflected"].startswith("120 turns of 2 sessions, the oldest of 2026-03-03")
    assert rows["due now"] == "1 session" and rows["reflector says"] == "it is away"
    assert rows["not reflectable"] == "7 ranges (reflect tries again)"
    print_failed(found.failed, found.failures)
    shown = capsys.readouterr().out
    assert "acme / chat #60-69, 3 times: ValueError" in shown and "and 2 more that failed" in shown
