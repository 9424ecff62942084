"""The chapter about memories, weeks later: questions with their answers and the turns behind them,
what has changed since it was learned, and a deletion that is refused, confirmed, audited and
undone.

The samples have questions that were written for them. Of a file of somebody's own they are made
from its words.
"""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

from neverforget.runtime.cli_words import STOP_WORDS, words_in
from neverforget.runtime.demo.conversations import Conversation, Line
from neverforget.runtime.values import CONFIRMED
from neverforget.storage.errors import ConfirmationRequired, InvalidArgument

if TYPE_CHECKING:
    from neverforget.runtime.memory_values import Hit, Hits, Memory
    from neverforget.runtime.store import Store
    from neverforget.runtime.values import AuditEntry, Turn, TurnRef

OPERATOR = "operator"  # who forgets
WEEKS_LATER = timedelta(weeks=4)
HITS = 2
AS_OF_HITS = 5
TURNS_SHOWN = 2
LONG_WORDS = 3
WORD_CHARACTERS_MIN = 5
QUESTION_CHARACTERS = range(20, 90)
ASKING = ("What", "When", "Where", "Which", "Who", "Why", "How")
_SENTENCE_END = re.compile(r"(?<=[.!?]) ")


class Asked(NamedTuple):
    """A question of a file, and whose it is."""

    text: str
    name: str | None


@dataclass(frozen=True, slots=True)
class Question:
    """``how``: by meaning, by words or by time; ``arguments``: of ``Store.recall``."""

    how: str
    query: str
    arguments: dict[str, Any]


@dataclass(slots=True)
class Answer:
    """``sources``: where each hit is from; ``said``: the first turns behind the best one."""

    question: Question
    hits: Hits
    sources: list[list[TurnRef]]
    said: list[Turn]
    took_s: float


@dataclass(slots=True)
class Change:
    """What was learned of one subject, and then something newer. ``then``: what ``query`` finds as
    of when the first one held, ``now``: today."""

    subject: str
    query: str
    then: Memory
    now: Memory


@dataclass(slots=True)
class Learned:
    """What happened. ``now``: when the questions are asked; None: of the file nothing has a time.
    ``kept``: memories that were found again. ``faults`` in words, empty if all is well."""

    now: datetime | None = None
    kept: int = 0
    answers: list[Answer] = field(default_factory=list)
    change: Change | None = None
    victim: Hit | None = None
    audit: list[AuditEntry] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)


# ---- what is asked -------------------------------------------------------------------------------

SAMPLE_NOW = datetime(2026, 5, 18, 9, 0, tzinfo=UTC)
SAMPLE_QUESTIONS = [
    Question("by meaning", "when may Dele be woken?", {"strategy": "vector"}),
    Question("by words", "school bus Kvitnes", {"strategy": "text"}),
    Question("by time", "what was decided last month?", {"timeframe": "auto"}),
]


def questions_about(talk: list[Conversation], asked: Asked) -> list[Question]:
    """One that somebody asked, one of words that were said, and one of a month in the middle."""
    lines = _in_words(talk)
    questions = [
        Question("by meaning", asked.text, {"strategy": "vector"}),
        Question("by words", _long_words(lines), {"strategy": "text"}),
    ]
    times = _times(lines)
    if times:
        by_time = f"what happened in {times[len(times) // 2]:%B %Y}?"
        questions.append(Question("by time", by_time, {"timeframe": "auto"}))
    return questions


def asked_in(talk: list[Conversation]) -> Asked:
    """A question of somebody with as much as possible to go by: words that are said elsewhere,
    too. Where nobody asks anything, something that was said."""
    lines = _in_words(talk)
    if not lines:
        raise InvalidArgument("nothing in this file is said in words; try another one")
    counts = Counter(word for line in lines for word in _telling(_text(line)))
    lines = [line for line in lines if line.fields["role"] == "user"] or lines
    said = [Asked(_last_sentence(_text(line)), line.fields.get("name")) for line in lines]
    asked = [each for each in said if _is_question(each.text)] or said
    return max(asked, key=lambda each: sum(counts[word] > 1 for word in _telling(each.text)))


def weeks_after(talk: list[Conversation]) -> datetime | None:
    """None: of what was said nothing has a time."""
    times = _times(_in_words(talk))
    return times[-1] + WEEKS_LATER if times else None


def _in_words(talk: list[Conversation]) -> list[Line]:
    return [
        line
        for conversation in talk
        for line in conversation.lines
        if isinstance(line.fields["content"], str) and line.fields["content"].strip()
    ]


def _times(lines: list[Line]) -> list[datetime]:
    return sorted(line.fields["timestamp"] for line in lines if line.fields.get("timestamp"))


def _text(line: Line) -> str:
    return str(line.fields["content"])


def _last_sentence(text: str) -> str:
    return _SENTENCE_END.split(" ".join(text.split()))[-1]


def _is_question(text: str) -> bool:
    return text.endswith("?") and len(text) in QUESTION_CHARACTERS and text.startswith(ASKING)


def _telling(text: str) -> list[str]:
    """Its words, but for those that are in every text."""
    return [
        word
        for word in dict.fromkeys(words_in(text))
        if len(word) >= WORD_CHARACTERS_MIN and word not in STOP_WORDS
    ]


def _long_words(lines: list[Line]) -> str:
    """Of the longest turn."""
    longest = max(map(_text, lines), key=len)
    words = sorted(_telling(longest), key=len, reverse=True)
    return " ".join(words[:LONG_WORDS]) or longest[: QUESTION_CHARACTERS.stop]


# ---- what is answered ----------------------------------------------------------------------------


def answers(store: Store, questions: list[Question], now: datetime | None) -> Iterator[Answer]:
    for question in questions:
        began = time.monotonic()
        hits = store.recall(question.query, limit=HITS, now=now, **question.arguments)
        took = time.monotonic() - began
        sources = [store.provenance(hit.memory.id) for hit in hits]
        yield Answer(question, hits, sources, _turns(store, sources[0] if hits else []), took)


def _turns(store: Store, refs: Iterable[TurnRef]) -> list[Turn]:
    """The newest few of those that a memory is from."""
    said: list[Turn] = []
    for ref in refs:
        chat = store.session(ref.session, namespace=ref.namespace)
        said += chat[max(ref.first, ref.last + 1 - TURNS_SHOWN) : ref.last + 1]
    return said[-TURNS_SHOWN:]


def changed(store: Store, memories: list[Memory], learned: Learned) -> None:
    """The subject of which something newer was learned last, and what is found of it then and now.
    Nothing where nothing has changed."""
    ended = [each for each in memories if each.valid_to and each.metadata.get("subject")]
    if not ended:
        return
    newest = max(ended, key=lambda each: each.valid_to or SAMPLE_NOW)
    subject = newest.metadata["subject"]
    history = [each for each in memories if each.metadata.get("subject") == subject]
    history.sort(key=lambda each: each.valid_from or each.created_at)
    history = list({each.text: each for each in history}.values())  # the demo may run again
    query = " ".join(words_in(subject))
    then = store.recall(query, as_of=history[0].valid_from, limit=AS_OF_HITS)
    now = store.recall(query, now=learned.now, limit=AS_OF_HITS)
    texts = {each.text for each in history}
    of_then = [hit.memory for hit in then if hit.memory.text in texts]
    of_now = [hit.memory for hit in now if hit.memory.text in texts]
    if not of_then or not of_now:
        learned.faults.append(f"what was learned of {subject} is not recalled")
        return
    learned.change = Change(subject, query, of_then[0], of_now[0])
    if of_then[0].text != history[0].text or of_now[0].text != history[-1].text:
        learned.faults.append(f"of {subject} not what holds is found first")


# ---- what is forgotten ---------------------------------------------------------------------------


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
    if _found(store, question, name, learned.now):
        learned.faults.append("a forgotten memory is still recalled")
    store.undo_forget(name)
    if not _found(store, question, name, learned.now):
        learned.faults.append("a memory is not recalled after its deletion was undone")
    learned.audit = list(store.audit(target=name))[-3:]
    operations = [entry.operation for entry in learned.audit]
    if operations != ["forget-refused", "forget", "undo-forget"]:
        learned.faults.append(f"the audit has {', '.join(operations) or 'nothing'}")


def _found(store: Store, question: Question, memory_id: str, now: datetime | None) -> bool:
    hits = store.recall(question.query, limit=HITS, now=now, **question.arguments)
    return any(hit.memory.id == memory_id for hit in hits)
