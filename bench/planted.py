"""Long documents with facts at known places, and questions for each. Seeded: always the same.

``data/planted.txt`` holds the facts, the questions in other words, and what fills the documents:
sentences with places for the things of a topic. All documents of a kind speak of the same topics in
the same manner, so that they compete; a fact stands in one of them, once, and its words stand in
three others, far from each other. Every fourth fact is a short memory of its own instead.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

DATA: Final = Path(__file__).parent / "data" / "planted.txt"
LENGTH: Final = (8_000, 40_000)  # characters of what fills a document, about
RIVALS: Final = 3  # documents that have the words of a fact in them, apart, saying something else
SHORT: Final = 4  # one fact in so many is a short memory
OTHERS: Final = 8  # short memories that nobody asks for, for each topic
_PLAIN: Final = {"spec": 0.7, "chat": 0.65, "code": 0.4}  # the share of them that is sentences

_ROLES = (
    "office manager", "team lead", "help desk", "people team", "duty engineer", "treasurer",
    "head of operations", "secretary", "reviewer", "platform group",
)  # fmt: skip
_PEOPLE = (
    "Amara", "Bjarne", "Chiara", "Dmitri", "Elodie", "Farid", "Greta", "Hiroshi", "Ilse", "Jorge",
)  # fmt: skip
_TIMES = ("Monday", "the end of the month", "Thursday", "10 o'clock", "the quarter", "noon")


class Question(NamedTuple):
    """``fact`` stands at ``start``..``stop`` of the memory of number ``memory``. ``text`` asks for
    it as somebody would who remembers it dimly, ``otherwise`` with hardly one of its words.
    """

    text: str
    otherwise: str
    fact: str
    memory: int
    start: int
    stop: int


class Planted(NamedTuple):
    """``texts``: first the documents, then as many short ones as the questions need, and others."""

    texts: list[str]
    documents: int
    questions: list[Question]

    def asked(self, *, long: bool) -> list[Question]:
        return [one for one in self.questions if (one.memory < self.documents) == long]

    def cut(self, documents: int) -> Planted:
        """The same with the first so many documents only; for a smoke run."""
        away = self.documents - documents
        kept = [q for q in self.questions if q.memory < documents or q.memory >= self.documents]
        moved = [q._replace(memory=q.memory - away) if q.memory >= documents else q for q in kept]
        return Planted(self.texts[:documents] + self.texts[self.documents :], documents, moved)


@dataclass
class _Fact:
    text: str
    asked: list[str] = field(default_factory=list)
    rivals: list[str] = field(default_factory=list)

    def question(self, memory: int, start: int) -> Question:
        text, otherwise = self.asked
        return Question(text, otherwise, self.text, memory, start, start + len(self.text))


@dataclass
class _Topic:
    name: str
    things: list[str]
    facts: list[_Fact] = field(default_factory=list)


@dataclass
class _Kind:
    name: str
    titles: list[str] = field(default_factory=list)
    sentences: list[str] = field(default_factory=list)
    topics: list[_Topic] = field(default_factory=list)


Sentence = tuple[_Topic, str]
Section = tuple[_Topic, list[list[str]]]  # its paragraphs, of sentences


def corpus(seed: int = 0) -> Planted:
    kinds = _kinds(DATA.read_text(encoding="utf-8"))
    texts: list[str] = []
    questions: list[Question] = []
    short: list[_Fact] = []
    others: list[str] = []
    for kind in kinds:
        rng = random.Random(f"{seed} {kind.name}")
        facts = [(topic, fact) for topic in kind.topics for fact in topic.facts]
        rng.shuffle(facts)
        apart = len(facts) // SHORT
        short += [fact for _, fact in facts[:apart]]
        homes = [None if at < apart else at % len(kind.titles) for at in range(len(facts))]
        planted = _planted(rng, kind, facts, homes)
        for number, title in enumerate(kind.titles):
            text = _WRITERS[kind.name](rng, title, _sections(rng, kind, planted[number]))
            here = [fact for home, (_, fact) in zip(homes, facts) if home == number]
            questions += [fact.question(len(texts), text.index(fact.text)) for fact in here]
            texts.append(text)
        others += [_sentence(rng, kind, topic) for topic in kind.topics for _ in range(OTHERS)]
    documents = len(texts)
    for fact in short:
        questions.append(fact.question(len(texts), 0))
        texts.append(fact.text)
    return Planted([*texts, *dict.fromkeys(others)], documents, questions)


def _planted(
    rng: random.Random, kind: _Kind, facts: list[tuple[_Topic, _Fact]], homes: list[int | None]
) -> list[list[Sentence]]:
    """What is planted in each document: facts in their homes, their rivals elsewhere."""
    planted: list[list[Sentence]] = [[] for _ in kind.titles]
    for home, (topic, fact) in zip(homes, facts):
        if home is not None:
            planted[home].append((topic, fact.text))
        for other in rng.sample([n for n in range(len(planted)) if n != home], RIVALS):
            elsewhere = rng.choice([each for each in kind.topics if each is not topic])
            planted[other] += zip((topic, elsewhere), fact.rivals)
    return planted


def _kinds(text: str) -> list[_Kind]:
    found: list[_Kind] = []
    for line in text.splitlines():
        mark, _, rest = line.partition(" ")
        if mark == "==":
            found.append(_Kind(rest))
        elif mark == "!":
            found[-1].titles.append(rest)
        elif mark == "~":
            found[-1].sentences.append(rest)
        elif mark == "@":
            name, _, things = rest.partition(": ")
            found[-1].topics.append(_Topic(name, things.split("; ")))
        elif mark == "=":
            found[-1].topics[-1].facts.append(_Fact(rest))
        elif mark in ("?", "*"):
            found[-1].topics[-1].facts[-1].asked.append(rest)
        elif mark == "-":
            found[-1].topics[-1].facts[-1].rivals += rest.split(" / ")
    return found


def _sections(rng: random.Random, kind: _Kind, planted: list[Sentence]) -> list[Section]:
    """All topics of the kind, each as long as the others, what is planted somewhere in them."""
    share = rng.randint(*LENGTH) * _PLAIN.get(kind.name, 0.95) / len(kind.topics)
    found = []
    for topic in rng.sample(kind.topics, len(kind.topics)):
        sentences: list[str] = []
        while sum(map(len, sentences)) < share:
            sentences.append(_sentence(rng, kind, topic))
        for its, sentence in planted:
            if its is topic:
                sentences.insert(rng.randint(0, len(sentences)), sentence)
        paragraphs = []
        while sentences:
            size = rng.randint(3, 7)
            paragraphs.append(sentences[:size])
            del sentences[:size]
        found.append((topic, paragraphs))
    return found


def _sentence(rng: random.Random, kind: _Kind, topic: _Topic) -> str:
    a, b = rng.sample(topic.things, 2)
    made = rng.choice(kind.sentences)
    while "{p}" in made:
        made = made.replace("{p}", rng.choice(_PEOPLE), 1)
    made = made.replace("{r}", rng.choice(_ROLES)).replace("{t}", rng.choice(_TIMES))
    made = made.replace("{n}", str(rng.randint(2, 60))).replace("{a}", a).replace("{b}", b)
    return made if kind.name == "chat" else made[0].upper() + made[1:]


# ---- how a document of a kind is written ---------------------------------------------------------


def _handbook(rng: random.Random, title: str, sections: list[Section]) -> str:
    lines = [f"# {title}", ""]
    for topic, paragraphs in sections:
        lines += [f"## {topic.name}", ""]
        for at, sentences in enumerate(paragraphs):
            if at % 4 == 2:
                lines += [f"### {rng.choice(topic.things).capitalize()}", ""]
            if rng.random() < 0.25:
                lines += [*(f"- {sentence}" for sentence in sentences), ""]
            else:
                lines += [" ".join(sentences), ""]
    return "\n".join(lines)


def _meeting(rng: random.Random, title: str, sections: list[Section]) -> str:
    lines = [title, "", f"Present: {', '.join(rng.sample(_PEOPLE, 6))}", ""]
    for number, (topic, paragraphs) in enumerate(sections, 1):
        lines += [f"{number}. {topic.name}", ""]
        for sentences in paragraphs:
            if rng.random() < 0.5:
                lines += [*(f"* {sentence}" for sentence in sentences), ""]
            else:
                lines += [" ".join(sentences), ""]
    return "\n".join(lines)


def _incident(rng: random.Random, title: str, sections: list[Section]) -> str:
    lines = [f"# {title}", ""]
    for topic, paragraphs in sections:
        lines += [f"## {topic.name}", ""]
        for sentences in paragraphs:
            if rng.random() < 0.3:
                times = sorted(rng.sample(range(24 * 60), len(sentences)))
                steps = zip(times, sentences)
                lines += [*(f"- {t // 60:02}:{t % 60:02} {said}" for t, said in steps), ""]
            else:
                lines += [" ".join(sentences), ""]
    return "\n".join(lines)


def _spec(rng: random.Random, title: str, sections: list[Section]) -> str:
    lines = [title, "=" * len(title), ""]
    for number, (topic, paragraphs) in enumerate(sections, 1):
        lines += [f"## {number} {topic.name}", ""]
        for at, sentences in enumerate(paragraphs):
            if at % 3 == 1:
                lines += [f"### {number}.{at} {rng.choice(topic.things).capitalize()}", ""]
            lines += [" ".join(sentences), ""]
            if rng.random() < 0.2:
                rows = [f"| {thing} | {rng.randint(1, 99)} |" for thing in topic.things]
                lines += ["| field | bits |", "|---|---|", *rows, ""]
            if rng.random() < 0.15:
                code = [f"{thing.split()[-1]} = {rng.randint(1, 99)};" for thing in topic.things]
                lines += ["```c", *code, "```", ""]
    return "\n".join(lines)


def _chat(rng: random.Random, title: str, sections: list[Section]) -> str:
    lines = [title, ""]
    minute = 0
    for _, paragraphs in sections:
        for sentences in paragraphs:
            for sentence in sentences:
                minute += rng.randint(0, 4)
                at = f"{8 + minute // 60 % 12:02}:{minute % 60:02}"
                lines.append(f"[{at}] {rng.choice(_PEOPLE)}: {sentence}")
    return "\n".join(lines) + "\n"


def _code(rng: random.Random, title: str, sections: list[Section]) -> str:
    lines = [f'"""Module {title}."""', "", "import json", ""]
    for number, (topic, paragraphs) in enumerate(sections):
        lines += ["", f"class {topic.name.title()}:"]
        for at, sentences in enumerate(paragraphs):
            first, second = (thing.split()[-1] for thing in rng.sample(topic.things, 2))
            lines += ["", f"    def {rng.choice(_VERBS)}_{first}_{at}(self, {second}, limit=0):"]
            lines += [f'        """{sentences[0]}"""']
            for step, sentence in enumerate(sentences[1:]):
                lines += [f"        # {sentence}"]
                lines += [f"        self.{first} = self._{rng.choice(_VERBS)}({second}, {step})"]
                lines += [
                    f"        if self.{first} is None:",
                    f"            raise ValueError({number})",
                ]
            lines += [f"        return self.{first}"]
        lines += [""]
    return "\n".join(lines)


_VERBS = ("load", "move", "check", "merge", "count", "drop", "find", "pack")
_WRITERS: dict[str, Callable[[random.Random, str, list[Section]], str]] = {
    "handbook": _handbook,
    "meeting": _meeting,
    "incident": _incident,
    "spec": _spec,
    "chat": _chat,
    "code": _code,
}
