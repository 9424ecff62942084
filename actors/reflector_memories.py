"""Facts made into memories: what each says of itself, and the id that it always gets. Pure.

The ids of a batch depend on its planned record and on nothing else: a window that is worked on
again after a death gives the same ones, and is stored once.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from neverforget.actors.extractor_contract import FACTS_MAX, Fact, Window, context_of
from neverforget.actors.memory_ids import made_uuid7
from neverforget.actors.reflector_turns import ReadTurn
from neverforget.storage.content import encode_body
from neverforget.storage.longterm_relation_reads import DERIVED_FROM
from neverforget.storage.longterm_results import Namespace, NewMemory, NewRelation, TurnPoint
from neverforget.storage.reflection_results import REFLECTION, SUBJECT_TAG, PlannedRange

SESSION, EXTRACTOR, SUBJECT = "session", "extractor", "subject"  # in a memory's metadata
_SLUG_CHARACTERS_MAX: Final = 60
_PERSON: Final = b"nf-reflection"


def batch_ids(namespace: Namespace, session: str, planned: PlannedRange) -> list[str]:
    """The ids that the facts of a window get, in their order."""
    made = planned.at // 1000
    return [
        made_uuid7(made, _digest([list(namespace), session, *_told(planned), number]))
        for number in range(FACTS_MAX)
    ]


def memories_of(
    window: Window,
    facts: Sequence[Fact],
    turns: Sequence[ReadTurn],
    planned: PlannedRange,
) -> list[NewMemory]:
    """In the order of ``facts``. Of two that say the same word for word the later one is left."""
    latest = {fact.text: number for number, fact in enumerate(facts)}
    kept = [fact for number, fact in enumerate(facts) if latest[fact.text] == number]
    by_seq = {each.seq: each for each in turns}
    ids = batch_ids(window.namespace, window.session, planned)
    return [
        _memory(window, fact, by_seq, planned, wanted)
        for fact, wanted in zip(kept, ids, strict=False)
    ]


def _memory(
    window: Window,
    fact: Fact,
    turns: Mapping[int, ReadTurn],
    planned: PlannedRange,
    wanted: str,
) -> NewMemory:
    metadata: dict[str, Any] = {SESSION: window.session, EXTRACTOR: planned.extractor}
    tags = fact.tags
    valid_from = fact.valid_from
    if fact.subject is not None:
        metadata[SUBJECT] = fact.subject
        tags = (*tags, subject_tag(fact.subject))
        if valid_from is None:
            valid_from = _holds_from(fact, turns[fact.last])
            if fact.valid_to is not None:
                valid_from = min(valid_from, fact.valid_to)
    return NewMemory(
        wanted,
        fact.text,
        type=fact.type,
        tags=tags,
        importance=float(fact.importance),
        confidence=float(fact.confidence),
        source=REFLECTION,
        agent=turns[fact.last].agent,
        speaker=fact.speaker,
        namespace=window.namespace,
        metadata=metadata,
        related_to=_provenance(window, fact, turns),
        occurred_at=fact.occurred_at,
        context=context_of(window, fact),
        valid_from=valid_from,
        valid_to=fact.valid_to,
    )


def _holds_from(fact: Fact, said: ReadTurn) -> int:
    """What happened before it was told holds since then. What is yet to happen counts from when it
    was told: a deadline does not begin on its day.
    """
    assert said.turn is not None
    told = said.turn.timestamp
    return told if fact.occurred_at is None else min(fact.occurred_at, told)


def _provenance(
    window: Window, fact: Fact, turns: Mapping[int, ReadTurn]
) -> tuple[NewRelation, ...]:
    """To the turns between its first and its last that could be read."""
    runs: list[tuple[int, int]] = []
    for seq in range(fact.first, fact.last + 1):
        if seq not in turns or turns[seq].turn is None:
            continue
        if runs and runs[-1][1] == seq - 1:
            runs[-1] = (runs[-1][0], seq)
        else:
            runs.append((seq, seq))
    return tuple(
        NewRelation(TurnPoint(window.namespace, window.session, first, last), DERIVED_FROM)
        for first, last in runs
    )


def subject_tag(subject: str) -> str:
    """``"caroline: home"`` as ``subject:caroline-home``. Two subjects may share one: what is found
    by it is compared.
    """
    folded = " ".join(subject.casefold().split())
    slug = re.sub(r"[^a-z0-9]+", "-", folded)[:_SLUG_CHARACTERS_MAX].strip("-")
    if not folded.isascii() or len(folded) > _SLUG_CHARACTERS_MAX or not slug:
        drawn = hashlib.blake2b(folded.encode("utf-8", "surrogatepass"), digest_size=5)
        slug = f"{slug}-{drawn.hexdigest()}".strip("-")
    return f"{SUBJECT_TAG}:{slug}"


def _told(planned: PlannedRange) -> list[Any]:
    return [planned.first, planned.last, planned.extractor, planned.at]


def _digest(what: list[Any]) -> bytes:
    return hashlib.blake2b(encode_body({0: what}), digest_size=16, person=_PERSON).digest()
