"""Claim: what reflection makes of conversations finds nearly as much of the evidence of LoCoMo's
questions as every turn does, and is less.

NEVERFORGET_LOCOMO=locomo.json python -m bench.bench_extraction

Each conversation is imported as sessions of its own namespace and reflected by ``store.reflect``
with the offline extractor, as it is; beside it, elsewhere in the same store, every turn is
remembered. For each question of categories 1 to 4 the memories of its conversation are recalled as
by default: of its evidence turns, how many stand behind the first ten memories. A fact counts for
the turns that ``store.provenance`` gives. Filler is a list made by hand (``FILLER``), not the
extractor's; of the sentences that match it, how many stand in some memory.

The extractor's numbers were chosen by the figures of the conversations that stand first, third,
fifth, ... in the file, never by those of the others. No LLM takes part. The data are not part of
this project; without the variable nothing is measured.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
from msgspec import Struct

import neverforget as nf
from bench.bench_locomo import CATEGORIES, CUTS, VARIABLE, Sample, samples
from bench.measure import Options, Table, main, scratch
from neverforget.actors.tokenizers import estimate
from neverforget.runtime.extractor_dates import day_of
from neverforget.runtime.times import to_us

TURNS, FACTS = "every turn", "facts"
SHARE_OF_RECALL, MEMORIES_MAX = 0.95, 60.0  # targets: of every turn's R@10; of 100 turns
_SENTENCE = re.compile(r"[^.!?]+[.!?]+|[^.!?]+$")
_SO = r"(?:so |really |very |just |absolutely |super |pretty )*"
_GOOD = r"(?:great|awesome|amazing|cool|nice|wonderful|fantastic|good|lovely|sweet|incredible)"
_THAT = r"(?:that's|this is|that is|it's|that sounds|sounds|looks|that looks)"
_FILLER = rf"""
    (?:hey|hi|hello|yo)(?: \w+)?,? ?(?:there|again)?
    (?:hey|hi|hello)?(?: \w+)?,? ?(?:good|great|nice) to (?:see|hear from) you(?: again)?
    how (?:are you|have you been|are things|is it going|'s it going)(?: doing)?
    what'?s (?:up|new|up with you)
    (?:anything|what) new(?: with you)?
    (?:thanks|thank you|thx)(?: so much| a lot| a bunch)?,? ?\w*
    (?:wow|whoa|cool|awesome|great|nice|ok|okay|sure|yeah|yep|yup|congrats|oh|aww?),? ?\w*
    (?:wow,? )?{_THAT} {_SO}{_GOOD},? ?\w*
    (?:bye|goodbye|see you|see ya|talk to you soon|catch you later)(?: soon| later)?,? ?\w*
    (?:take care|have fun|good luck|keep it up|well done|way to go|you got this)
    (?:talk soon|no problem|no worries)
    have an? {_GOOD} (?:day|time|weekend|one|evening|night|week),? ?\w*
    you'?re welcome,? ?\w*
    (?:i )?(?:totally |completely |absolutely )?agree(?: with you)?,? ?\w*
    (?:glad|happy|good|great) to (?:hear|help)(?: that| it)?,? ?\w*
    (?:great|good|nice|awesome) (?:job|work|one|idea|point|choice),? ?\w*
    can't wait to (?:hear|see)(?: about it| more| it)?
    let me know(?: if \w+ \w+ \w+)?
    """
FILLER = re.compile("|".join(line.strip() for line in _FILLER.split("\n") if line.strip()), re.I)


class Conversation(Struct):
    """``keys``: of (session, seq), its turn's."""

    sample: Sample
    evidence: list[set[str]]  # of each of its questions, keys of turns
    turns: list[nf.Turn]
    keys: dict[tuple[str, int], str]


class Memories(Struct):
    """What was remembered of a conversation. ``turns``: by the id of a memory."""

    texts: list[str]
    turns: dict[str, set[str]]


class Figures(Struct):
    """Of one way to remember, over several conversations. Per question: recall at each cut, by
    category; of the first ten memories, tokens and how many turns stand behind them.
    """

    memories_per_100: float
    characters: float
    filler: float
    recall: dict[str, list[float]]
    in_ten_turns: float
    tokens: float
    behind: float


# ---- remembering ---------------------------------------------------------------------------------


def conversations(store: nf.Store, alone: Path, path: Path, most: int | None) -> list[Conversation]:
    """Imported one by one through the file ``alone``, each into its namespace."""
    data = json.loads(path.read_text())[:most]
    found = []
    for value, sample in zip(data, samples(data)):
        alone.write_text(json.dumps([value]))
        namespace = (FACTS, sample.name)
        nf.import_file(store, alone, format="locomo", namespace=namespace)
        keys = [turn[0] for turn in sample.turns]
        evidence = [{keys[at] for at in places} for _, _, places in sample.questions]
        conversation = Conversation(sample, evidence, [], {})
        for info in store.sessions(namespace=namespace, limit=1_000):
            turns = list(store.session(info.session, namespace=namespace))
            conversation.keys |= {(info.session, turn.seq): str(turn.key) for turn in turns}
            conversation.turns += turns
        found.append(conversation)
    return found


def reflected(store: nf.Store, conversation: Conversation) -> Memories:
    """What reflection has made of it, which is done already."""
    kept = Memories([], {})
    after = None
    while True:
        page = store.memories(namespace=(FACTS, conversation.sample.name), after=after, limit=500)
        for memory in page:
            kept.texts.append(memory.text)
            kept.turns[memory.id] = {
                conversation.keys[ref.session, seq]
                for ref in store.provenance(memory.id)
                for seq in range(ref.first, ref.last + 1)
            }
        if not page.has_more:
            return kept
        after = page.next


def remembered(store: nf.Store, conversation: Conversation) -> Memories:
    """Every turn, with its speaker and its time, and with what an image shows."""
    items = []
    texts = [shown_text(turn) for turn in conversation.turns]
    for at, turn in enumerate(conversation.turns):
        beside = [
            texts[near]
            for near in (at - 1, at + 1)
            if 0 <= near < len(texts) and conversation.turns[near].session == turn.session
        ]
        items.append(
            {
                "text": texts[at] or "(nothing)",
                "context": "\n".join(beside) or None,
                "speaker": turn.name,
                "occurred_at": turn.timestamp,
                "namespace": (TURNS, conversation.sample.name),
            }
        )
    kept = store.remember_many(items)
    keys = [{str(turn.key)} for turn in conversation.turns]
    return Memories([memory.text for memory in kept], dict(zip([m.id for m in kept], keys)))


def shown_text(turn: nf.Turn) -> str:
    """With what an image shows as plain words, as in ``bench_locomo``."""
    shown = turn.metadata.get("blip_caption")
    return f"{turn.content} {shown}" if shown else str(turn.content)


# ---- measuring -----------------------------------------------------------------------------------


def measure(store: nf.Store, where: str, found: list[tuple[Conversation, Memories]]) -> Figures:
    recall: dict[str, list[list[float]]] = {name: [] for name in (*CATEGORIES.values(), "all")}
    tokens, behind, in_ten = [], [], []
    for conversation, memories in found:
        namespace = (where, conversation.sample.name)
        for (question, category, _), evidence in zip(
            conversation.sample.questions, conversation.evidence
        ):
            hits = list(store.recall(question, namespace=namespace, limit=max(CUTS)))
            ranked = [memories.turns[hit.memory.id] for hit in hits]
            shares = [share(ranked[:cut], evidence) for cut in CUTS]
            for name in (CATEGORIES[category], "all"):
                recall[name].append(shares)
            in_ten.append(share(first_ten_turns(ranked), evidence))
            tokens.append(sum(estimate(in_prompt(where, hit.memory)) for hit in hits[:10]))
            behind.append(len(set().union(*ranked[:10])))
    turns = sum(len(conversation.sample.turns) for conversation, _ in found)
    texts = [text for _, memories in found for text in memories.texts]
    return Figures(
        100 * len(texts) / turns,
        float(np.mean([len(text) for text in texts])),
        filler_kept(found),
        {name: np.mean(rows, axis=0).tolist() for name, rows in recall.items() if rows},
        float(np.mean(in_ten)),
        float(np.mean(tokens)),
        float(np.mean(behind)),
    )


def share(ranked: list[set[str]], evidence: set[str]) -> float:
    return len(evidence & set().union(*ranked)) / len(evidence)


def first_ten_turns(ranked: list[set[str]]) -> list[set[str]]:
    """The first memories that have no more than ten turns behind them."""
    seen: set[str] = set()
    for at, turns in enumerate(ranked):
        seen |= turns
        if len(seen) > 10:
            return ranked[:at]
    return ranked


def in_prompt(where: str, memory: nf.Memory) -> str:
    """As it is read by whoever was not there: who said it and when. A fact says so itself."""
    if where == FACTS or memory.occurred_at is None:
        return memory.text
    return f"{memory.speaker}, {day_of(to_us(memory.occurred_at, 'time'), 'UTC')}: {memory.text}"


def filler_kept(found: Iterable[tuple[Conversation, Memories]]) -> float:
    """The share of what is filler, said in how many turns, that stands in some memory."""
    said = kept = 0
    for conversation, memories in found:
        remembered: dict[str, list[str]] = {}
        for text, keys in zip(memories.texts, memories.turns.values()):
            for key in keys:
                remembered.setdefault(key, []).append(text)
        for key, _, text, _, _ in conversation.sample.turns:
            for sentence in fillers(text):
                said += 1
                kept += any(sentence in each for each in remembered.get(key, ()))
    return kept / said if said else 0.0


def fillers(text: str) -> list[str]:
    found = [sentence.strip() for sentence in _SENTENCE.findall(text)]
    return [each for each in found if FILLER.fullmatch(each.rstrip(".!?").strip())]


# ---- the table -----------------------------------------------------------------------------------


def run(folder: Path, path: Path, embedder: Any, most: int | None) -> dict[str, Figures]:
    results: dict[str, Figures] = {}
    with nf.open(
        folder / "store", inline=True, embedder=embedder, sync="process", reflect_every_turns=0
    ) as store:
        found = conversations(store, folder / "one.json", path, most)
        store.reflect()
        ways: tuple[tuple[str, Callable[[nf.Store, Conversation], Memories]], ...]
        ways = ((TURNS, remembered), (FACTS, reflected))
        for where, how in ways:
            kept = [(each, how(store, each)) for each in found]
            store.settle()
            for half, some in (("tuned on", kept[0::2]), ("not tuned on", kept[1::2])):
                if some:
                    results[f"{where}, {half}"] = measure(store, where, some)
    return results


def table(results: dict[str, Figures]) -> str:
    heads = [
        "memories", "per 100 turns", "characters each", "filler kept",
        *(f"R@{cut}" for cut in CUTS), *(f"R@10 {name}" for name in CATEGORIES.values()),
        "in ten turns", "tokens of ten", "turns behind ten",
    ]  # fmt: skip
    lines = ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
    at = CUTS.index(10)
    for name, its in results.items():
        recall = [f"{value:.3f}" for value in its.recall["all"]]
        recall += [
            f"{its.recall[c][at]:.3f}" if c in its.recall else "" for c in CATEGORIES.values()
        ]
        cells = [
            f"{its.memories_per_100:.0f}",
            f"{its.characters:.0f}",
            f"{its.filler:.1%}",
            *recall,
        ]
        cells += [f"{its.in_ten_turns:.3f}", f"{its.tokens:.0f}", f"{its.behind:.1f}"]
        lines.append("| " + " | ".join([name, *cells]) + " |")
    return "\n".join(lines)


def missed(results: dict[str, Figures]) -> list[str]:
    """Which promises do not hold; none is what we want."""
    at = CUTS.index(10)
    wrong = []
    for half in ("tuned on", "not tuned on"):
        if f"{FACTS}, {half}" not in results:
            continue
        facts, turns = results[f"{FACTS}, {half}"], results[f"{TURNS}, {half}"]
        ratio = facts.recall["all"][at] / turns.recall["all"][at]
        if ratio < SHARE_OF_RECALL:
            wrong.append(f"{half}: R@10 of facts is {ratio:.3f} of that of every turn")
        if facts.memories_per_100 > MEMORIES_MAX:
            wrong.append(f"{half}: {facts.memories_per_100:.0f} memories of 100 turns")
    return wrong


def measured(options: Options) -> Table | None:
    path = os.environ.get(VARIABLE)
    if not path:
        print(f"skipped: set {VARIABLE} to a LoCoMo file; it is not part of this project")
        return None
    with scratch(options, "extraction") as folder:
        results = run(folder, Path(path), "minilm", 2 if options.quick else None)
    wrong = missed(results)
    targets = (
        f"targets: R@10 >= {SHARE_OF_RECALL} of that of every turn, with <= {MEMORIES_MAX:.0f}"
    )
    return Table(
        "extraction",
        "Facts instead of turns",
        [
            "a fact counts for the turns that are its provenance, and begins with its speaker and "
            "day, which tokens are counted with for turns as well (by the estimate)",
            "in ten turns: recall of the first memories behind which ten turns stand",
            "tuned on: the conversations by whose figures the extractor's numbers were chosen",
            f"{targets} memories of 100 turns" + "".join(f"; **missed**: {each}" for each in wrong),
        ],
        [],
        table(results),
    )


if __name__ == "__main__":
    main(measured)
