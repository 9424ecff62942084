"""The judge of acknowledged turns finds whatever is wrong: a checker that cannot fail proves
nothing. Real stores, of which each has one thing wrong with it.
"""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import neverforget as nf
from tests.faults.acknowledged import (
    Found,
    Line,
    Verdict,
    Writer,
    digest_of,
    hear,
    judge,
    read_back,
)

SETTINGS: dict[str, Any] = {"partitions": 1, "embedder": "none", "reflect_every_turns": 0}
TURNS = 61
Turns = list[dict[str, Any]]


@pytest.fixture
def told(tmp_path: Path) -> Path:
    """What a writer was told while it said so many turns to the store ``good``."""
    writer = Writer("w", tmp_path / "told", threading.Event(), pause_s=0.0)
    with nf.open(tmp_path / "good", inline=True, **SETTINGS) as store:
        writer.write(store.session("chat"), TURNS)
    writer.close()
    return tmp_path / "told"


def verdict_on(path: Path, told: Path) -> Verdict:
    with nf.open(path, inline=True, **SETTINGS) as store:
        return judge({"w": hear(told)}, read_back(store, ["chat"]))


def test_a_store_that_kept_everything_is_not_accused(tmp_path: Path, told: Path) -> None:
    verdict = verdict_on(tmp_path / "good", told)
    assert verdict.wrong == {} and verdict.untyped == {}
    assert verdict.asked == verdict.acknowledged == TURNS


def removed(turns: Turns) -> Turns:
    return turns[:-1]


def doubled(turns: Turns) -> Turns:
    return [*turns, {k: v for k, v in turns[-1].items() if k != "key"}]


def reordered(turns: Turns) -> Turns:
    return [*turns[:-2], turns[-1], turns[-2]]


def altered(turns: Turns) -> Turns:
    text = turns[-1]["content"]
    assert isinstance(text, str)
    return [*turns[:-1], {**turns[-1], "content": "0" + text[1:]}]


def of_another_type(turns: Turns) -> Turns:
    return [*turns[:-1], {**turns[-1], "content": turns[-1]["content"].encode()}]


def invented(turns: Turns) -> Turns:
    return [*turns, {"role": "user", "content": "x", "metadata": {"writer": "w", "number": TURNS}}]


@pytest.mark.parametrize(
    ("tamper", "wrong"),
    [
        (removed, {"lost": 1}),
        (doubled, {"doubled": 1}),
        (reordered, {"disordered": 3}),  # two at another seq, and one behind a later one
        (altered, {"altered": 1}),
        (of_another_type, {"altered": 1}),
        (invented, {"invented": 1}),
    ],
)
def test_one_wrong_turn_is_found(
    tmp_path: Path, told: Path, tamper: Callable[[Turns], Turns], wrong: dict[str, int]
) -> None:
    with nf.open(tmp_path / "good", inline=True, **SETTINGS) as store:
        turns: Turns = [
            {"role": t.role, "content": t.content, "metadata": dict(t.metadata), "key": t.key}
            for t in store.session("chat")
        ]
    with nf.open(tmp_path / "bad", inline=True, **SETTINGS) as store:
        store.session("chat").append_many(tamper(turns))
    verdict = verdict_on(tmp_path / "bad", told)
    assert verdict.wrong == wrong, verdict.examples


def test_an_older_copy_of_the_disk_has_lost_what_came_later(tmp_path: Path) -> None:
    stop = threading.Event()
    writer = Writer("w", tmp_path / "told", stop, pause_s=0.0)
    with nf.open(tmp_path / "good", inline=True, **SETTINGS) as store:
        chat = store.session("chat")
        writer.write(chat, 20)
        early = len(hear(tmp_path / "told"))
        shutil.copytree(tmp_path / "good", tmp_path / "old", ignore=shutil.ignore_patterns("run"))
        for number in range(20, 30):
            writer.say(chat, range(number, number + 1))
    writer.close()
    assert verdict_on(tmp_path / "good", tmp_path / "told").wrong == {}
    verdict = verdict_on(tmp_path / "old", tmp_path / "told")
    assert verdict.wrong == {"lost": 10}
    assert early == 40  # ask and ack of each


def test_outcomes_that_are_not_known_and_those_that_are(tmp_path: Path) -> None:
    """Unknown: once or not at all. Refused: not at all. Killed between ask and ack: unknown. The
    same again under its key: what was said first is not held against it."""
    digest = digest_of("text")

    def line(word: str, number: int, seq: int = -1) -> Line:
        return Line(word, "chat", number, seq, number, digest if word in ("ask", "ack") else "E")

    words = [(0, "unknown"), (1, "unknown"), (2, "refused"), (3, "refused"), (4, "")]
    lines = [line("ask", n) for n, _ in words] + [line(word, n) for n, word in words if word]
    lines += [line("ask", 5), line("unknown", 5), line("refused", 5), line("ack", 5, 4)]
    lines += [line("ask", 6), line("unknown", 6), line("refused", 6)]
    there = [Found(at, "w", number, digest) for at, number in enumerate([0, 2, 4, 6, 5])]
    verdict = judge({"w": lines}, {"chat": there})
    assert verdict.wrong == {"contradicted": 1}, verdict.examples
    assert (verdict.asked, verdict.acknowledged, verdict.unknown) == (7, 1, 3)
    with pytest.raises(AssertionError, match="nobody has read"):
        judge({"w": lines}, {})


def test_a_salvaged_turn_says_where_it_was() -> None:
    """After its node came back: at the end, in its old order, with the seq that was told."""
    digest = digest_of("text")
    lines = [Line("ask", "chat", n, -1, n, digest) for n in range(4)]
    lines += [Line("ack", "chat", n, seq, n, digest) for n, seq in enumerate([0, 1, 2, 1])]
    kept = [Found(0, "w", 0, digest), Found(1, "w", 3, digest)]
    back = [Found(2, "w", 1, digest, (1, 1)), Found(3, "w", 2, digest, (1, 2))]
    assert judge({"w": lines}, {"chat": kept + back}).wrong == {}
    swapped = [back[1]._replace(seq=2), back[0]._replace(seq=3)]
    assert judge({"w": lines}, {"chat": kept + swapped}).wrong == {"disordered": 1}
    lying = [back[0]._replace(origin=(1, 2)), back[1]]
    assert judge({"w": lines}, {"chat": kept + lying}).wrong == {"disordered": 1}
    twice = [*back, Found(4, "w", 1, digest, (1, 1))]
    assert judge({"w": lines}, {"chat": kept + twice}).wrong == {"doubled": 1}
    assert judge({"w": lines}, {"chat": kept}).wrong == {"lost": 2}


def test_half_a_line_of_a_killed_writer_does_not_count(tmp_path: Path) -> None:
    (tmp_path / "told").write_text("ask chat 0 -1 5 ab\nack chat 0 0 6 a")
    assert [line.word for line in hear(tmp_path / "told")] == ["ask"]
