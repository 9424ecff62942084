"""What changes a session: append, hide, fork and erase, as operations."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from neverforget.actors.messages import Append, Erase, Fork, Hide, Refuse
from neverforget.runtime.arguments import checked_seq, runs_of, whole
from neverforget.runtime.erasing_facts import erase_learned
from neverforget.runtime.operation import Call, Context, Operation, SessionPlace
from neverforget.runtime.repeated_turns import as_they_stand
from neverforget.runtime.scope import checked_text
from neverforget.runtime.session_reading import own_window
from neverforget.runtime.times import from_us, to_us
from neverforget.runtime.turn_codec import Draft, draft
from neverforget.runtime.values import CONFIRMED, ErasureReport, Turn
from neverforget.storage.errors import (
    ConfirmationRequired,
    InvalidArgument,
    NeverforgetError,
    NotFound,
)
from neverforget.storage.format import SEQ_MAX
from neverforget.storage.results import ForkPoint
from neverforget.storage.type_names import a_type

_TOKENS_MAX = 0xFFFFFFFF
APPEND_ARGUMENTS = frozenset(
    {"role", "content", "name", "call_id", "metadata", "timestamp", "token_count", "key"}
)


def append(
    context: Context,
    place: SessionPlace,
    agent: str | None,
    sync: int,
    role: str,
    content: Any,
    name: str | None,
    call_id: str | None,
    metadata: Mapping[str, Any] | None,
    timestamp: Any,
    token_count: int | None,
    key: str | None,
    expect_seq: int | None,
) -> Operation[Turn]:
    """Append one turn."""
    if expect_seq is not None:
        expect_seq = checked_seq(expect_seq, "expect_seq")
    producer, producer_seq = context.ids.next()
    made = draft(
        role,
        content,
        name,
        agent,
        call_id,
        key,
        metadata,
        context.clock.now_us() if timestamp is None else to_us(timestamp, "timestamp"),
        context.count_tokens(content) if token_count is None else _tokens(token_count),
        producer,
        producer_seq,
        place.scope,
    )
    check_batch(context, len(made.record))
    request = Append(
        0,
        place.namespace,
        place.name,
        agent,
        producer,
        producer_seq,
        sync,
        expect_seq,
        made.record,
    )
    appended = (yield Call(place.partition, request)).result
    if appended.existing:
        return (yield from as_they_stand(place, appended.existing))[0]
    return made.turn(place.namespace, place.name, agent, appended.first_seq)


def append_many(
    context: Context,
    place: SessionPlace,
    agent: str | None,
    sync: int,
    turns: Iterable[Mapping[str, Any]],
    expect_seq: int | None,
) -> Operation[list[Turn]]:
    """Append turns as one batch under one request id: all of them, or none."""
    if expect_seq is not None:
        expect_seq = checked_seq(expect_seq, "expect_seq")
    if isinstance(turns, (str, bytes, Mapping)) or not isinstance(turns, Iterable):
        raise InvalidArgument(f"turns is {a_type(turns)}; pass a list of mappings")
    producer, producer_seq = context.ids.next()
    now_us = context.clock.now_us()
    drafts: list[Draft] = []
    for index, item in enumerate(turns):
        try:
            drafts.append(_draft_of(context, place, agent, item, now_us, producer, producer_seq))
        except InvalidArgument as error:
            raise InvalidArgument(f"turns[{index}]: {error.message}") from error
    if not drafts:
        return []
    check_batch(context, sum(len(made.record) for made in drafts))
    request = Append(
        0,
        place.namespace,
        place.name,
        agent,
        producer,
        producer_seq,
        sync,
        expect_seq,
        b"".join([made.record for made in drafts]),
    )
    appended = (yield Call(place.partition, request)).result
    existing: dict[int, Turn] = {}
    if appended.existing:
        existing = yield from as_they_stand(place, appended.existing)
    seq = appended.first_seq
    result = []
    for index, made in enumerate(drafts):
        if index in existing:
            result.append(existing[index])
        else:
            result.append(made.turn(place.namespace, place.name, agent, seq))
            seq += 1
    return result


def check_batch(context: Context, n_bytes: int) -> None:
    """Refuse a batch that no owner takes before any of it travels, in every mode alike."""
    if n_bytes > context.batch_bytes_max:
        raise InvalidArgument(
            f"a batch of {n_bytes:,} bytes is above the limit of {context.batch_bytes_max:,}; "
            "append it in parts"
        )


def _draft_of(
    context: Context,
    place: SessionPlace,
    agent: str | None,
    item: Mapping[str, Any],
    now_us: int,
    producer: int,
    producer_seq: int,
) -> Draft:
    if not isinstance(item, Mapping):
        raise InvalidArgument(f"it is {a_type(item)}; pass a mapping of append's arguments")
    if not item.keys() <= APPEND_ARGUMENTS:
        unknown = ", ".join(sorted(map(str, item.keys() - APPEND_ARGUMENTS)))
        raise InvalidArgument(f"no argument {unknown}; append takes {', '.join(_ORDERED)}")
    try:
        role, content = item["role"], item["content"]
    except KeyError as error:
        raise InvalidArgument(f"{error.args[0]} is missing") from None
    timestamp, token_count = item.get("timestamp"), item.get("token_count")
    return draft(
        role,
        content,
        item.get("name"),
        agent,
        item.get("call_id"),
        item.get("key"),
        item.get("metadata"),
        now_us if timestamp is None else to_us(timestamp, "timestamp"),
        context.count_tokens(content) if token_count is None else _tokens(token_count),
        producer,
        producer_seq,
        place.scope,
    )


_ORDERED = ("role", "content", "name", "call_id", "metadata", "timestamp", "token_count", "key")


def _tokens(count: Any) -> int:
    return whole(count, "token_count", 0, _TOKENS_MAX)


def hide(
    context: Context,
    place: SessionPlace,
    by: str,
    seqs: Any,
    hidden: bool,
    reason: str | None,
) -> Operation[None]:
    """Hide turns, or show them again."""
    runs = runs_of(seqs)
    reason = checked_reason(reason)
    if runs:
        request = Hide(
            0, place.namespace, place.name, runs, hidden, by, reason, *context.ids.next()
        )
        yield Call(place.partition, request)


def fork(
    context: Context, place: SessionPlace, target: SessionPlace, by: str, at: int
) -> Operation[None]:
    """Create ``target`` with the turns 0..at-1 of ``place`` as its past."""
    at = whole(at, "at", 0, SEQ_MAX)
    seen = yield from _past(context, place, at)
    if not seen.session_id:
        raise NotFound(f"there is no session {place.name!r} to fork")
    if at > seen.end:
        raise InvalidArgument(
            f"at is {at:,}, but session {place.name!r} has {seen.end:,} turns; at is the number "
            "of turns that the fork shares"
        )
    request = Fork(
        0,
        target.namespace,
        target.name,
        ForkPoint(place.namespace, place.name, at, seen.session_id),
        seen.tokens,
        by,
        *context.ids.next(),
    )
    yield Call(target.partition, request)


class _Past(NamedTuple):
    session_id: int
    end: int
    tokens: int  # of turns 0..at-1


def _past(context: Context, place: SessionPlace, at: int) -> Operation[_Past]:
    """What a fork at ``at`` has to know of its parent. Token sums below the parent's own first
    turn are asked of the session that those turns are inherited from.
    """
    window = yield from own_window(place, at, at)
    tokens = window.tokens
    if window.parent is not None and 0 < at < window.base:
        ancestor = context.place(window.parent.namespace, window.parent.session)
        tokens = (yield from _past(context, ancestor, at)).tokens
    return _Past(window.session_id, window.end, tokens)


def erase(
    context: Context,
    scope: tuple[str, ...],
    place: SessionPlace,
    by: str,
    seqs: Any,
    confirm: object,
    reason: str | None,
) -> Operation[ErasureReport]:
    """Zero the bodies of turns for good, and what was learned from them alone. ``seqs`` None: the
    whole session, its name too. ``scope``: the view's root.
    """
    runs = None if seqs is None else runs_of(seqs)
    reason = checked_reason(reason)
    if confirm is not CONFIRMED:
        yield from refuse(place, by, runs, confirm, reason)
    if runs == []:
        return ErasureReport(0, 0, (), from_us(context.clock.now_us()))
    request = Erase(
        0,
        place.namespace,
        place.name,
        runs,
        CONFIRMED.value,
        by,
        reason,
        *context.ids.next(),
    )
    try:
        found = (yield Call(place.partition, request)).result
    except NotFound:
        if runs is None:  # erased before, perhaps by a call that did not come to its end
            yield from erase_learned(context, scope, place, runs, by, reason)
        raise
    learned = yield from erase_learned(context, scope, place, runs, by, reason)
    unreachable = [*found.unreachable, *(each for one in learned for each in one.unreachable)]
    return ErasureReport(
        turns=found.turns,
        bytes=found.bytes + sum(one.bytes for one in learned),
        unreachable=tuple(dict.fromkeys(unreachable)),
        at=from_us(found.at),
        memories=sum(one.memories for one in learned),
        flagged=tuple(dict.fromkeys(each for one in learned for each in one.flagged)),
        revised=tuple(dict.fromkeys(each for one in learned for each in one.revised)),
    )


def refuse(
    place: SessionPlace,
    by: str,
    runs: list[tuple[int, int]] | None,
    confirm: object,
    reason: str | None,
) -> Operation[None]:
    """Put an unconfirmed deletion on the record, then raise ConfirmationRequired."""
    given = "confirm is missing" if confirm is None else f"confirm is {confirm!r}"
    refusal = ConfirmationRequired(
        f"{given}: erasing cannot be undone; pass confirm=neverforget.CONFIRMED if it is meant"
    )
    target = {
        "namespace": list(place.namespace),
        "session": place.name,
        "seqs": None if runs is None else [list(run) for run in runs],
    }
    try:
        yield Call(place.partition, Refuse(0, "erase", target, by, reason))
    except NeverforgetError as error:
        refusal.add_note(f"the refusal could not be put on the record: {error}")
    raise refusal


def checked_reason(reason: str | None) -> str | None:
    """Why something is done, for the audit."""
    return None if reason is None else checked_text(reason, "reason")
