"""Runs that somebody asked for: how far each is, and what failed in it. Not safe for threads; who
uses it holds a lock.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Final

from neverforget.actors.reflector_messages import (
    DONE,
    RUNNING,
    UNKNOWN,
    Reflect,
    ReflectReply,
)
from neverforget.storage.longterm_results import Namespace
from neverforget.storage.reflection_results import FailedRange

KEPT: Final = 100  # runs that are over
FAILED_MAX: Final = 100  # ranges of a run


@dataclass(eq=False)
class Run:
    """``partitions``: where it has not looked yet for what there is to do; ``after``: how far it
    has looked in the first of them. ``looking``: somebody does. ``parts``: sessions under way.
    """

    name: str
    namespace: Namespace
    session: str | None
    again: bool
    partitions: list[int]
    after: tuple[Namespace, str] | None = None
    looking: bool = False
    not_before: float = 0.0
    faults: int = 0
    parts: int = 0
    sessions: int = 0
    turns_done: int = 0
    turns_all: int = 0
    windows: int = 0
    facts: int = 0
    failures: int = 0
    failed: deque[FailedRange] = field(default_factory=lambda: deque(maxlen=FAILED_MAX))
    error: str | None = None

    @property
    def is_over(self) -> bool:
        return not self.partitions and not self.parts and not self.looking

    def fails(self, failed: FailedRange) -> None:
        self.failures += 1
        self.failed.append(failed)
        self.error = failed.error


class Runs:
    def __init__(self, partitions: int) -> None:
        self._partitions = partitions
        self._runs: dict[str, Run] = {}

    def get(self, name: str) -> Run | None:
        return self._runs.get(name)

    def active(self) -> list[Run]:
        return [run for run in self._runs.values() if not run.is_over]

    def begin(self, request: Reflect) -> bool:
        """False: it is there already."""
        if request.run in self._runs:
            return False
        over = [name for name, run in self._runs.items() if run.is_over]
        for name in over[: max(0, len(over) - KEPT)]:
            del self._runs[name]
        self._runs[request.run] = Run(
            request.run,
            tuple(request.namespace),
            request.session,
            request.again,
            list(range(self._partitions)),
        )
        return True

    def reply(self, id: int, name: str, extractor: str, error: str | None) -> ReflectReply:
        """``error``: of something that all runs wait for."""
        run = self._runs.get(name)
        if run is None:
            return ReflectReply(id, UNKNOWN, 0, 0, 0, 0, 0, 0, [], extractor, None)
        return ReflectReply(
            id,
            DONE if run.is_over else RUNNING,
            run.sessions,
            run.turns_done,
            run.turns_all,
            run.windows,
            run.facts,
            run.failures,
            list(run.failed),
            extractor,
            run.error or (None if run.is_over else error),
        )
