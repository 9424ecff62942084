"""Ranges that were given up, against a plain model of single turns."""

from __future__ import annotations

import random

from neverforget.storage.dead_letters import DeadLetter, DeadLetters
from neverforget.storage.runs import Runs

TURNS = 30


def letter(number: int, first: int, last: int) -> DeadLetter:
    return DeadLetter(first, last, "v1", 3, number, number, number)


def test_letters_never_overlap_and_the_newest_counts() -> None:
    for seed in range(200):
        print(f"seed {seed}")
        choose = random.Random(seed)
        done = {seq for seq in range(TURNS) if choose.random() < 0.2}
        letters = DeadLetters(Runs((seq, seq) for seq in done))
        failed: dict[int, int] = {}
        for number in range(30):
            first = choose.randrange(TURNS)
            last = min(TURNS - 1, first + choose.randrange(8))
            turns = range(first, last + 1)
            if choose.random() < 0.6:
                letters.add(letter(number, first, last))
                failed.update(dict.fromkeys(turns, number))
            else:
                letters.consolidated(first, last)
                done.update(turns)
                for seq in turns:
                    failed.pop(seq, None)
            held = [
                (seq, each.position)
                for each in letters.letters
                for seq in range(each.first, each.last + 1)
            ]
            assert sorted(held) == sorted(failed.items())
            covered = {seq for run in letters.covered for seq in range(run[0], run[1] + 1)}
            assert covered == done | failed.keys()
