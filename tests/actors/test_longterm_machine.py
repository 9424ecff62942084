"""Random work on a long-term owner, held against what it was told, over generations and reopenings.

Whatever is going on beside it (words and vectors being brought, generations being stored), what was
acknowledged is there, what was forgotten is not found, and everything is found once it has settled.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import pytest

from neverforget.actors import longterm_messages as m
from neverforget.actors.generation_storing import IDLE_S
from neverforget.actors.messages import Verify, VerifyReply
from tests.actors.conftest import Owning
from tests.actors.longterm_owners import OwnedLongTerm
from tests.storage.bytes_left import files_holding, indexes_holding

_STEPS = 60


@dataclass
class Model:
    living: dict[str, str] = field(default_factory=dict)
    forgotten: dict[str, str] = field(default_factory=dict)
    words: int = 0

    def new_text(self) -> str:
        self.words += 1
        return f"thing word{self.words}"


class Machine:
    def __init__(self, owning: Owning, seed: int) -> None:
        self.owning = owning
        self.random = random.Random(seed)
        self.model = Model()
        self.owned: OwnedLongTerm = owning()

    def step(self) -> None:
        work = [
            *[self.remember] * 5, *[self.forget] * 2, *[self.recall] * 3, self.revise, self.undo,
            self.erase, self.let_time_pass, self.reopen,
        ]  # fmt: skip
        self.random.choice(work)()

    def some(self, held: dict[str, str]) -> str | None:
        return self.random.choice(sorted(held)) if held else None

    def remember(self) -> None:
        texts = [self.model.new_text() for _ in range(self.random.randint(1, 20))]
        self.model.living.update(zip(self.owned.remember(*texts), texts))

    def revise(self) -> None:
        if (memory := self.some(self.model.living)) is not None:
            text = self.model.new_text()
            self.owned.ask(self.owned.revise(memory, text=text), m.MemoriesReply)
            self.model.living[memory] = text

    def forget(self) -> None:
        if (memory := self.some(self.model.living)) is not None:
            self.owned.ask(self.owned.forget(memory), m.ForgottenReply)
            text = self.model.forgotten[memory] = self.model.living.pop(memory)
            assert text not in self.owned.found(text, after=0, wait_ms=0)

    def undo(self) -> None:
        if (memory := self.some(self.model.forgotten)) is not None:
            request = self.owned.forget(memory, "undo-forget", confirm=None)
            self.owned.ask(request, m.ForgottenReply)
            self.model.living[memory] = self.model.forgotten.pop(memory)

    def erase(self) -> None:
        if (memory := self.some(self.model.living)) is None:
            return
        text = self.model.living.pop(memory)
        self.owned.ask(self.owned.erase(memory), m.MemoriesErasedReply)
        word, directory = text.split()[1], self.owned.directory
        assert files_holding(directory, f"{word} ") == []
        assert indexes_holding(directory, word) == []

    def recall(self) -> None:
        """Read your writes: it waits for what was written before it."""
        if (memory := self.some(self.model.living)) is not None:
            text = self.model.living[memory]
            strategy = self.random.choice(["text", "vector", "hybrid"])
            assert text in self.owned.found(text, strategy=strategy, limit=3), strategy
        if (gone := self.some(self.model.forgotten)) is not None:
            text = self.model.forgotten[gone]
            assert text not in self.owned.found(text, limit=50)

    def let_time_pass(self) -> None:
        self.owned.pass_time(IDLE_S + 1)

    def reopen(self) -> None:
        self.owned.owner.close()
        self.owned = self.owning()

    def check(self) -> None:
        self.owned.settle()
        living = self.model.living
        found = self.owned.found("thing", strategy="text", limit=10_000)
        assert sorted(found) == sorted(living.values())
        assert self.owned.index().vectors == len(living)
        assert self.owned.get(*living) == list(living.values())
        verified = self.owned.ask(Verify(1), VerifyReply)
        assert [f for f in verified.findings if f.severity == "error"] == []


@pytest.mark.parametrize("seed", range(2))
def test_random_work_agrees_with_a_model(owning: Owning, seed: int) -> None:
    machine = Machine(owning, seed)
    for _ in range(_STEPS):
        machine.step()
    machine.check()
    machine.reopen()
    machine.check()
