"""``AsyncStore``: the working memories of agents and groups."""

from __future__ import annotations

from neverforget.runtime.async_finding_methods import AsyncFindingMethods
from neverforget.runtime.async_working_memory import AsyncWorkingMemory
from neverforget.runtime.working_core import MAX_TOKENS, whose


class AsyncWorkingMethods(AsyncFindingMethods):
    """A part of ``AsyncStore``."""

    def working_memory(
        self, agent: str | None = None, *, group: str | None = None, max_tokens: int = MAX_TOKENS
    ) -> AsyncWorkingMemory:
        """As ``Store.working_memory``. No I/O."""
        who, of_group = whose(self._scope, agent, group)
        as_who = self
        if who is not None and who != self._scope.agent:
            as_who = type(self)(*self._narrowed(None, who, None))
        return AsyncWorkingMemory(as_who, who, of_group, max_tokens)
