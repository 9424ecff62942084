"""Two owners of one log go on apart, at random, and the lost one's end is brought back: every turn
that it acknowledged is there once, in order, hidden or erased as it was.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from neverforget.storage.results import TurnFlag
from tests.storage.parted import Parted, salvage
from tests.storage.small_region import Bench, Client, contents, flags_at, seen

SESSIONS = ("alpha", "beta", "gamma")
STEPS = 40
# Two batches passed for one: the last turn of the first and the first of the second were erased.
FOUND = (524,)


class Lost:
    """What the old owner did. ``turns``: words that must be there; ``hidden``: of these; ``gone``:
    words that must not.
    """

    def __init__(self, client: Client, rng: random.Random) -> None:
        self.client, self.rng = client, rng
        self.requests: list[tuple[str, list[dict[str, Any]], tuple[int, int]]] = []
        self.turns: dict[str, list[str]] = {name: [] for name in SESSIONS}
        self.hidden: set[str] = set()
        self.gone: set[str] = set()
        self.drawn = 0

    def append(self, session: str) -> None:
        made = []
        for _ in range(self.rng.randint(1, 3)):
            self.drawn += 1
            words = f"{session} lost {self.drawn} " + "x" * self.rng.randint(0, 900)
            turn: dict[str, Any] = {"content": words, "timestamp_us": 1_000 + self.drawn}
            if self.rng.random() < 0.3:
                turn["key"] = f"key {self.drawn}"
            made.append(turn)
        request = self.client.next_request()
        self.client.say(session, *made, request=request, agent=self.rng.choice([None, "a", "b"]))
        self.requests.append((session, made, request))
        self.turns[session] += [turn["content"] for turn in made]

    def some_seqs(self, session: str) -> list[tuple[int, str]]:
        found = [(turn.seq, turn.content) for turn in seen(self.client.all(session))]
        readable = [each for each in found if each[1] is not None]
        return self.rng.sample(readable, min(len(readable), self.rng.randint(1, 3)))

    def hide(self, session: str) -> None:
        picked = self.some_seqs(session)
        hidden = self.rng.random() < 0.7
        if picked:
            self.client.hide(session, *((seq, seq) for seq, _ in picked), hidden=hidden)
            words = {each for _, each in picked}
            self.hidden = self.hidden | words if hidden else self.hidden - words

    def erase(self, session: str) -> None:
        picked = self.some_seqs(session)
        if picked:
            self.client.erase(session, [(seq, seq) for seq, _ in picked])
            self.gone |= {each for _, each in picked}

    def erase_all(self, session: str) -> None:
        if self.client.all(session).end:
            self.gone |= {t.content for t in seen(self.client.all(session)) if t.content}
            self.client.erase(session)


def everything(bench: Bench) -> list[Any]:
    found: list[Any] = []
    for name in SESSIONS:
        window = bench.client.all(name)
        found.append((contents(window), window.flags, window.salvaged, window.tokens))
    return found


@pytest.mark.parametrize(
    "number",
    [*range(24), *FOUND, *(pytest.param(n, marks=pytest.mark.long) for n in range(24, 40))],
)
def test_what_was_acknowledged_is_there_once(number: int, tmp_path: Path) -> None:
    rng = random.Random(number)
    front = Bench(tmp_path / "old")
    shared = {name: [f"{name} shared {n}" for n in range(rng.randint(0, 4))] for name in SESSIONS}
    for name, words in shared.items():
        if words:
            front.client.say(name, *words)
    parted = Parted(front, tmp_path / "new")
    new, old = parted.new.client, Lost(parted.old.client, rng)
    taken: set[str] = set()  # sessions erased on this side
    for at in range(STEPS):
        session = rng.choice(SESSIONS)
        step = rng.random()
        if step < 0.5:
            old.append(session)
        elif step < 0.6:
            old.hide(session)
        elif step < 0.68:
            old.erase(session)
        elif step < 0.7:
            old.erase_all(session)
        elif step < 0.85:
            new.say(session, f"{session} since {at}")
        elif step < 0.95 and old.requests:
            name, made, request = rng.choice(old.requests)  # a client that was in doubt
            if name not in taken and not old.gone & {turn["content"] for turn in made}:
                new.append(name, *made, request=request)
                new.commit()
        elif number % 5 == 0 and new.all(session).end:
            new.erase(session)
            taken.add(session)
    found = parted.pieces(bytes_max=rng.choice([1, 2_000, 1 << 18]))
    told = [each for each in found for _ in range(1 if each.last else rng.randint(1, 2))]
    report = salvage(parted.new, told)
    assert report.conflicts == 0, [f.message for f in parted.new.region.status().findings]
    for name in SESSIONS:
        window = new.all(name)
        there = [words for words in contents(window) if words is not None]
        assert len(there) == len(set(there)), "twice"
        if name in taken:
            continue
        wanted = [words for words in old.turns[name] if words not in old.gone]
        assert set(wanted) <= set(there)
        brought = [
            words for seq, words in enumerate(contents(window), window.base)
            if any(first <= seq <= last for first, last, *_ in window.salvaged)
        ]  # fmt: skip
        assert [w for w in brought if w] == [w for w in wanted if w in set(brought)], "in order"
        for turn in seen(window):
            assert turn.content not in old.gone
            if turn.content in wanted or turn.content in shared[name]:
                hidden = bool(flags_at(window, turn.seq) & TurnFlag.HIDDEN)
                assert hidden is (turn.content in old.hidden), turn.content
    for secret in old.gone:
        assert secret.encode() not in parted.new.every_byte()
    before = everything(parted.new)
    for seal in (False, True):
        again = parted.salvage(bytes_max=700)
        assert (again.turns, again.conflicts) == (0, 0)
        assert everything(parted.new) == before
        parted.new.reopen(seal=seal)
        assert everything(parted.new) == before
        assert parted.new.findings() == []
    parted.close()
