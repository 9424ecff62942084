"""The chapter about memories: what the agents learned, recalled in three ways, and a deletion that
is refused, confirmed, audited and undone.

The samples have facts that were written for them. Of a file of somebody's own, the turns of one
conversation are remembered as they are, and the questions are made from its words.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from importlib.resources import as_file, files
from typing import TYPE_CHECKING, Any

from neverforget.runtime.cli_words import STOP_WORDS, words_in
from neverforget.runtime.demo.conversations import Conversation
from neverforget.runtime.importers import SourceMemory, parse_file
from neverforget.runtime.values import CONFIRMED, TurnRef
from neverforget.storage.errors import ConfirmationRequired, NotFound

if TYPE_CHECKING:
    from neverforget.runtime.memory_values import Hit, Hits
    from neverforget.runtime.store import Store
    from neverforget.runtime.values import AuditEntry

FACTS = "facts.jsonl"
FACTS_MAX = 200
OPERATOR = "operator"  # who forgets
HITS = 2
RARE_WORDS = 3
WORD_CHARACTERS_MIN = 5
QUESTION_CHARACTERS = range(20, 90)

Fact = dict[str, Any]  # the arguments of ``Store.remember``, with a key


@dataclass(frozen=True, slots=True)
class Question:
    """``how``: by meaning, by words or by time; ``arguments``: of ``Store.recall``."""

    how: str
    query: str
    arguments: dict[str, Any]
    remark: str = ""


@dataclass(slots=True)
class Answer:
    question: Question
    hits: Hits
    sources: list[list[TurnRef]]
    took_s: float


@dataclass(slots=True)
class Learned:
    """What happened. ``faults`` in words, empty if all is well."""

    facts: int = 0
    agents: int = 0
    from_file: bool = False
    remembered: list[float] = field(default_factory=list)  # seconds that each took
    answers: list[Answer] = field(default_factory=list)
    victim: Hit | None = None
    audit: list[AuditEntry] = field(default_factory=list)
    kept: dict[str, str] = field(default_factory=dict)  # id -> text
    faults: list[str] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        return not self.faults


# ---- what is learned, and what is asked ----------------------------------------------------------


def facts_for(
    path: str | os.PathLike[str] | None, conversations: list[Conversation]
) -> tuple[list[Fact], list[Question]]:
    """The facts of the samples, or the turns of one conversation of a file; and three questions."""
    if path is not None:
        facts = _turns_of_one(conversations)
        return facts, _questions_about(facts)
    with as_file(files("neverforget.runtime") / "samples" / FACTS) as sample:
        found = [each for each in parse_file(sample) if isinstance(each, SourceMemory)]
    return [_fact(each) for each in found], SAMPLE_QUESTIONS


SAMPLE_QUESTIONS = [
    Question("by meaning", "who may be disturbed at night, and when?", {"strategy": "vector"}),
    Question("by words", "school bus Kvitnes", {"strategy": "text"}),
    Question(
        "by time",
        "what was decided last week?",
        {"timeframe": "auto", "now": datetime(2026, 4, 20, 9, 0, tzinfo=UTC)},
        "asked on Monday 20 April 2026",
    ),
]


def _fact(memory: SourceMemory) -> Fact:
    turns = [
        TurnRef(*relation.target)
        for relation in memory.relations
        if not isinstance(relation.target, str)
    ]
    return {**memory.fields, "namespace": memory.namespace, "related_to": tuple(turns)}


def _turns_of_one(conversations: list[Conversation]) -> list[Fact]:
    """Sessions whose names begin alike (``locomo/conv-26/…``) are one conversation."""
    groups: dict[Any, list[Conversation]] = {}
    for each in conversations:
        groups.setdefault((each.namespace, each.name.rpartition("/")[0] or each.name), []).append(
            each
        )
    longest = max(groups.values(), key=lambda group: sum(len(each.lines) for each in group))
    facts: list[Fact] = []
    for conversation in longest:
        for seq, line in enumerate(conversation.lines):
            text = line.fields["content"]
            if len(facts) == FACTS_MAX or not isinstance(text, str) or not text.strip():
                continue
            at = line.fields.get("timestamp")
            fact: Fact = {
                "text": text,
                "key": f"{conversation.name}/{seq}",
                "namespace": conversation.namespace,
                "speaker": line.fields.get("name"),
                "related_to": TurnRef(conversation.namespace, conversation.name, seq, seq),
            }
            facts.append(fact | ({} if at is None else {"occurred_at": at}))
    return facts


def _questions_about(facts: list[Fact]) -> list[Question]:
    """One that somebody asked, the rarest words of one fact, and a day in the middle."""
    if not facts:
        return []
    asked = [
        fact
        for fact in facts
        if fact["text"].endswith("?") and len(fact["text"]) in QUESTION_CHARACTERS
    ] or facts
    asked_one = asked[len(asked) // 2]
    meaning = asked_one["text"]
    others = {"where": {"key": {"$ne": asked_one["key"]}}}  # it would answer itself
    counts = Counter(word for fact in facts for word in set(words_in(fact["text"])))
    longest = max(facts, key=lambda fact: len(fact["text"]))
    words = [
        word
        for word in dict.fromkeys(words_in(longest["text"]))
        if len(word) >= WORD_CHARACTERS_MIN and word not in STOP_WORDS
    ]
    rare = sorted(words, key=lambda word: counts[word])[:RARE_WORDS]
    questions = [
        Question("by meaning", meaning, {"strategy": "vector", **others}),
        Question("by words", " ".join(rare) or longest["text"][:60], {"strategy": "text"}),
    ]
    times = sorted(fact["occurred_at"] for fact in facts if "occurred_at" in fact)
    if times:
        middle: datetime = times[len(times) // 2]
        now = middle + timedelta(days=1)
        remark = f"asked on {now:%A %-d %B %Y}"
        arguments = {"timeframe": "auto", "now": now, **others}
        questions.append(Question("by time", f"{meaning} yesterday", arguments, remark))
    return questions


# ---- what is done --------------------------------------------------------------------------------


def answers(store: Store, questions: list[Question]) -> Iterator[Answer]:
    for question in questions:
        began = time.monotonic()
        hits = store.recall(question.query, limit=HITS, **question.arguments)
        took = time.monotonic() - began
        yield Answer(question, hits, [store.provenance(hit.memory.id) for hit in hits], took)


def forget_and_undo(store: Store, learned: Learned) -> None:
    """An attempt without confirmation, one with, a look, and back again; then the audit of it."""
    store = store.scoped(agent=OPERATOR)
    answer = next((each for each in learned.answers if each.hits), None)
    if answer is None:
        learned.faults.append("no question was answered")
        return
    victim = learned.victim = answer.hits[0]
    name, question = victim.memory.id, answer.question
    try:
        store.forget(name)
        learned.faults.append("a deletion without confirmation was not refused")
    except ConfirmationRequired:
        pass  # as it should be, and the audit must say so
    store.forget(name, confirm=CONFIRMED, reason="the demo shows how")
    if _found(store, question, name):
        learned.faults.append("a forgotten memory is still recalled")
    store.undo_forget(name)
    if not _found(store, question, name):
        learned.faults.append("a memory is not recalled after its deletion was undone")
    learned.audit = list(store.audit(target=name))
    operations = [entry.operation for entry in learned.audit]
    if operations != ["forget-refused", "forget", "undo-forget"]:
        learned.faults.append(f"the audit has {', '.join(operations) or 'nothing'}")


def _found(store: Store, question: Question, memory_id: str) -> bool:
    hits = store.recall(question.query, limit=HITS, **question.arguments)
    return any(hit.memory.id == memory_id for hit in hits)


def check_kept(store: Store, learned: Learned) -> None:
    """Each memory that was acknowledged is there, as it was said."""
    for memory_id, text in learned.kept.items():
        try:
            if store.get(memory_id).text != text:
                learned.faults.append(f"memory {memory_id} is not what was acknowledged")
        except NotFound:
            learned.faults.append(f"the acknowledged memory {memory_id} is lost")
