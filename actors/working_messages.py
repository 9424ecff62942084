"""The words about working memories; frames as in ``messages.py``, packing as in
``longterm_messages.py``.

``agent`` is who asks, where somebody does: a member of a working memory that asks anything of it is
seen, and stays the active one. None: nobody is seen.
"""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from neverforget.actors.message_bases import Producer, ProducerSeq, Reply, Request
from neverforget.storage.longterm_results import Namespace
from neverforget.storage.working_results import WorkingPlace

MaxTokens = Annotated[int, Meta(ge=0, le=2**32 - 1)]


class Work(Request, tag=90):
    """``operation``: "add", "recall", "remove", "pin", "unpin", "join" or "leave". ``by`` goes on
    record, (producer, producer_seq) is the request id, as of any ``Mutation``.

    ``ids``: memories (a chunk stands for its original); none to join or leave, which are about
    ``agent``. ``pinned``: what "add" adds. ``max_tokens``: the budget from now on, of "add",
    "recall" and who joins a new one; 0: as it is.
    """

    scope: Namespace
    by: str
    producer: Producer
    producer_seq: ProducerSeq
    place: WorkingPlace
    operation: str
    agent: str | None
    ids: list[str]
    pinned: bool
    max_tokens: MaxTokens
    sync: int


class WorkingItems(Request, tag=91):
    """In the order they were added, behind ``after`` (0: from the first)."""

    scope: Namespace
    place: WorkingPlace
    agent: str | None
    after: int


class WorkingStatus(Request, tag=92):
    """``about``: a memory's id: is it, or the original of a chunk, there?"""

    scope: Namespace
    place: WorkingPlace
    agent: str | None
    about: str | None = None


class WorkingMembers(Request, tag=93):
    """Also how a member says that it is still there."""

    scope: Namespace
    place: WorkingPlace
    agent: str | None


class WorkingReply(Reply, tag=170):
    """``count``, ``tokens``, ``max_tokens``: what is there now. ``evicted``: ids, in the order they
    left. ``end``: as in MemoriesReply.
    """

    count: int
    tokens: int
    max_tokens: int
    evicted: list[str]
    end: int


class WorkingItemsReply(Reply, tag=171):
    """``items``: packed list[WorkingItem], those that the scope may see. ``next``: what comes
    behind it, None: that was all. ``max_tokens`` 0: nobody has used it yet.
    """

    items: bytes
    next: int | None
    count: int
    tokens: int
    max_tokens: int


class WorkingStatusReply(Reply, tag=172):
    """As in WorkingItemsReply. ``holds``: what was asked ``about`` is there."""

    count: int
    tokens: int
    max_tokens: int
    holds: bool = False


class WorkingMember(Struct, array_like=True, frozen=True):
    """``seen_at``: None: not since the owner started. Times are microseconds UTC."""

    agent: str
    joined_at: int
    seen_at: int | None
    active: bool


class WorkingMembersReply(Reply, tag=173):
    """In the order of joining; one of them, if there are any, is active."""

    members: list[WorkingMember]


WorkingRequest = Work | WorkingItems | WorkingStatus | WorkingMembers
WorkingAnswer = WorkingReply | WorkingItemsReply | WorkingStatusReply | WorkingMembersReply
