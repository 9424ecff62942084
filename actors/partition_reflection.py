"""How what a reflector asks is asked of a region: two tables, as in ``partition_requests.py``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from neverforget.actors.group_commit import Stage
from neverforget.actors.messages import AnyReply, DoneReply
from neverforget.actors.reflection_messages import (
    Due,
    DueReply,
    FailReflection,
    Mark,
    Plan,
    PlannedReply,
    Unreflected,
    UnreflectedReply,
)
from neverforget.storage.region import Region


def _mark(region: Region, r: Mark) -> tuple[AnyReply, int]:
    end = region.mark(
        r.namespace, r.session, r.first, r.last, r.extractor, r.producer, r.producer_seq
    )
    return DoneReply(r.id), end


def _plan(region: Region, r: Plan) -> tuple[AnyReply, int]:
    planned, end = region.plan(
        r.namespace, r.session, r.first, r.last, r.extractor, r.producer, r.producer_seq, r.at,
        r.begun,
    )  # fmt: skip
    return PlannedReply(r.id, planned), end


def _fail(region: Region, r: FailReflection) -> tuple[AnyReply, int]:
    end = region.fail_reflection(
        r.namespace, r.session, r.first, r.last, r.extractor, r.tries, r.error, r.producer,
        r.producer_seq,
    )  # fmt: skip
    return DoneReply(r.id), end


def _due(region: Region, r: Due) -> AnyReply:
    return DueReply(r.id, region.reflection.due(r.limit))


def _unreflected(region: Region, r: Unreflected) -> AnyReply:
    sessions, more, after = region.reflection.unreflected(
        r.namespace, r.session, r.after, r.limit, r.extractor, r.again, r.from_seq
    )
    return UnreflectedReply(r.id, sessions, more, after)


STAGED: dict[type, Stage[Region]] = {Mark: _mark, Plan: _plan, FailReflection: _fail}
READ: dict[type, Callable[[Region, Any], AnyReply]] = {Due: _due, Unreflected: _unreflected}
