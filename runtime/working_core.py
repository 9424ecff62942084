"""What ``WorkingMemory`` and ``AsyncWorkingMemory`` share: everything but waiting."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Struct

from neverforget.runtime import working_operations as asking
from neverforget.runtime.arguments import whole
from neverforget.runtime.context_ranking import checked_strategy
from neverforget.runtime.operation import Operation, SessionPlace
from neverforget.runtime.scope import Scope, checked_name
from neverforget.runtime.session_core import SessionCore
from neverforget.runtime.store_core import StoreCore
from neverforget.runtime.working_values import Context
from neverforget.storage.errors import InvalidArgument
from neverforget.storage.type_names import a_type
from neverforget.storage.working_results import WorkingPlace

if TYPE_CHECKING:
    from neverforget.runtime.address import StoreAddress

MAX_TOKENS = 128_000
TOKENS_MAX = 2**32 - 1


class WorkingAddress(Struct, frozen=True):
    """How a working memory travels: its store's address, and which one it is."""

    store: StoreAddress
    agent: str | None
    group: str | None
    max_tokens: int


class WorkingCore:
    """The parts of a working memory's handle that need no answer from its owner."""

    def __init__(
        self, store: StoreCore, agent: str | None, group: str | None, max_tokens: int
    ) -> None:
        self._handle = store
        self._agent = agent
        self._group = group
        self._max_tokens = whole(max_tokens, "max_tokens", 1, TOKENS_MAX)
        self._place = place_of(store._scope, agent, group)
        self._owns_lease = False

    @property
    def agent(self) -> str | None:
        """Who uses it through this handle."""
        return self._agent

    @property
    def group(self) -> str | None:
        """The group whose working memory it is; None: the agent's own."""
        return self._group

    @property
    def namespace(self) -> tuple[str, ...]:
        """The namespace in which its name counts, absolute."""
        return self._handle._scope.root

    @property
    def max_tokens(self) -> int:
        """What this handle lets it hold."""
        return self._max_tokens

    def __repr__(self) -> str:
        parts = [f"{n}={v!r}" for n, v in (("agent", self._agent), ("group", self._group)) if v]
        if self.namespace:
            parts.append(f"namespace={tuple(self.namespace)!r}")
        path = self._handle._engine.path
        return f"<{type(self).__name__} {', '.join(parts)} of {path}>"

    def __bool__(self) -> bool:
        return True  # also when it is empty: a handle is not a list

    def __eq__(self, other: object) -> bool:
        """Handles on the same working memory of the same store, for the same agent, are equal."""
        if type(other) is not type(self):
            return NotImplemented
        assert isinstance(other, WorkingCore)
        return self._identity == other._identity

    def __hash__(self) -> int:
        return hash(self._identity)

    @property
    def _identity(self) -> tuple[object, ...]:
        engine = self._handle._engine
        return engine.path, engine.store_id, self.namespace, self._group, self._agent

    def _pickled(self) -> WorkingAddress:
        return WorkingAddress(self._handle._pickled(), self._agent, self._group, self._max_tokens)

    @property
    def _asker(self) -> asking.Asker:
        store = self._handle
        return asking.Asker(
            store._context, store._scope, self._place, self._agent, self._max_tokens
        )

    def _in_context(
        self, strategy: Any, max_tokens: int | None, conversation: Any
    ) -> Operation[Context]:
        # Only here: it brings the extractor, as long to load as all that a client needs otherwise.
        from neverforget.runtime.working_context import Wanted, context

        budget = self._max_tokens
        if max_tokens is not None:
            budget = whole(max_tokens, "max_tokens", 1, TOKENS_MAX)
        wanted = Wanted(
            checked_strategy(strategy),
            budget,
            self._place_of(conversation),
            self._handle._scope.timezone,
        )
        items = yield from asking.every(self._asker)
        return (yield from context(self._handle._context, items, wanted))

    def _place_of(self, conversation: object) -> SessionPlace | None:
        """The session's place. InvalidArgument where it is none, or of another store."""
        if conversation is None:
            return None
        if not isinstance(conversation, SessionCore):
            raise InvalidArgument(
                f"conversation is {a_type(conversation)}; pass a session: store.session(name)"
            )
        if conversation._lease.engine.store_id != self._handle._engine.store_id:
            raise InvalidArgument(
                f"session {conversation.name!r} is of another store than this working memory; "
                "open both from the same one"
            )
        return conversation._place


def whose(scope: Scope, agent: str | None, group: str | None) -> tuple[str | None, str | None]:
    """Agent and group of a handle: the agent is the view's unless named."""
    found = scope.agent if agent is None else checked_name(agent, "agent")
    if group is not None:
        return found, checked_name(group, "group")
    if found is None:
        raise InvalidArgument(
            "a working memory is an agent's or a group's; pass agent= or group=, or open the store "
            "for an agent"
        )
    return found, None


def place_of(scope: Scope, agent: str | None, group: str | None) -> WorkingPlace:
    """The place of the group's working memory, else of the agent's."""
    name = agent if group is None else group
    assert name is not None
    return WorkingPlace(scope.root, name, group is not None)
