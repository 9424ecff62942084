"""The chapter about working memory: an agent keeps a rule in mind, is asked something, recalls what
it needs for its answer, and gets a context that is ready for a prompt."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING

from neverforget.actors.tokenizers import estimate
from neverforget.runtime.demo.agent import Notes, Place
from neverforget.runtime.demo.conversations import Conversation
from neverforget.runtime.demo.learning import Asked

if TYPE_CHECKING:
    from neverforget.runtime.store import Store
    from neverforget.runtime.working_values import Context

RULE = "Say first what holds now, then what it replaced, and where you know it from."
SAMPLE_SESSION = "onboarding/tomas"
SAMPLE_QUESTION = (
    "I was away for four weeks. On which day do we deploy now, and who may refuse a deploy?"
)
SAMPLE_NAME = "Tomás Reyes"
RECALLED = 5
MIND_TOKENS = 2_000
CONTEXT_TOKENS = 700


@dataclass(slots=True)
class Mind:
    """What ``agent`` would be given to answer ``question`` in the conversation at ``place``, where
    ``name`` asks it. ``faults`` in words, empty if all is well."""

    agent: str = ""
    place: Place = ((), "")
    question: str = ""
    name: str | None = None
    context: Context | None = None
    faults: list[str] = field(default_factory=list)


def choose(
    mind: Mind, talk: list[Conversation], notes: Iterable[Notes], asked: Asked | None
) -> None:
    """Whose mind, and in which conversation: of a file, whose ``asked`` somebody has said, the one
    that was said last; of the samples, None, the one that suits."""
    if asked is None:
        chosen = next(each for each in talk if each.name == SAMPLE_SESSION)
        mind.question, mind.name = SAMPLE_QUESTION, SAMPLE_NAME
    else:
        chosen = max(talk, key=_last_said)
        mind.question, mind.name = asked
    mind.place = (chosen.namespace, chosen.name)
    mind.agent = next(
        (each.agent for each in notes for told in each.acknowledged if told.place == mind.place),
        "nobody",
    )


def _last_said(conversation: Conversation) -> str:
    return max(str(line.fields.get("timestamp", "")) for line in conversation.lines)


def keep_in_mind(store: Store, mind: Mind) -> None:
    """A rule that the agent has been given: pinned, it is in every context."""
    view = store.scoped(agent=mind.agent)
    rule = view.remember(RULE, type="preference", importance=9, key=f"rule/{mind.agent}")
    view.working_memory(max_tokens=MIND_TOKENS).add(rule, pinned=True)


def think(store: Store, mind: Mind, now: datetime | None) -> None:
    """Be asked, recall, and make a context; check what it promises."""
    view = store.scoped(agent=mind.agent)
    memory = view.working_memory(max_tokens=MIND_TOKENS)
    chat = view.session(mind.place[1], namespace=mind.place[0])
    pinned = [item.memory.text for item in memory if item.pinned]
    asked = chat.append("user", mind.question, name=mind.name, timestamp=now)
    memory.recall(mind.question, limit=RECALLED, now=now)
    context = mind.context = memory.context(conversation=chat, max_tokens=CONTEXT_TOKENS)
    if pinned != [RULE]:
        mind.faults.append(f"{mind.agent} has not kept its rule in mind, but {pinned}")
    tokens = estimate(str(context))
    if tokens > CONTEXT_TOKENS:
        mind.faults.append(f"the context has {tokens:,} tokens, of {CONTEXT_TOKENS:,} allowed")
    if asked not in context.turns:
        mind.faults.append("the newest turn is not in the context")
    if not any(item.pinned for item in context.items):
        mind.faults.append("what is pinned is not in the context")
