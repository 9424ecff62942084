"""One search over a view of the long-term tier: its legs, independently, and what they make
together. Reads the view and nothing else; no model is asked on the way.

Each leg finds its own candidates; what one of them found, all of them score; the fusion adds up. A
long memory is found by its parts, itself and its chunks: each is scored by itself, and the best of
them stands for the memory. So words and meaning of one place count together, not the words of one
page and the meaning of another.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from neverforget.actors.fusion import (
    BY_RANK,
    CONTEXT,
    FUSIONS,
    TEXT,
    VECTOR,
    Fused,
    FusionConfig,
    Leg,
    reciprocal,
    weighted,
)
from neverforget.actors.query_preparation import PreparedQuery
from neverforget.storage.errors import InvalidArgument
from neverforget.storage.longterm_gate import Gate
from neverforget.storage.longterm_results import MemoryFilter
from neverforget.storage.longterm_view import Found, LongTermView
from neverforget.storage.reflection_results import SUBJECT_TAG

Strategy = Literal["hybrid", "text", "vector"]
STRATEGIES: dict[str, tuple[str, ...]] = {
    "hybrid": (TEXT, CONTEXT, VECTOR),
    "text": (TEXT, CONTEXT),
    "vector": (VECTOR,),
}


QUERY_CHARACTERS_MAX = 32_768  # embedded in windows, and somebody waits for each of them


class Result(msgspec.Struct, frozen=True):
    """``row`` of the memory; ``part``: the row, its own or a chunk's, where it was found best, of
    which ``fused`` tells score, sources and arithmetic.
    """

    row: int
    part: int
    fused: Fused[int]


def check_query(query: str) -> None:
    """Raises InvalidArgument for one that would keep the others waiting."""
    if len(query) > QUERY_CHARACTERS_MAX:
        raise InvalidArgument(
            f"a query of {len(query):,} characters is above the limit of "
            f"{QUERY_CHARACTERS_MAX:,}; search for what matters in it"
        )


def check_search(strategy: str, fusion: str, limit: int, offset: int) -> None:
    """Raises InvalidArgument for what ``search`` would not take."""
    if strategy not in STRATEGIES:
        raise InvalidArgument(f"strategy {strategy!r}: one of {', '.join(STRATEGIES)}")
    if fusion not in FUSIONS:
        raise InvalidArgument(f"fusion {fusion!r}: one of {', '.join(FUSIONS)}")
    if limit < 0 or offset < 0:
        raise InvalidArgument("limit and offset are whole numbers from 0 on")


def search(
    view: LongTermView,
    query: PreparedQuery,
    vector: Any,
    wanted: MemoryFilter,
    *,
    strategy: str = "hybrid",
    fusion: str = "weighted",
    limit: int = 10,
    offset: int = 0,
    config: FusionConfig | None = None,
    now: int | None = None,
) -> list[Result]:
    """The memories at ``offset``..``offset + limit``, best first. ``vector``: of
    ``query.meaning``, None where there is no embedder: then the words alone are searched. ``now``:
    what is valid then is preferred, unless ``wanted.as_of`` says when it is to be valid.

    Raises InvalidArgument.
    """
    config = config or FusionConfig()
    check_search(strategy, fusion, limit, offset)
    names = [name for name in STRATEGIES[strategy] if getattr(config, name) > 0]
    if vector is None:
        names = [name for name in names if name != VECTOR]
    gate = view.gate(wanted)
    now = now if wanted.as_of is None and config.past > 0 else None
    depth = max(config.candidates, offset + limit)
    found = {name: _find(view, name, query, vector, depth, gate) for name in names}
    if fusion == BY_RANK:
        results = _by_rank(view, found, config, now)
    else:
        results = _by_score(view, query, vector, found, config, now, offset + limit)
    return results[offset : offset + limit]


def best_chunk(
    view: LongTermView, query: PreparedQuery, vector: Any, row: int, config: FusionConfig
) -> int | None:
    """Which chunk of a memory says best what is asked for; None where it has none, or none of them
    says anything of it.
    """
    chunks = view.rows.chunks_of(row)
    scores = {TEXT: view.word_scores(query.words, chunks)}
    if vector is not None and config.vector > 0:
        scores[VECTOR] = view.near_scores(vector, chunks)
    legs = []
    for name, its in scores.items():
        ranked = sorted(((r, s) for r, s in its.items() if s > 0), key=lambda one: -one[1])
        if ranked:
            legs.append(Leg(name, ranked, {r: s for r, s in its.items() if s <= 0}))
    fused = weighted(legs, _shares(legs, config))
    return fused[0].what if fused else None


def _find(
    view: LongTermView, name: str, query: PreparedQuery, vector: Any, depth: int, gate: Gate
) -> Found:
    if name == VECTOR:
        return view.find_near(vector, depth, gate)
    return view.find_words(query.words, depth, gate, name)


def _by_rank(
    view: LongTermView, found: dict[str, Found], config: FusionConfig, now: int | None
) -> list[Result]:
    """Of each memory the part counts that the leg with the most weight found."""
    weights = config.weights()
    parts: dict[int, int] = {}
    for name in sorted(found, key=weights.__getitem__):
        parts.update(zip(found[name].rows, found[name].parts))
    legs = [Leg(name, list(zip(its.rows, its.scores))) for name, its in found.items()]
    past = _past(view, {row: row for row in parts}, now)
    fused = reciprocal(legs, k=config.rrf_k, past=past, loss=config.past)
    return [Result(one.what, parts[one.what], one) for one in fused]


def _by_score(
    view: LongTermView,
    query: PreparedQuery,
    vector: Any,
    found: dict[str, Found],
    config: FusionConfig,
    now: int | None,
    limit: int,
) -> list[Result]:
    memory_of = {part: row for its in found.values() for part, row in zip(its.parts, its.rows)}
    everything = sorted(memory_of)
    legs = []
    for name, its in found.items():
        missing = sorted(memory_of.keys() - its.parts)
        if name == VECTOR:
            others = view.near_scores(vector, missing)
        else:
            others = view.word_scores(query.words, missing, name, its)
        legs.append(Leg(name, list(zip(its.parts, its.scores)), others))
    boosted = set()
    if query.speaker is not None and everything:
        spoken = view.rows.spoken_by([memory_of[part] for part in everything], query.speaker)
        boosted = {part for part, its in zip(everything, spoken.tolist()) if its}
    legs = [leg for leg in legs if leg.ranked]
    fused = weighted(
        legs,
        _shares(legs, config),
        boosted=boosted,
        boost=config.speaker,
        past=_past(view, memory_of, now),
        loss=config.past,
        limit=limit if len(set(memory_of.values())) == len(everything) else None,
    )
    best: dict[int, Result] = {}
    for one in fused:
        row = memory_of[one.what]
        if row not in best:
            best[row] = Result(row, one.what, one)
    return list(best.values())


def _past(view: LongTermView, memory_of: dict[int, int], now: int | None) -> dict[int, list[int]]:
    """Parts of memories that are not valid ``now``, each with those that hold in its place: facts
    of the same subject, in the same namespace.
    """
    if now is None or not memory_of:
        return {}
    rows = list(memory_of.values())
    valid = view.rows.valid_at(rows, now).tolist()
    if all(valid):
        return {}
    held: dict[tuple[int, str], list[int]] = {}
    subjects: dict[int, list[tuple[int, str]]] = {}
    codes = [view.rows.column(name)[rows].tolist() for name in ("namespace", "tags")]
    for part, its_valid, namespace, tags in zip(memory_of, valid, *codes):
        about = [(namespace, tag) for tag in view.rows.tags.values[tags] if _is_subject(tag)]
        if its_valid:
            for each in about:
                held.setdefault(each, []).append(part)
        else:
            subjects[part] = about
    return {
        part: [v for each in about for v in held.get(each, ())] for part, about in subjects.items()
    }


def _is_subject(tag: str) -> bool:
    return tag.startswith(f"{SUBJECT_TAG}:")


def _shares(legs: list[Leg[int]], config: FusionConfig) -> dict[str, float]:
    """What the legs that found something count for, together 1, so that a score means the same
    whatever the strategy is.
    """
    weights = config.weights()
    total = sum(weights[leg.name] for leg in legs) or 1.0
    return {leg.name: weights[leg.name] / total for leg in legs}
