"""One agent of the demo: a plain class that runs as a Ray actor, with a store that it was given.

It says its conversations line by line, over and over under new names until it is told enough; in
between it reads what others say, and writes into one session that all agents share. What it says
again it marks as recalled, so that nothing is learned from it twice. It notes what was
acknowledged, and nothing else: the notes are what the store is checked against.
"""

from __future__ import annotations

import hashlib
import json
import random
import threading
import time
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from neverforget.runtime.demo.conversations import Conversation
from neverforget.runtime.routing import partition_of
from neverforget.runtime.turn_json import json_value
from neverforget.storage.digests import session_scope
from neverforget.storage.errors import NeverforgetError

if TYPE_CHECKING:
    from neverforget.runtime.session import Session
    from neverforget.runtime.store import Store

SHARED_SESSION = "everybody"
SHARED_EVERY = 10
TAIL_EVERY = 4
PAGE_EVERY = 8
Place = tuple[tuple[str, ...], str]


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """One turn that the store has promised to keep. ``at``: when, on the machine's monotonic clock;
    ``took``: how long the agent had waited. Seconds."""

    place: Place
    seq: int
    key: str
    digest: bytes
    at: float
    took: float


@dataclass(slots=True)
class Notes:
    """What one agent has to tell. Durations in seconds; ``failures``: calls that raised, in
    words."""

    agent: str
    acknowledged: list[Acknowledged] = field(default_factory=list)
    appends: list[float] = field(default_factory=list)
    tails: list[float] = field(default_factory=list)
    pages: list[float] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)


class DemoAgent:
    def __init__(
        self,
        store: Store,
        name: str,
        part: list[Conversation],
        run: str,
        seed: int,
        repeats: bool = False,
    ) -> None:
        """``run`` and ``seed`` make the keys of this agent's turns its own. ``repeats``: others say
        its part for the first time."""
        self._store = store.scoped(agent=name)
        self._keys = f"{run}-{seed}"
        self._part = part
        self._first = 1 if repeats else 0
        self._random = random.Random(seed)
        self._notes = Notes(name)
        self._enough, self._stop = threading.Event(), threading.Event()
        self._said = 0

    def ready(self) -> str:
        """Attached: the first call to the store has been answered."""
        self._store.session(SHARED_SESSION).info()
        return self._notes.agent

    def acknowledged(self) -> int:
        """How many turns so far; asked while ``talk`` runs."""
        return len(self._notes.acknowledged)

    def heard_from(self, partition: int, partitions: int, since: float) -> bool:
        """Whether a turn was acknowledged there that was said after ``since``; while ``talk``
        runs."""
        return any(
            told.at - told.took > since
            and partition_of(session_scope(*told.place), partitions) == partition
            for told in reversed(self._notes.acknowledged)
        )

    def enough(self) -> None:
        """Say nothing again."""
        self._enough.set()

    def stop(self) -> None:
        self._stop.set()

    def talk(self) -> Notes:
        """Say everything for the first time, unless ``stop`` is called; then again until somebody
        calls ``enough``."""
        turn_of = self._first
        while not (self._stop.is_set() or (turn_of and self._enough.is_set())):
            for conversation in self._part:
                if not self._say(conversation, turn_of):
                    return self._notes
            turn_of += 1
        return self._notes

    def _say(self, conversation: Conversation, turn_of: int) -> bool:
        namespace = conversation.namespace + ((f"again {turn_of}",) if turn_of else ())
        chat = self._store.session(conversation.name, namespace=namespace)
        for number, line in enumerate(conversation.lines):
            if self._stop.is_set() or (turn_of and self._enough.is_set()):
                return False
            fields = as_repeated(line.fields) if turn_of else line.fields
            self._append(chat, fields, f"{self._keys}-{turn_of}-{number}")
            self._said += 1
            if self._said % TAIL_EVERY == 0:
                self._timed(self._notes.tails, partial(chat.tail, 10))
            if self._said % PAGE_EVERY == 0:
                other = self._random.choice(self._part)
                listened = self._store.session(other.name, namespace=other.namespace)
                self._timed(self._notes.pages, partial(listened.page, newest=True, limit=20))
            if self._said % SHARED_EVERY == 0:
                text = f"{self._notes.agent}: {self._said} turns said, now in {conversation.name}"
                shared = self._store.session(SHARED_SESSION)
                self._append(
                    shared, {"role": "system", "content": text}, f"{self._keys}-{self._said}"
                )
        return True

    def _append(self, chat: Session, fields: dict[str, Any], key: str) -> None:
        began = time.monotonic()
        try:
            turn = chat.append(**fields, key=key)
        except NeverforgetError as error:
            self._notes.failures.append(f"append to {chat.name}: {error}")
            return
        ended = time.monotonic()
        self._notes.appends.append(ended - began)
        place = (turn.namespace, turn.session)
        digest = content_digest(fields["role"], fields["content"])
        self._notes.acknowledged.append(
            Acknowledged(place, turn.seq, key, digest, ended, ended - began)
        )

    def _timed(self, durations: list[float], call: Any) -> None:
        began = time.monotonic()
        try:
            call()
        except NeverforgetError as error:
            self._notes.failures.append(f"read: {error}")
            return
        durations.append(time.monotonic() - began)


def as_repeated(fields: dict[str, Any]) -> dict[str, Any]:
    """A turn that was said before: reflection reads it, and learns nothing from it."""
    return {**fields, "metadata": {**(fields.get("metadata") or {}), "recalled": True}}


def content_digest(role: str, content: Any) -> bytes:
    """Of what was said, the same before it is sent and after it is read."""
    text = json.dumps([role, json_value(content)], sort_keys=True)
    return hashlib.blake2b(text.encode(), digest_size=12).digest()
