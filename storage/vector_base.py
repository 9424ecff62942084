"""The large, immutable part of a vector index: one FAISS index that nobody changes.

Up to ``flat_max`` vectors it is IDMap2(Flat): exact. Beyond, IVF with 4 sqrt(n) lists of 8-bit
codes (IVF,SQ8) and a direct map from id to place: a quarter of the memory, 1 % of the work, recall
at 10 above 0.95. Change means a changed copy (``folded``), made off to the side while the old one
goes on answering.

Vectors have length 1, so the inner product is the cosine. Ids are int64 and unique.

What takes long (``folded``, ``build``, ``save``) calls ``go_on`` every few tenths of a second. That
may end it by raising; nothing is left behind then but a temporary file.

A base that was loaded ``mapped`` is views of a file. FAISS aborts the process when such an index is
added to, and crashes when something is removed from it or from its clone; here it is copied into
memory of its own before anything of it is changed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Literal

import numpy as np

from neverforget.storage.errors import Corrupt, InvalidArgument
from neverforget.storage.filesystem import FileSystem
from neverforget.storage.sealed_file import Seal, Sink, check_open_file, write_sealed
from neverforget.storage.vector_math import BITS_PER_ID_MAX, Array, bits_of, faiss, one_thread
from neverforget.storage.vector_training import centres

GoOn = Callable[[], object]
Batch = tuple[Array, Array]  # ids int64 (n,), unit vectors float32 (n, dimension)

_PIECE_BYTES = 1 << 20
_COPY_ROWS = 8_192
_ADDED_ROWS = 2_048  # in one call: a third of a second, of a million vectors
_TRAINING_ROWS_PER_LIST = 50  # 39 is the least FAISS wants; more does not raise recall
_RANGE_MARGIN = 0.1  # of the range of each component, added at both ends
_GROWN = 4  # retrained when there are so many times the vectors that it was trained for


def nothing() -> None:
    pass


@dataclass(frozen=True)
class VectorBounds:
    """``flat_max``: vectors searched exactly, one by one; FAISS needs 24,336 to train an IVF well.
    ``overlay_max``: recent vectors that a snapshot searches beside the base. ``exact_max``: a
    filter that leaves so few is scanned exactly. ``probes``: lists looked into for one query.
    """

    flat_max: int = 25_000
    overlay_max: int = 4_096
    exact_max: int = 2_000
    probes: int = 64


class VectorBase:
    """See the module. All methods may be called from any thread at any time."""

    def __init__(self, index: Any, dimension: int, *, mapped: bool = False) -> None:
        self._index = index
        self.dimension = dimension
        self.mapped = mapped
        self.kind: Literal["flat", "ivf"] = "ivf" if _is_ivf(index) else "flat"
        self.ids = np.sort(_ids_of(index))  # ascending; 8 bytes a vector
        if len(self.ids) and (self.ids[1:] == self.ids[:-1]).any():
            raise InvalidArgument("an id was given to two vectors")

    def __len__(self) -> int:
        return len(self.ids)

    @cached_property
    def bits(self) -> tuple[Array, Array]:
        """Its ids once more: what lies densely as ``IdBits.bits``, and the others, ascending."""
        first, last = self.ids.searchsorted([0, BITS_PER_ID_MAX * len(self.ids)])
        return bits_of(self.ids[first:last]), np.delete(self.ids, slice(first, last))

    @property
    def lists(self) -> int:
        return int(self._index.nlist) if self.kind == "ivf" else 1

    # ---- reading ---------------------------------------------------------------------------------

    def search(self, query: Array, k: int, selector: Any, probes: int | None) -> Batch:
        """The ``k`` nearest (ids, scores), best first, maybe fewer. ``probes`` None: every list,
        which makes it exact up to the 8-bit codes.
        """
        k = min(k, len(self.ids))
        if k == 0:
            return np.empty(0, np.int64), np.empty(0, np.float32)
        # A search writes into its parameters while it runs: they are never shared.
        if self.kind == "ivf":
            wanted = self.lists if probes is None else min(probes, self.lists)
            parameters = faiss.SearchParametersIVF(sel=selector, nprobe=wanted)
        else:
            parameters = faiss.SearchParameters(sel=selector)
        with one_thread():
            scores, ids = self._index.search(query.reshape(1, -1), k, params=parameters)
        found = ids[0] >= 0
        return ids[0][found], scores[0][found]

    def scores(self, query: Array, ids: Array) -> Array:
        """The score of every one of ``ids``, all of which must be here."""
        scores: Array = self.vectors(ids) @ query
        return scores

    def vectors(self, ids: Array) -> Array:
        """The vectors of ``ids``, all of which must be here; of an IVF what the codes say."""
        with one_thread():
            found: Array = self._index.reconstruct_batch(np.ascontiguousarray(ids, np.int64))
        return found

    # ---- making another --------------------------------------------------------------------------

    def folded(
        self, removed: Array, added: Batch, bounds: VectorBounds, go_on: GoOn = nothing
    ) -> VectorBase:
        """A base without ``removed`` and with ``added``. Long: 0.3 s for a million vectors, a
        minute when it has to be trained anew. Needs the memory of both.
        """
        count = len(self.ids) - len(removed) + len(added[0])
        if self.kind == "ivf" and self.serves(count, bounds):
            with one_thread():
                index = faiss.clone_index(self._owned())
                if len(removed):
                    index.remove_ids(np.ascontiguousarray(removed, np.int64))
            _add(index, [added], go_on)
            return VectorBase(index, self.dimension)
        kept = np.setdiff1d(self.ids, removed, assume_unique=True)
        batches = partial(self._batches, kept, added)
        always_ivf = self.kind == "ivf"
        return VectorBase.build(self.dimension, batches, count, bounds, always_ivf, go_on)

    def _batches(self, kept: Array, added: Batch) -> Iterator[Batch]:
        for at in range(0, len(kept), _COPY_ROWS):
            ids = kept[at : at + _COPY_ROWS]
            yield ids, self.vectors(ids)
        yield added

    def serves(self, count: int, bounds: VectorBounds) -> bool:
        """Whether so many vectors need no lists that are trained anew."""
        if self.kind == "flat":
            return count <= bounds.flat_max
        return count < _GROWN * (self.lists / 4) ** 2

    def _owned(self) -> Any:
        """The FAISS index in memory of its own: a mapped one must never be cloned and changed."""
        if not self.mapped:
            return self._index
        writer = faiss.VectorIOWriter()
        faiss.write_index(self._index, writer)
        reader = faiss.VectorIOReader()
        reader.data.swap(writer.data)
        return faiss.read_index(reader)

    @staticmethod
    def empty(dimension: int) -> VectorBase:
        return VectorBase(_flat(dimension), dimension)

    @staticmethod
    def build(
        dimension: int,
        batches: Callable[[], Iterable[Batch]],
        count: int,
        bounds: VectorBounds | None = None,
        always_ivf: bool = False,
        go_on: GoOn = nothing,
    ) -> VectorBase:
        """A base of all batches; one of the bounded size is in memory at a time. ``count``: how
        many vectors that will be. An IVF asks for the batches twice, to train and to add.
        """
        bounds = bounds or VectorBounds()
        if count <= bounds.flat_max and not always_ivf:
            index = _flat(dimension)
        else:
            index = _trained(dimension, batches(), count, go_on)
        _add(index, batches(), go_on)
        return VectorBase(index, dimension)

    # ---- files -----------------------------------------------------------------------------------

    def save(self, fs: FileSystem, path: Path, go_on: GoOn = nothing) -> Seal:
        """Write it to ``path``; it survives power loss when this returns. Raises OutOfSpace,
        OSError; what stood at ``path`` stands there then.
        """

        def produce(sink: Sink) -> None:
            def write(piece: bytes) -> None:
                go_on()
                sink.write(piece)

            faiss.write_index(self._index, faiss.PyCallbackIOWriter(write, _PIECE_BYTES))

        return write_sealed(fs, path, produce)

    @staticmethod
    def load(
        fs: FileSystem, path: Path, seal: Seal, dimension: int, *, mapped: bool = False
    ) -> VectorBase:
        """Open a saved base. Corrupt when it is not the sealed file: build it again.

        ``mapped``: from the local disk, lazily and without reading it, so only its size and header
        are checked; whoever does that checks the seal in the background.
        """
        try:
            file = fs.open(path, read_only=True)
        except FileNotFoundError as error:
            raise Corrupt(
                f"{path} is missing; it is rebuilt from the log", file=str(path)
            ) from error
        with closing(file):
            check_open_file(file, seal, "size" if mapped else "crc")
            at = 0

            def read(size: int) -> bytes:
                nonlocal at
                piece = file.pread(size, at)
                at += len(piece)
                return piece

            try:
                if mapped:
                    index = faiss.read_index(str(path), faiss.IO_FLAG_MMAP_IFC)
                else:
                    index = faiss.read_index(faiss.PyCallbackIOReader(read, _PIECE_BYTES))
            except (RuntimeError, MemoryError) as error:
                raise Corrupt(
                    f"{path} is no index that FAISS can read: {error}", file=str(path)
                ) from error
        if index.d != dimension or not isinstance(
            index, faiss.IndexIDMap2 | faiss.IndexIVFScalarQuantizer
        ):
            raise Corrupt(
                f"{path} holds a {type(index).__name__} of {index.d} dimensions, not one of "
                f"{dimension}; it is rebuilt from the log",
                file=str(path),
            )
        return VectorBase(index, dimension, mapped=mapped)


def _flat(dimension: int) -> Any:
    return faiss.IndexIDMap2(faiss.IndexFlatIP(dimension))


def _add(index: Any, batches: Iterable[Batch], go_on: GoOn) -> None:
    for ids, vectors in batches:
        for at in range(0, len(ids), _ADDED_ROWS):
            go_on()
            some = slice(at, at + _ADDED_ROWS)
            with one_thread():
                index.add_with_ids(vectors[some], np.ascontiguousarray(ids[some], np.int64))


def _trained(dimension: int, batches: Iterable[Batch], count: int, go_on: GoOn) -> Any:
    """An empty IVF,SQ8 trained on an even sample of the batches."""
    wanted = max(1, int(4 * math.sqrt(count)))
    step = max(1.0, count / (_TRAINING_ROWS_PER_LIST * wanted))
    sample: list[Array] = []
    seen = 0
    for _, vectors in batches:
        go_on()
        first, last = math.ceil(seen / step), math.ceil((seen + len(vectors)) / step)
        rows = (np.arange(first, last) * step).astype(np.int64) - seen
        sample.append(vectors[np.clip(rows, 0, len(vectors) - 1)])
        seen += len(vectors)
    if not seen:
        return _flat(dimension)
    training = np.concatenate(sample)
    lists = min(wanted, len(training))
    index = faiss.index_factory(dimension, f"IVF{lists},SQ8", faiss.METRIC_INNER_PRODUCT)
    # Codes of the vectors themselves, over a range wider than the sample's: codes of what is left
    # after the list's centre were cut off for every vector that lay farther out than the sample,
    # such as those of a topic that came later, or of a sample with few vectors a list.
    index.by_residual = False
    index.sq.rangestat = faiss.ScalarQuantizer.RS_minmax
    index.sq.rangestat_arg = _RANGE_MARGIN
    index.quantizer.add(centres(training, lists, go_on))
    go_on()
    with one_thread():
        index.train(training)  # of the codes' range alone: the lists have their centres
    index.set_direct_map_type(faiss.DirectMap.Hashtable)
    return index


def _is_ivf(index: Any) -> bool:
    return isinstance(index, faiss.IndexIVF)


def _ids_of(index: Any) -> Array:
    if not _is_ivf(index):
        ids: Array = faiss.vector_to_array(index.id_map)
        return ids
    inverted = index.invlists
    pieces = []
    for number in range(index.nlist):
        size = inverted.list_size(number)
        if size:
            pieces.append(faiss.rev_swig_ptr(inverted.get_ids(number), size).copy())
    return np.concatenate(pieces) if pieces else np.empty(0, np.int64)
