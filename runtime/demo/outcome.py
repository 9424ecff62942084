"""What a run of the demo comes to, and who watches it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from neverforget.runtime.demo.agent import Notes
from neverforget.runtime.demo.checking import Verdict
from neverforget.runtime.demo.learning import Learned
from neverforget.runtime.demo.reflecting import Reflected
from neverforget.runtime.demo.thinking import Mind

if TYPE_CHECKING:
    from neverforget.runtime.agent_values import AgentInfo
    from neverforget.runtime.demo.killing import Kill, MemoryKill
    from neverforget.runtime.status_values import VerifyReport


@dataclass(slots=True)
class Outcome:
    folder: str
    agents: int = 0
    conversations: int = 0
    lines: int = 0
    cut: bool = False
    talked_s: float = 0.0
    kill: Kill | None = None
    notes: list[Notes] = field(default_factory=list)
    reflected: Reflected = field(default_factory=Reflected)
    verdict: Verdict = field(default_factory=Verdict)
    verified: VerifyReport | None = None
    learned: Learned = field(default_factory=Learned)
    mind: Mind = field(default_factory=Mind)
    who: list[AgentInfo] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        back = self.kill is not None and self.kill.back_in_s is not None
        whole = self.verified is not None and self.verified.ok
        return self.verdict.ok and back and whole and not self.faults

    @property
    def faults(self) -> list[str]:
        """Of the chapters about memories, in words."""
        return [*self.reflected.faults, *self.learned.faults, *self.mind.faults]


class Audience(Protocol):
    """Who watches. Every method is a remark in passing; none may stop the demo."""

    def begins(self, outcome: Outcome, seconds: float) -> None: ...
    @contextmanager
    def step(self, doing: str, done: str) -> Iterator[None]: ...
    def talking(self, elapsed_s: float, seconds: float, turns: int) -> None: ...
    def killed(self, kill: Kill) -> None: ...
    def came_back(self, kill: Kill) -> None: ...
    def reflects(self, found: Reflected) -> None: ...
    def reflecting(self, done: int, all_turns: int) -> None: ...
    def killed_memories(self, kill: MemoryKill) -> None: ...
    def reflected(self, found: Reflected) -> None: ...
