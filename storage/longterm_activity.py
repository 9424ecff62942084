"""Who uses a long-term region: whose memories it holds, and how often they recalled."""

from __future__ import annotations

import numpy as np

from neverforget.storage.activity_results import AgentMemories
from neverforget.storage.errors import InvalidArgument
from neverforget.storage.format import Kind
from neverforget.storage.longterm_checks import check_name, check_namespace
from neverforget.storage.longterm_fields import NO_ID
from neverforget.storage.longterm_results import Namespace, Status
from neverforget.storage.longterm_staging import Planned, Staging
from neverforget.storage.longterm_state import LongTermState
from neverforget.storage.memory_table import NO_ROW

_LONG_AGO = np.iinfo(np.int64).min


class LongTermActivity:
    """A part of ``LongTermRegion``."""

    def __init__(self, state: LongTermState, staging: Staging) -> None:
        self._of_recalls = state.recalls
        self._activity_state = state
        self._activity_staging = staging

    def recalled(self, namespace: Namespace, agent: str) -> None:
        """Count a recall there. In memory: see ``record_recalls``. Names that nobody may have count
        for nobody.
        """
        try:
            check_name(agent, "agent")
            check_namespace(namespace)
        except InvalidArgument:
            return
        now = self._activity_state.clock.now_us()
        self._of_recalls.count(tuple(namespace), agent, now)

    @property
    def has_new_recalls(self) -> bool:
        """Whether some are not on record."""
        return self._of_recalls.is_new

    def record_recalls(self) -> None:
        """Stage what was counted since the last record; nothing where that is nothing. Raises
        OutOfSpace, Poisoned; it stays counted then.
        """
        if not self._of_recalls.is_new:
            return
        planned = Planned(Kind.RECALLED, NO_ID, self._of_recalls.body())
        # Not by ``stage``: nothing that the indexes must notice has changed.
        staged = self._activity_staging.stage_only([planned], (0, 0), b"")
        for position, header, body in staged.records:
            self._activity_state.apply(header, position, body)

    def agents(
        self, scope: Namespace, after: str | None, limit: int
    ) -> tuple[list[AgentMemories], bool]:
        """Whose memories lie at or below ``scope``, and who recalled there: by name, strictly after
        ``after``, and whether there are more.
        """
        found = {
            agent: AgentMemories(agent, 0, None, count, at)
            for agent, (count, at) in self._of_recalls.by_agent(scope).items()
        }
        for agent, count, at in self._memories(scope):
            one = found.setdefault(agent, AgentMemories(agent))
            one.memories, one.last_at = count, at
        names = sorted(name for name in found if after is None or name > after)
        return [found[name] for name in names[:limit]], len(names) > limit

    def _memories(self, scope: Namespace) -> list[tuple[str, int, int]]:
        """(agent, how many, the newest of them)."""
        table = self._activity_state.table
        mask = table.column("status") <= Status.ARCHIVED
        mask &= table.column("original") == NO_ROW
        mask &= table.column("agent") != 0
        if scope:
            mask &= table.namespaces.under(tuple(scope))[table.column("namespace")]
        codes = table.column("agent")[mask]
        counts = np.bincount(codes, minlength=len(table.agents))
        newest = np.full(len(counts), _LONG_AGO)
        np.maximum.at(newest, codes, table.column("created_at")[mask])
        found = []
        for code in np.flatnonzero(counts).tolist():
            agent = table.agents.values[code]
            if agent is not None:
                found.append((agent, int(counts[code]), int(newest[code])))
        return found
