"""How what several searches found becomes one list. Pure, no I/O.

A *leg* is one search: its candidates, ranked by itself, and what it says of the candidates of the
other legs. ``weighted`` adds scores, each leg's stretched to 0..1 over all candidates (measured
better, the default), and shows what one leg has singled out even where the others speak against it;
``reciprocal`` adds ranks and looks at no score.

Every result tells which legs found it at which rank (1 is best), and the arithmetic of its score.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import accumulate
from typing import Final, Generic, TypeVar

import msgspec

from neverforget.storage.errors import InvalidArgument

TEXT: Final = "text"
CONTEXT: Final = "context"
VECTOR: Final = "vector"
LEGS: Final = (TEXT, CONTEXT, VECTOR)

BY_SCORE, BY_RANK = FUSIONS = ("weighted", "rrf")

SHOWN: Final = 10  # places, in which the best match of each leg is found if the leg is sure of it
_NEARLY: Final = 0.8  # of what is not valid now: what matches so well comes before it
_SURE: Final = 0.6  # it is if no more than so many candidates get more of its score, as 0..1

K = TypeVar("K", bound=int | str)


class FusionConfig(msgspec.Struct, frozen=True, kw_only=True):
    """Measured on LoCoMo (``bench/bench_locomo.py``).

    ``text``, ``context``, ``vector``: what a leg counts for. ``speaker``: added, under
    ``weighted``, to a memory that was spoken by the one person whom the query names; from 0.1 to
    0.3 it makes little difference. ``past``: what part of its score a memory loses that is not
    valid now, so that of two that say much the same the one comes first that holds. ``candidates``:
    how many each leg contributes; more than 100 change nothing, because every candidate is scored
    by every leg. ``rrf_k``: how little the first ranks of ``reciprocal`` stand out.
    """

    text: float = 0.2
    context: float = 0.2
    vector: float = 0.6
    speaker: float = 0.15
    past: float = 0.5
    candidates: int = 100
    rrf_k: int = 60

    def __post_init__(self) -> None:
        for name in (*LEGS, "speaker"):
            value = getattr(self, name)
            if not 0 <= value < float("inf"):
                raise InvalidArgument(f"{name}={value!r}: a weight is a number from 0 on")
        if not 0 <= self.past <= 1:
            raise InvalidArgument(f"past={self.past!r}: a number from 0 to 1")
        for name in ("candidates", "rrf_k"):
            if getattr(self, name) < 1:
                raise InvalidArgument(f"{name}={getattr(self, name)!r}: a whole number from 1 on")

    def weights(self) -> dict[str, float]:
        return {TEXT: self.text, CONTEXT: self.context, VECTOR: self.vector}


class Leg(msgspec.Struct, Generic[K], frozen=True):
    """``ranked``: (what, score) as the search found it, best first, nothing twice. ``others``: the
    scores it gives to what only other legs found; what is in neither has no score here.
    """

    name: str
    ranked: Sequence[tuple[K, float]]
    others: Mapping[K, float] = {}


class Share(msgspec.Struct, frozen=True):
    """What one leg adds to a result. ``rank`` None: it did not find it, only scored it. ``value``:
    the score between ``low`` and ``high`` as 0..1, or 1 / (k + rank).
    """

    leg: str
    rank: int | None
    score: float | None
    value: float
    weight: float
    low: float = 0.0
    high: float = 0.0

    @property
    def points(self) -> float:
        return self.weight * self.value


class Fused(msgspec.Struct, Generic[K], frozen=True):
    """``score`` is the sum of the shares' points, of ``boost``, of ``past``, and of ``lift``, by
    which it was raised to stand among the first ``SHOWN``. ``past``: below 0 for what is not valid
    now; above it for what holds in the place of something that matches better.
    """

    what: K
    score: float
    shares: tuple[Share, ...]
    boost: float = 0.0
    lift: float = 0.0
    rrf_k: int | None = None
    past: float = 0.0

    @property
    def sources(self) -> dict[str, int]:
        """Which legs found it, and at which rank."""
        return {share.leg: share.rank for share in self.shares if share.rank is not None}

    def explain(self) -> str:
        """The arithmetic, a line a leg, the sum last."""
        lines: list[str] = [self._line(share) for share in self.shares]
        if self.boost:
            lines.append(f"speaker: +{self.boost:.9f}")
        if self.past:
            why = "not valid now" if self.past < 0 else "holds in the place of another"
            lines.append(f"{why}: {self.past:+.9f}")
        if self.lift:
            lines.append(f"best match of a search, raised to the first {SHOWN}: +{self.lift:.9f}")
        return "\n".join([*lines, f"score = {self.score:.9f}"])

    def _line(self, share: Share) -> str:
        where = "not found" if share.rank is None else f"rank {share.rank}"
        times = f"{share.weight:g} * {share.value:.9f} = {share.points:.9f}"
        if self.rrf_k is not None:
            return f"{share.leg}: {where}, {share.weight:g} / ({self.rrf_k} + {share.rank}) = " + (
                f"{share.points:.9f}"
            )
        if share.score is None:
            return f"{share.leg}: no score, {times}"
        span = f"of {share.low:.6f}..{share.high:.6f}"
        return f"{share.leg}: {where}, score {share.score:.6f} {span}, {times}"


def weighted(
    legs: Iterable[Leg[K]],
    weights: Mapping[str, float],
    *,
    boosted: Collection[K] = (),
    boost: float = 0.0,
    past: Mapping[K, Collection[K]] | None = None,
    loss: float = 0.0,
    limit: int | None = None,
) -> list[Fused[K]]:
    """Best first, equal scores by ascending ``what``. Each leg's scores are stretched so that its
    worst candidate has 0 and its best 1 (all equal: 1); without a score it is 0. The best match of
    a leg that is sure of it is among the first ``SHOWN``. ``past``: what loses the part ``loss``
    of its score, and more where others that match nearly as well would come behind it still; and
    what holds in its place, which comes before it. ``limit``: so many are wanted, the arithmetic of
    the others is not kept.
    """
    legs = list(legs)
    totals: dict[K, float] = dict.fromkeys((what for leg in legs for what, _ in leg.ranked), 0.0)
    stretched = [_Stretched(leg, weights[leg.name], totals) for leg in legs]
    for one in stretched:
        for what, score in one.scores.items():
            totals[what] += one.weight * one.value(score)
    for what in totals.keys() & set(boosted):
        totals[what] += boost
    gone = {what: its for what, its in (past or {}).items() if what in totals}
    left = _left(gone, totals, stretched, loss) if gone and loss else {}
    turned = _turned(gone, left, totals)
    points = {what: score - totals[what] for what, score in turned.items()}
    totals |= turned
    order = sorted(totals, key=lambda what: (-totals[what], what in left, what))
    scores = totals
    if raised := _raised(order, totals, stretched):
        scores = totals | raised
        order.sort(key=lambda what: (-scores[what], what not in raised, what in left, what))
    return [
        Fused(
            what,
            scores[what],
            tuple(one.share(what) for one in stretched),
            boost if what in boosted else 0.0,
            scores[what] - totals[what],
            past=points.get(what, 0.0),
        )
        for what in order[:limit]
    ]


def _left(
    past: Collection[K],
    totals: Mapping[K, float],
    legs: Sequence[_Stretched[K]],
    loss: float,
) -> dict[K, float]:
    """The scores that are left to each of ``past``. How well something matches is judged by its
    scores as they are: of two candidates the worse one has 0 when they are stretched, however near
    it is.
    """
    valid = sorted(
        (sum(one.strength(what) for one in legs), what) for what in totals if what not in past
    )
    strengths = [strength for strength, _ in valid]
    least = [*accumulate((totals[what] for _, what in reversed(valid)), min)][::-1]
    left: dict[K, float] = {}
    for what in past:
        at = bisect_left(strengths, _NEARLY * sum(one.strength(what) for one in legs))
        left[what] = min([totals[what] * (1 - loss), *least[at : at + 1]])
    return left


def _turned(
    past: Mapping[K, Collection[K]], left: Mapping[K, float], totals: Mapping[K, float]
) -> dict[K, float]:
    """New scores: what is ``left`` of ``past``, and no less for what holds in its place."""
    turned = dict(left)
    for what, score in left.items():
        for other in past[what]:
            if other in totals and other not in past:
                turned[other] = max(turned.get(other, totals[other]), score)
    return turned


def _raised(
    order: Sequence[K], totals: Mapping[K, float], legs: Iterable[_Stretched[K]]
) -> dict[K, float]:
    """New scores of best matches that would stand behind the first ``SHOWN``: as much as the best
    of those has who then stand behind.
    """
    firsts = {what for one in legs for what in one.sure_of()}
    if firsts.isdisjoint(order[SHOWN:]):
        return {}
    assert len(firsts) < SHOWN, "there are fewer legs than places"
    others = [what for what in order if what not in firsts]
    behind = totals[others[SHOWN - len(firsts)]]
    return {what: behind for what in firsts if totals[what] <= behind}


class _Stretched(Generic[K]):
    """The scores of one leg, and where they lie between its lowest and its highest."""

    def __init__(self, leg: Leg[K], weight: float, candidates: Collection[K]) -> None:
        self.name, self.weight = leg.name, weight
        self.ranks = {what: rank for rank, (what, _) in enumerate(leg.ranked, 1)}
        assert len(self.ranks) == len(leg.ranked), "a leg ranks each candidate once"
        self.scores = {what: s for what, s in leg.others.items() if what in candidates}
        self.scores.update(leg.ranked)
        self.low = min(self.scores.values(), default=0.0)
        self.high = max(self.scores.values(), default=0.0)

    def sure_of(self) -> list[K]:
        """Its best match, if few others come near it. Measured: where many do, the other legs know
        better which of them is meant.
        """
        near = self.low + _SURE * (self.high - self.low)
        few = 0 < sum(score > near for score in self.scores.values()) <= SHOWN
        return list(self.ranks)[:1] if few else []

    def value(self, score: float) -> float:
        span = self.high - self.low
        return (score - self.low) / span if span > 0 else 1.0

    def strength(self, what: K) -> float:
        """Its part of the best score there is, times the weight."""
        score = self.scores.get(what, 0.0)
        return self.weight * score / self.high if score > 0 else 0.0

    def share(self, what: K) -> Share:
        score = self.scores.get(what)
        value = 0.0 if score is None else self.value(score)
        rank = self.ranks.get(what)
        return Share(self.name, rank, score, value, self.weight, self.low, self.high)


def reciprocal(
    legs: Iterable[Leg[K]],
    weights: Mapping[str, float] | None = None,
    *,
    k: int = 60,
    past: Mapping[K, Collection[K]] | None = None,
    loss: float = 0.0,
) -> list[Fused[K]]:
    """Reciprocal rank fusion: the sum of weight / (k + rank) over the legs that found it. Best
    first, equal scores by ascending ``what``. Without ``weights`` each leg counts 1. ``past``: what
    loses the part ``loss`` of its score, and what holds in its place.
    """
    shares: dict[K, list[Share]] = {}
    for leg in legs:
        weight = 1.0 if weights is None else weights[leg.name]
        for rank, (what, score) in enumerate(leg.ranked, 1):
            its = shares.setdefault(what, [])
            its.append(Share(leg.name, rank, score, 1 / (k + rank), weight))
    totals = {what: sum(share.points for share in its) for what, its in shares.items()}
    gone = {what: its for what, its in (past or {}).items() if what in totals and loss}
    left = {what: totals[what] * (1 - loss) for what in gone}
    turned = _turned(gone, left, totals)
    found = []
    for what, its in shares.items():
        score = turned.get(what, totals[what])
        found.append(Fused(what, score, tuple(its), rrf_k=k, past=score - totals[what]))
    return sorted(found, key=lambda one: (-one.score, one.what in left, one.what))
