"""What every embedder must keep to, and the check of one answer against it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

Vectors = NDArray[np.float32]

UNIT_TOLERANCE = 1e-6  # of a length that counts as 1
PEAK_MIN = 1e-12  # what is smaller throughout is rounding, not a direction


@runtime_checkable
class Embedder(Protocol):
    """Turns texts into vectors whose closeness is closeness of meaning.

    An embedder is picklable (it runs in another process) and may have these besides, which are
    looked up by name:

    * ``windows(text) -> list[str]``: the parts, overlapping, in which a text is embedded that is
      longer than the model reads. Without it a text is handed over whole, whatever its length.
    * ``batch_texts_max: int``: how many texts one call of ``embed`` may bring (default 32).
    * ``thread_safe: bool``: may ``embed`` run in several threads at once? (default False)
    * ``close()``.
    """

    @property
    def model_id(self) -> str:
        """Names the model; vectors under another name are never compared with its own."""
        ...

    @property
    def dimension(self) -> int:
        """Length of every vector, 1 to 65,536."""
        ...

    def embed(self, texts: Sequence[str], /) -> Any:
        """An array of ``(len(texts), dimension)``: row i belongs to text i, and does not depend on
        the other texts. An embedder that cannot be reached at all raises a ConnectionError or
        TimeoutError; every other error may be the fault of one of the texts.
        """
        ...


class NotEmbedded(Exception):
    """The embedder is there and gave no usable vectors for these texts; one of them may be why. The
    message holds nothing of the texts.
    """


def checked_rows(answer: Any, count: int, dimension: int) -> tuple[Vectors, dict[int, str]]:
    """``answer`` as float32 rows of length 1, and the faults of single rows by their index.

    Raises NotEmbedded when the answer as a whole is not ``count`` rows of ``dimension`` numbers. A
    row that is faulty is left as it is: nothing is made up in its place.
    """
    try:
        wide = np.asarray(answer)
    except ValueError:
        raise NotEmbedded("rows of different lengths") from None
    if wide.dtype.kind not in "fiu":
        raise NotEmbedded(f"{wide.dtype} values instead of numbers")
    if wide.shape != (count, dimension):
        raise NotEmbedded(f"an array of {wide.shape}, not ({count}, {dimension})")
    values = wide.astype(np.float64)
    with np.errstate(invalid="ignore", divide="ignore"):
        peaks = np.abs(values).max(axis=1, keepdims=True)
        scaled = values / peaks  # so that squares neither overflow nor vanish
        lengths = np.linalg.norm(scaled, axis=1, keepdims=True)
        rows = (scaled / lengths).astype(np.float32)
        given = np.abs(peaks * lengths - 1).ravel() <= UNIT_TOLERANCE
    rows[given] = values[given]  # checked twice is checked once, to the last bit
    faults = {}
    for row, (peak,) in enumerate(peaks.tolist()):
        if not math.isfinite(peak):
            faults[row] = "a vector with values that are not finite"
        elif peak < PEAK_MIN:
            faults[row] = "a vector of zeros"
    return rows, faults
