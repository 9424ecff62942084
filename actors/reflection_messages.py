"""What a reflector and a partition say to each other. See ``messages.py`` for the conventions.

Ranges are inclusive seqs of one session's own turns (a fork's begin at its base).
"""

from __future__ import annotations

from neverforget.actors.message_bases import Producer, ProducerSeq, Reply, Request
from neverforget.storage.reflection_results import DueSession, PlannedRange


class Mark(Request, tag=13):
    """Turns first..last are consolidated by ``extractor``. Ends the plan of exactly this range, and
    failed ranges that it covers.
    """

    namespace: tuple[str, ...]
    session: str
    first: int
    last: int
    extractor: str
    producer: Producer
    producer_seq: ProducerSeq


class Due(Request, tag=21):
    """Sessions that are due, those longest due first."""

    limit: int


class Unreflected(Request, tag=22):
    """The named session, or with ``session`` None those at or below ``namespace`` strictly after
    ``after`` in (namespace, session) order, as far as they have anything to do: turns that wait, a
    plan, failed ranges. ``again``: also turns that another extractor than ``extractor``
    consolidated. ``from_seq``: of a named session only turns from there on count.
    """

    namespace: tuple[str, ...]
    session: str | None
    after: tuple[tuple[str, ...], str] | None
    limit: int
    extractor: str | None = None
    again: bool = False
    from_seq: int = 0


class Plan(Request, tag=24):
    """Fix a window before it is worked on. Replaces an unfinished plan of the session; one that is
    equal stands. With ``at``, the time of a plan: that one has been ``begun`` so often without an
    end that is known; Conflict where it does not stand any more.
    """

    namespace: tuple[str, ...]
    session: str
    first: int
    last: int
    extractor: str
    producer: Producer
    producer_seq: ProducerSeq
    at: int = 0
    begun: int = 1


class FailReflection(Request, tag=25):
    """Give turns first..last up until somebody asks again. Ends the plan. ``error`` holds no text
    of the turns.
    """

    namespace: tuple[str, ...]
    session: str
    first: int
    last: int
    extractor: str
    tries: int
    error: str
    producer: Producer
    producer_seq: ProducerSeq


class DueReply(Reply, tag=114):
    sessions: list[DueSession]


class UnreflectedReply(Reply, tag=115):
    """``more``: ask again after ``after``, as far as was looked: there may be no sessions in this
    one and some in the next.
    """

    sessions: list[DueSession]
    more: bool
    after: tuple[tuple[str, ...], str] | None = None


class PlannedReply(Reply, tag=116):
    planned: PlannedRange


ReflectionRequest = Mark | Due | Unreflected | Plan | FailReflection
ReflectionReply = DueReply | UnreflectedReply | PlannedReply
