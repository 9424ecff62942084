"""One search over a view of the long-term tier: its legs, independently, and what they make
together. Reads the view and nothing else; no model is asked on the way.

Each leg finds its own candidates; what one of them found, all of them score; the fusion adds up.
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

Strategy = Literal["hybrid", "text", "vector"]
STRATEGIES: dict[str, tuple[str, ...]] = {
    "hybrid": (TEXT, CONTEXT, VECTOR),
    "text": (TEXT, CONTEXT),
    "vector": (VECTOR,),
}


QUERY_CHARACTERS_MAX = 32_768  # embedded in windows, and somebody waits for each of them


class Result(msgspec.Struct, frozen=True):
    """``row`` of the memory; ``part``: the row, its own or a chunk's, where the leg that counts
    most found it. ``fused`` has score, sources and arithmetic.
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
) -> list[Result]:
    """The memories at ``offset``..``offset + limit``, best first. ``vector``: of
    ``query.meaning``, None where there is no embedder: then the words alone are searched.

    Raises InvalidArgument.
    """
    config = config or FusionConfig()
    check_search(strategy, fusion, limit, offset)
    names = [name for name in STRATEGIES[strategy] if getattr(config, name) > 0]
    if vector is None:
        names = [name for name in names if name != VECTOR]
    gate = view.gate(wanted)
    depth = max(config.candidates, offset + limit)
    found = {name: _find(view, name, query, vector, depth, gate) for name in names}
    fused = _fuse(view, query, vector, found, fusion, config, offset + limit)
    parts = _parts(found, config)
    return [Result(one.what, parts[one.what], one) for one in fused[offset : offset + limit]]


def _find(
    view: LongTermView, name: str, query: PreparedQuery, vector: Any, depth: int, gate: Gate
) -> Found:
    if name == VECTOR:
        return view.find_near(vector, depth, gate)
    return view.find_words(query.words, depth, gate, name)


def _fuse(
    view: LongTermView,
    query: PreparedQuery,
    vector: Any,
    found: dict[str, Found],
    fusion: str,
    config: FusionConfig,
    limit: int,
) -> list[Fused[int]]:
    weights = config.weights()
    everything = sorted({row for one in found.values() for row in one.rows})
    legs = []
    for name, its in found.items():
        others: dict[int, float] = {}
        if fusion != BY_RANK:
            missing = sorted(set(everything).difference(its.rows))
            if name == VECTOR:
                others = view.near_scores(vector, missing)
            else:
                others = view.word_scores(query.words, missing, name, its)
        legs.append(Leg(name, list(zip(its.rows, its.scores)), others))
    if fusion == BY_RANK:
        return reciprocal(legs, k=config.rrf_k)
    boosted = set()
    if query.speaker is not None and everything:
        spoken = view.rows.spoken_by(everything, query.speaker)
        boosted = {row for row, its in zip(everything, spoken.tolist()) if its}
    # Legs that found nothing count for nothing, and one alone counts whole, so that a score means
    # the same whatever the strategy is.
    legs = [leg for leg in legs if leg.ranked]
    total = sum(weights[leg.name] for leg in legs) or 1.0
    shares = {leg.name: weights[leg.name] / total for leg in legs}
    return weighted(legs, shares, boosted=boosted, boost=config.speaker, limit=limit)


def _parts(found: dict[str, Found], config: FusionConfig) -> dict[int, int]:
    weights = config.weights()
    parts: dict[int, int] = {}
    for name in sorted(found, key=weights.__getitem__):
        parts.update(zip(found[name].rows, found[name].parts))
    return parts
