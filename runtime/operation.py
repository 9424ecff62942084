"""Operations without input or output: generators that yield calls and are sent the replies.

``Store`` and ``AsyncStore``, ``Session`` and ``AsyncSession`` run the same operations; only their
drivers differ. A driver answers each ``Call`` with the owner's reply, or throws the error that it
answered into the operation.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, NamedTuple, TypeVar

from neverforget.actors.messages import Request
from neverforget.actors.places import EMBEDDER, HOST, LONGTERM
from neverforget.actors.request_ids import RequestIds
from neverforget.actors.tokenizers import TokenCounter
from neverforget.runtime import cursors
from neverforget.runtime.longterm_client import LongTermClient
from neverforget.runtime.routing import partition_of
from neverforget.runtime.values import Namespace
from neverforget.storage.clock import Clock
from neverforget.storage.record import session_scope

__all__ = ["EMBEDDER", "HOST", "LONGTERM", "RequestIds"]  # of others, and what stands below

T = TypeVar("T")


class Call(NamedTuple):
    """Ask ``partition``. ``patience_s``: seconds this may take; None: the handle's deadline."""

    partition: int
    request: Request
    patience_s: float | None = None


Operation = Generator[Call, Any, T]


class SessionPlace:
    """A session's absolute name and what follows from it."""

    __slots__ = ("binding", "name", "namespace", "partition", "scope")

    def __init__(self, namespace: Namespace, name: str, partitions: int) -> None:
        self.namespace = namespace
        self.name = name
        self.scope = session_scope(namespace, name)
        self.partition = partition_of(self.scope, partitions)
        self.binding = cursors.binding(self.scope)

    def cursor(self, seq: int) -> str:
        """Where reading goes on after the turn ``seq``; -1 is the beginning."""
        return cursors.make(cursors.TURNS, self.binding, seq)

    def seq_at(self, cursor: str) -> int:
        """The seq in a cursor of this session."""
        seq: int = cursors.read(cursor, cursors.TURNS, self.binding, int)
        return seq


class Context(NamedTuple):
    """What operations need besides their arguments."""

    partitions: int
    count_tokens: TokenCounter
    ids: RequestIds
    clock: Clock
    batch_bytes_max: int
    longterm: LongTermClient

    @property
    def owners(self) -> tuple[int, ...]:
        """Whom to ask for what every owner has."""
        return (*range(self.partitions), LONGTERM)

    def place(self, namespace: tuple[str, ...], name: str) -> SessionPlace:
        """The place of a session that an owner named."""
        return SessionPlace(Namespace(namespace), name, self.partitions)
