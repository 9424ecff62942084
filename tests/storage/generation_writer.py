"""A long-term store whose whole content follows from how many rounds it has gone through. Run as a
program it goes on, publishing one generation after the other beside its own writes, until somebody
kills it; it says each round when that is acknowledged.

Round ``n`` remembers "round n", forgets that of round n - 3 where n is a multiple of 3, and revises
that of round n - 2 where n is a multiple of 5.
"""

from __future__ import annotations

import random
import sys
import threading
from pathlib import Path

from tests.storage.small_index import IndexBench
from tests.storage.small_longterm import memory_id


def text_of(number: int) -> str:
    return f"round{number} was here"


def is_forgotten(number: int, rounds: int) -> bool:
    return (number + 3) % 3 == 0 and number + 3 < rounds


def is_revised(number: int, rounds: int) -> bool:
    return (number + 2) % 5 == 0 and number + 2 < rounds


class Writer(IndexBench):
    """``rounds``: how many have begun, the last of them maybe only in part."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.rounds = self.region.state.table.count
        self.producer = 1_000 + self.region.epoch  # request ids are of one process

    def go(self) -> None:
        number = self.rounds
        self.drawn = number
        self.remember(text_of(number), context=f"beside{number}")
        self.rounds = number + 1
        if number % 3 == 0 and number >= 3:
            self.forget(memory_id(number - 3 + 1))
        if number % 5 == 0 and number >= 5:
            wanted = memory_id(number - 2 + 1)
            if not is_forgotten(number - 2, number):
                self.revise(wanted, text=f"revised{number - 2} was here")

    def mend(self) -> None:
        """What the last round did not get to do."""
        number = self.rounds - 1
        if number >= 3 and number % 3 == 0:
            self.forget(memory_id(number - 3 + 1))
        if number >= 5 and number % 5 == 0 and not is_forgotten(number - 2, number):
            self.revise(memory_id(number - 2 + 1), text=f"revised{number - 2} was here")

    def publish(self, rng: random.Random, *, anew: bool = False) -> None:
        """Beside rounds of its own, as a store that is used."""
        publication = self.stored.begin(anew=anew)
        publication.pause = lambda: None
        thread = threading.Thread(target=publication.run)
        thread.start()
        for _ in range(rng.randint(0, 3)):
            self.go()
            self.index.notice()
            print(self.rounds, flush=True)
        thread.join()
        if publication.manifest is None:
            self.stored.abandon(publication)
        else:
            self.stored.finish(publication)

    def check(self) -> None:
        """Every memory is found under its own words and nothing under those of another."""
        self.follow()
        for number in range(self.rounds):
            gone, revised = is_forgotten(number, self.rounds), is_revised(number, self.rounds)
            plain, changed = text_of(number), f"revised{number} was here"
            now = changed if revised and not gone else plain
            expected = [] if gone else [now]
            assert self.words(now.split()[0]) == expected, number
            if not gone:
                assert self.near(now, 1) == expected, number
                assert self.words(f"beside{number}", "context") == expected, number


def main(directory: Path, seed: int) -> None:
    rng = random.Random(seed)
    writer = Writer(directory)
    writer.mend()
    writer.follow()
    print(writer.rounds, flush=True)
    while True:
        for _ in range(rng.randint(1, 4)):
            writer.go()
            print(writer.rounds, flush=True)
        writer.follow()
        writer.publish(rng, anew=rng.random() < 0.2)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
