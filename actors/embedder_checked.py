"""Any embedder, held to its contract: what comes out of here may be stored.

Every row is float32, finite, of length 1 and of the stated dimension, or it is not there and there
is a reason: nothing is made up. Two kinds of failure are told apart, because one is waited out and
the other is not:

* **The embedder fails**: it fails with a harmless text as well. The texts that are left wait, as
  good as before, and may be brought again.
* **A text fails**: alone it fails, and right after it the embedder answers for a harmless text. It
  is found by halving the batch; the others get their vectors. Where it got no answer at all
  (time-outs, refused connections) it waits: that may have been chance.

A reason names the kind of the fault and never quotes: texts that are erased must not live on in it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from neverforget.actors.bounded_calls import BoundedCalls
from neverforget.actors.embedder_contract import Embedder, NotEmbedded, Vectors, checked_rows
from neverforget.storage.errors import InvalidArgument, Unavailable

DEADLINE_S = 60.0  # for one call; above what the embedders of this package allow themselves
BATCH_TEXTS_MAX = 32
_LATER = "what waits for it is embedded when it answers again"
HARMLESS = "neverforget"
SAID_CHARACTERS_MAX = 300  # of what a foreign embedder says about the harmless text

DIMENSION_MAX = 65_536
MODEL_ID_CHARACTERS_MAX = 512


class Embedded(NamedTuple):
    """``vectors[k]`` belongs to text ``owners[k]``; owners ascend, and a long text owns several.

    ``failed`` and ``waiting`` give reasons by the index of a text: the former cannot be embedded,
    the latter could not now. Such a text has only the vectors of those of its windows that went.
    """

    vectors: Vectors
    owners: NDArray[np.int64]
    failed: dict[int, str]
    waiting: dict[int, str]


@dataclass
class _Found:
    """Rows and reasons by the number of their window. Without ``wait`` an embedder that gives no
    answer is an error at once.
    """

    wait: bool = True
    rows: dict[int, Vectors] = field(default_factory=dict)
    failed: dict[int, str] = field(default_factory=dict)
    waiting: dict[int, str] = field(default_factory=dict)


class CheckedEmbedder:
    """Itself an embedder, picklable if the one inside is. Used by several threads at once; the one
    inside only if it says that it is thread-safe.
    """

    thread_safe = True

    def __init__(self, embedder: Embedder, *, deadline_s: float = DEADLINE_S) -> None:
        model_id = embedder.model_id
        if not isinstance(model_id, str) or not 0 < len(model_id) <= MODEL_ID_CHARACTERS_MAX:
            raise InvalidArgument(
                f"an embedder's model_id is text of 1 to {MODEL_ID_CHARACTERS_MAX} characters"
            )
        self.inner, self.model_id, self.deadline_s = embedder, model_id, deadline_s
        self.batch_texts_max = max(1, int(getattr(embedder, "batch_texts_max", BATCH_TEXTS_MAX)))
        self._dimension: int | None = None
        self._closed = False
        safe = getattr(embedder, "thread_safe", False) is True
        self._bounded = BoundedCalls(
            f"the embedder {model_id}", deadline_s, _LATER, one_at_a_time=not safe
        )

    def __repr__(self) -> str:
        return f"CheckedEmbedder({self.inner!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuilt, (self.inner, self.deadline_s)

    @property
    def dimension(self) -> int:
        """Raises Unavailable where it has to be asked for and nobody answers."""
        if self._dimension is not None:
            return self._dimension
        dimension = self._bounded(lambda: self.inner.dimension)
        if type(dimension) is not int or not 1 <= dimension <= DIMENSION_MAX:
            raise InvalidArgument(
                f"an embedder's dimension is a whole number from 1 to {DIMENSION_MAX:,}, not "
                f"{dimension!r}"
            )
        self._dimension = dimension
        return dimension

    def windows(self, text: str) -> list[str]:
        """The parts in which ``text`` is embedded: one or more, whatever the embedder says."""
        cut = getattr(self.inner, "windows", None)
        return [text] if cut is None else list(cut(text)) or [text]

    def embed_all(self, texts: Sequence[str]) -> Embedded:
        """Vectors of all windows of ``texts``. Raises Unavailable if the embedder fails with all of
        them; if it fails on the way, the rest is ``waiting``.
        """
        windows: list[str] = []
        owners: list[int] = []
        failed: dict[int, str] = {}
        for owner, text in enumerate(texts):
            try:
                parts = self.windows(text)
            except Exception as error:
                self._probe()
                failed[owner] = f"cannot be cut into windows ({_kind(error)})"
                continue
            windows += parts
            owners += [owner] * len(parts)
        found = _Found()
        try:
            self._isolate_all(windows, found)
        except Unavailable as error:
            if not (found.rows or found.failed or failed):
                raise
            for number in range(len(windows)):
                if number not in found.rows and number not in found.failed:
                    found.waiting.setdefault(number, str(error))
        for number, reason in sorted(found.failed.items()):
            failed.setdefault(owners[number], reason)
        waiting: dict[int, str] = {}
        for number, reason in sorted(found.waiting.items()):
            if owners[number] not in failed:
                waiting.setdefault(owners[number], reason)
        went = sorted(found.rows)
        vectors = [found.rows[number] for number in went]
        return Embedded(
            np.stack(vectors) if vectors else np.empty((0, self.dimension), np.float32),
            np.array([owners[number] for number in went], np.int64),
            failed,
            waiting,
        )

    def embed(self, texts: Sequence[str]) -> Vectors:
        """One row a text, each within the model's window, all or an error: Unavailable, or
        InvalidArgument for a text that cannot be embedded.
        """
        found = _Found(wait=False)
        self._isolate_all(texts, found)
        for number, reason in sorted(found.failed.items()):
            raise InvalidArgument(f"text {number} cannot be embedded: {reason}")
        if not texts:
            return np.empty((0, self.dimension), np.float32)
        return np.stack([found.rows[number] for number in range(len(texts))])

    def query(self, text: str) -> Vectors:
        """One vector, ``(dimension,)``, for what is searched: of a long text the mean direction of
        its windows. Raises as ``embed`` does.
        """
        rows = self.embed(self.windows(text))
        mean = rows.mean(axis=0, dtype=np.float64)
        length = float(np.linalg.norm(mean))
        # Windows that cancel each other out leave no direction: then the first one speaks.
        return np.asarray(mean / length, np.float32) if length > 1e-6 else np.asarray(rows[0])

    def close(self) -> None:
        """Close the embedder inside, where it can be closed. It is asked nothing more."""
        self._closed = True
        close = getattr(self.inner, "close", None)
        if close is not None:
            close()

    # ---- one batch -------------------------------------------------------------------------------

    def _isolate_all(self, texts: Sequence[str], found: _Found) -> None:
        for start in range(0, len(texts), self.batch_texts_max):
            self._isolate(texts, range(start, len(texts))[: self.batch_texts_max], found)

    def _isolate(self, texts: Sequence[str], numbers: range, found: _Found) -> None:
        """Put a row or a reason into ``found`` for each of ``numbers``. Raises Unavailable when the
        embedder fails.
        """
        try:
            rows, faults = self._ask([texts[number] for number in numbers])
        except Unavailable as error:
            if not found.wait:
                raise
            self._halve(texts, numbers, found, found.waiting, str(error))
        except NotEmbedded as error:
            self._halve(texts, numbers, found, found.failed, str(error))
        except Exception as error:
            self._halve(texts, numbers, found, found.failed, _kind(error))
        else:
            if len(faults) == len(numbers):
                self._halve(texts, numbers, found, found.failed, faults[0])
                return
            for place, number in enumerate(numbers):
                if place not in faults:
                    found.rows[number] = rows[place]
                else:  # alone it may do better: a fault may lie in the company
                    self._isolate(texts, range(number, number + 1), found)

    def _halve(
        self,
        texts: Sequence[str],
        numbers: range,
        found: _Found,
        verdict: dict[int, str],
        reason: str,
    ) -> None:
        # Also before the verdict on a text: the embedder may have gone down in the meantime.
        self._probe()
        if len(numbers) == 1:
            verdict[numbers[0]] = reason
            return
        middle = len(numbers) // 2
        self._isolate(texts, numbers[:middle], found)
        self._isolate(texts, numbers[middle:], found)

    def _probe(self) -> None:
        """Raises Unavailable if the embedder fails with a harmless text too."""
        try:
            _rows, faults = self._ask([HARMLESS])
        except Unavailable:
            raise
        except NotEmbedded as error:
            raise self._fails(str(error), error) from error
        except Exception as error:
            raise self._fails(str(error)[:SAID_CHARACTERS_MAX], error) from error
        if faults:
            raise self._fails(faults[0])

    def _ask(self, texts: list[str]) -> tuple[Vectors, dict[int, str]]:
        if self._closed:
            raise self._fails("it was closed")
        try:
            answer = self._bounded(lambda: self.inner.embed(texts))
        except Unavailable:
            raise
        except (ConnectionError, TimeoutError) as error:
            raise self._fails(error.strerror or "cannot be reached", error) from error
        return checked_rows(answer, len(texts), self.dimension)

    def _fails(self, said: str, error: Exception | None = None) -> Unavailable:
        kind = "" if error is None or isinstance(error, NotEmbedded) else f" ({_kind(error)})"
        return Unavailable(
            f"the embedder {self.model_id} fails: {said}{kind}; {_LATER}",
            outcome="not_applied",
        )


def _rebuilt(embedder: Embedder, deadline_s: float) -> CheckedEmbedder:
    return CheckedEmbedder(embedder, deadline_s=deadline_s)


def _kind(error: Exception) -> str:
    return type(error).__name__
