"""Facts by any model behind OpenAI's ``POST /chat/completions``.

The key is NEVERFORGET_EXTRACTOR_KEY; see ``openai_endpoint.py`` for it and for faults. The window
is handed over as data that is not to be obeyed (``extractor_prompt.py``), in parts where it is too
long for one request. The answer is JSON by a schema that is sent along or, where an endpoint
refuses schemas, that the instruction describes. An answer that is not right is asked for again,
with what is wrong with it, and after ``tries_max`` times it is NotExtracted. No window takes more
than ``tokens_max`` tokens, all parts, tries and answers counted at their most: one that would is
NotExtracted as well, before anything is sent that cannot be finished.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from datetime import UTC, date, datetime, tzinfo
from typing import Any, Final, Literal

import msgspec

from neverforget.actors.extractor_contract import (
    FACTS_MAX,
    TEXT_CHARACTERS_MAX,
    Fact,
    NotExtracted,
    Window,
    checked_facts,
    extractable,
)
from neverforget.actors.tokenizers import estimate
from neverforget.runtime.extractor_prompt import INSTRUCTION, PROMPT_VERSION, SCHEMA, parts_of
from neverforget.runtime.openai_endpoint import OpenAIEndpoint, Refused
from neverforget.runtime.openai_names import EXTRACTOR_KEY, parse_openai
from neverforget.runtime.timeframe import resolve
from neverforget.runtime.timeframe.resolving import zone_of
from neverforget.runtime.times import to_us
from neverforget.storage.clock import Clock, SystemClock

PART_CHARACTERS: Final = 48_000  # about 12,000 tokens: models in use read more
TOKENS_MAX: Final = 100_000  # of a window
ANSWER_TOKENS: Final = 4_000
TRIES_MAX: Final = 3
REQUEST_S, DEADLINE_S = 90.0, 300.0
_ANY_TIME: Final = datetime(1970, 1, 1, tzinfo=UTC)  # a date means the same whenever it is read


class _Told(msgspec.Struct):
    text: str
    first: int
    last: int
    type: Literal["fact", "preference", "plan", "decision", "event"] = "fact"
    importance: float = 5.0
    confidence: float = 0.8
    occurred_on: str | None = None
    subject: str | None = None


class _Answered(msgspec.Struct):
    facts: list[_Told]


class _Message(msgspec.Struct):
    content: str | None = None


class _Choice(msgspec.Struct):
    message: _Message
    finish_reason: str | None = None


class _Completion(msgspec.Struct):
    choices: list[_Choice]


class _Unusable(Exception):
    """What is wrong with an answer. Nothing of it is repeated."""


class _Budget:
    """Of one window, in tokens: every part is asked once, and what is left is for asking again."""

    def __init__(self, tokens_max: int, parts: list[str]) -> None:
        self._tokens_max = tokens_max
        self._spent = sum(map(_cost, parts))
        if self._spent > tokens_max:
            raise NotExtracted(
                f"the window would take about {self._spent:,} tokens; at most {tokens_max:,}"
            )

    def spend_again(self, part: str, fault: str) -> None:
        self._spent += _cost(part)
        if self._spent > self._tokens_max:
            raise NotExtracted(f"{fault}, and {self._tokens_max:,} tokens are used up")


def _cost(part: str) -> int:
    return estimate(INSTRUCTION) + estimate(part) + ANSWER_TOKENS


class OpenAIExtractor:
    """An ``Extractor``; ``name`` is "openai:MODEL@https://host/v1", ``timezone`` where days begin.

    ``clock``, ``sleep`` and ``chance`` (0 to 1) are passed in for tests.
    """

    def __init__(
        self,
        name: str,
        timezone: str | tzinfo = "UTC",
        *,
        request_s: float = REQUEST_S,
        deadline_s: float = DEADLINE_S,
        part_characters: int = PART_CHARACTERS,
        tokens_max: int = TOKENS_MAX,
        tries_max: int = TRIES_MAX,
        clock: Clock | None = None,
        sleep: Callable[[float], object] = time.sleep,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self._name = parse_openai(name, "an extractor", EXTRACTOR_KEY)
        self.extractor_id = f"{self._name}#{PROMPT_VERSION}"
        zone_of(timezone)  # InvalidArgument for what is none
        self._zone = timezone
        self._deadline_s, self._part_characters = deadline_s, part_characters
        self._tokens_max, self._tries_max = tokens_max, tries_max
        self._clock = clock or SystemClock()
        self._schema = True  # until the endpoint turns out not to know schemas
        self._endpoint = OpenAIEndpoint(
            self._name,
            f"the extractor {self._name}",
            EXTRACTOR_KEY,
            request_s=request_s,
            clock=self._clock,
            sleep=sleep,
            chance=chance,
        )

    def __repr__(self) -> str:
        return f"OpenAIExtractor({str(self._name)!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        return OpenAIExtractor, (str(self._name), self._zone)

    def extract(self, window: Window, /) -> list[Fact]:
        """Raises Unavailable, and NotExtracted for a window of which no usable facts come back."""
        if not extractable(window):
            return []
        parts = list(parts_of(window, self._zone, self._part_characters))
        budget = _Budget(self._tokens_max, parts)
        deadline = self._clock.monotonic() + self._deadline_s
        found = [fact for part in parts for fact in self._asked(window, part, budget, deadline)]
        return checked_facts(window, list(dict.fromkeys(found)))

    def close(self) -> None:
        """Close the connections; the next call opens new ones."""
        self._endpoint.close()

    # ---- asking ----------------------------------------------------------------------------------

    def _asked(self, window: Window, part: str, budget: _Budget, deadline: float) -> list[Fact]:
        messages = [
            {"role": "system", "content": INSTRUCTION},
            {"role": "user", "content": part},
        ]
        fault = ""
        for tried in range(self._tries_max):
            if tried:
                budget.spend_again(part, fault)
            told = f"The last answer could not be used: {fault}."
            again = [{"role": "system", "content": told}] if tried else []
            try:
                return self._read(window, self._answer(messages + again, deadline))
            except _Unusable as unusable:
                fault = str(unusable)
        raise NotExtracted(f"{fault}, {self._tries_max} times")

    def _answer(self, messages: list[dict[str, str]], deadline: float) -> bytes:
        content: dict[str, Any] = {
            "model": self._name.model,
            "messages": messages,
            "temperature": 0,
            "max_tokens": ANSWER_TOKENS,
        }
        schema: dict[str, Any] = {"response_format": SCHEMA} if self._schema else {}
        try:
            return self._endpoint.post("chat/completions", content | schema, self._left(deadline))
        except Refused as refused:
            if not schema:
                raise NotExtracted(str(refused)) from None
        try:
            body = self._endpoint.post("chat/completions", content, self._left(deadline))
        except Refused as refused:
            raise NotExtracted(str(refused)) from None
        self._schema = False
        return body

    def _left(self, deadline: float) -> float:
        return max(0.001, deadline - self._clock.monotonic())

    # ---- what comes back -------------------------------------------------------------------------

    def _read(self, window: Window, body: bytes) -> list[Fact]:
        try:
            completion = msgspec.json.decode(body, type=_Completion)
        except (msgspec.DecodeError, UnicodeDecodeError):
            raise _Unusable("it was no chat completion") from None
        choice = completion.choices[0] if completion.choices else None
        said = (choice.message.content or "").strip() if choice else ""
        if choice is None or not said:
            raise _Unusable("it held no text")
        try:
            answered = msgspec.json.decode(_bare(said), type=_Answered)
        except (msgspec.DecodeError, UnicodeError):
            cut = choice.finish_reason == "length"
            why = "it was cut off" if cut else "it was not the JSON that was asked for"
            raise _Unusable(why) from None
        speakers = {turn.seq: turn.speaker for turn in window.turns}
        facts = [self._fact(told, speakers) for told in answered.facts[: FACTS_MAX + 1]]
        try:
            return checked_facts(window, facts)
        except NotExtracted as wrong:
            raise _Unusable(str(wrong)) from None

    def _fact(self, told: _Told, speakers: dict[int, str | None]) -> Fact:
        return Fact(
            told.text.strip()[: TEXT_CHARACTERS_MAX + 1],
            told.first,
            told.last,
            type=told.type,
            speaker=speakers.get(told.last) or None,
            importance=told.importance,
            confidence=told.confidence,
            occurred_at=self._day_us(told.occurred_on),
            subject=(told.subject or "").strip().casefold() or None,
        )

    def _day_us(self, day: str | None) -> int | None:
        if day is None:
            return None
        try:
            found = resolve(date.fromisoformat(day), now=_ANY_TIME, tz=self._zone)
        except ValueError:  # InvalidArgument among them
            raise _Unusable("an occurred_on is no date like 2023-05-08") from None
        assert found is not None and found.start is not None
        return to_us(found.start, "occurred_on")


def _bare(said: str) -> str:
    """Without the fence that some models put around JSON."""
    if said.startswith("```") and said.endswith("```"):
        return said[3:-3].removeprefix("json").strip()
    return said
