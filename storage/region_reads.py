"""The reading half of a region. Nothing here changes it."""

from __future__ import annotations

from collections.abc import Sequence

from neverforget.storage.activity_results import AgentTurns
from neverforget.storage.agent_activity import AgentActivity
from neverforget.storage.auditing import Auditor
from neverforget.storage.listings import Listings
from neverforget.storage.reflection_reads import ReflectionReads
from neverforget.storage.region_options import RegionOptions
from neverforget.storage.region_state import RegionState
from neverforget.storage.results import AuditView, SessionView, Window
from neverforget.storage.windows import Windows

Namespace = tuple[str, ...]


class RegionReads:
    """Every answer is bounded by the options; pairs hold whether there is more. InvalidArgument
    refuses a limit outside 1..2**31-1 and a cursor that is no turn of the session.
    """

    def __init__(self, state: RegionState, options: RegionOptions) -> None:
        self._state = state
        self._windows = Windows(state, options)
        self._listings = Listings(state, options)
        self._auditor = Auditor(state)
        self.reflection = ReflectionReads(state, options)
        self._activity = AgentActivity(state)

    def tail(
        self,
        namespace: Namespace,
        session: str,
        before: int | None,
        limit: int,
        max_tokens: int | None,
        roles: Sequence[str] | None,
        include_hidden: bool,
    ) -> Window:
        """See ``messages.Tail`` and ``Windows.tail``."""
        name = (namespace, session)
        return self._windows.tail(name, before, limit, max_tokens, roles, include_hidden)

    def page(
        self,
        namespace: Namespace,
        session: str,
        after: int | None,
        before: int | None,
        newest: bool,
        limit: int,
        include_hidden: bool,
    ) -> Window:
        """See ``messages.Page``."""
        name = (namespace, session)
        return self._windows.page(name, after, before, newest, limit, include_hidden)

    def get(self, namespace: Namespace, session: str, first: int, stop: int) -> Window:
        """See ``messages.Get``."""
        return self._windows.get((namespace, session), first, stop)

    def info(self, namespace: Namespace, session: str, before: int | None = None) -> SessionView:
        """See ``messages.Info``."""
        return self._listings.info(namespace, session, before)

    def sessions(
        self,
        namespace: Namespace,
        prefix: str | None,
        after: tuple[Namespace, str] | None,
        limit: int,
    ) -> tuple[list[SessionView], bool]:
        return self._listings.sessions(namespace, prefix, after, limit)

    def namespaces(
        self, prefix: Namespace, max_depth: int | None, after: Namespace | None, limit: int
    ) -> tuple[list[Namespace], bool]:
        return self._listings.namespaces(prefix, max_depth, after, limit)

    def audit(
        self,
        operation: str | None,
        by: str | None,
        namespace: Namespace | None,
        session: str | None,
        start_us: int | None,
        stop_us: int | None,
        after: int | None,
        limit: int,
    ) -> tuple[list[AuditView], bool]:
        return self._auditor.audit(
            operation, by, namespace, session, start_us, stop_us, after, limit
        )

    def activity(
        self, namespace: Namespace, after: str | None, limit: int
    ) -> tuple[list[AgentTurns], bool, bool]:
        """Who appended to sessions at or below the namespace, and whether there are more. The last:
        whether turns are left to be counted first; then ask again.
        """
        if not self._activity.count() and after is None:
            return [], False, True
        return *self._activity.agents(namespace, after, limit), False
