"""``Store``: the working memories of agents and groups."""

from __future__ import annotations

from neverforget.runtime.finding_methods import FindingMethods
from neverforget.runtime.working_core import MAX_TOKENS, whose
from neverforget.runtime.working_memory import WorkingMemory


class WorkingMethods(FindingMethods):
    """A part of ``Store``."""

    def working_memory(
        self, agent: str | None = None, *, group: str | None = None, max_tokens: int = MAX_TOKENS
    ) -> WorkingMemory:
        """The working memory of ``agent`` (the view's, unless given), or the one that the members
        of ``group`` share, in this view's namespace. No I/O: it begins to exist with what is added
        first. ``max_tokens``: what it may hold. InvalidArgument where no agent and no group is
        named.
        """
        who, of_group = whose(self._scope, agent, group)
        as_who = self
        if who is not None and who != self._scope.agent:
            as_who = type(self)(*self._narrowed(None, who, None))
        return WorkingMemory(as_who, who, of_group, max_tokens)
