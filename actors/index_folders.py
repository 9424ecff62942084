"""Opening what is derived in a folder of the long-term store."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, closing
from pathlib import Path
from typing import NamedTuple

from neverforget.actors.embedding import Embedding
from neverforget.actors.embedding_pumps import EmbeddingPumps
from neverforget.actors.generation_storing import Storing
from neverforget.actors.longterm_spec import LongTermSpec
from neverforget.actors.open_indexes import OpenIndexes
from neverforget.actors.store_embedder import StoreEmbedder
from neverforget.storage.clock import Clock
from neverforget.storage.embedder_file import EmbedderFile
from neverforget.storage.filesystem import FileSystem
from neverforget.storage.longterm import LongTermRegion
from neverforget.storage.longterm_generations import Generations
from neverforget.storage.longterm_index import Waiting
from neverforget.storage.longterm_moment import Moment
from neverforget.storage.manifest import MANIFEST_FILE


class OnDisk(NamedTuple):
    """The newest generation: its number (0: none), when it was stored (0: not known), and the bytes
    of all derived files.
    """

    generation: int
    stored_us: int
    bytes: int


class IndexFolders:
    """Of one open region. ``owner_waits``: while it is held, the owner changes nothing. ``prepare``
    makes of memories what is embedded of them. ``wake``: the indexer has something to do. ``go_on``
    raises when the owner ends.
    """

    def __init__(
        self,
        spec: LongTermSpec,
        fs: FileSystem,
        clock: Clock,
        region: LongTermRegion,
        embedding: Embedding | None,
        owner_waits: Callable[[], AbstractContextManager[None]],
        prepare: Callable[[list[Waiting]], list[str]],
        wake: Callable[[], None],
        go_on: Callable[[], None],
    ) -> None:
        self.directory = Path(spec.directory)
        self._spec = spec
        self._fs = fs
        self._clock = clock
        self._region = region
        self._embedding = embedding
        self._owner_waits = owner_waits
        self._prepare = prepare
        self._wake = wake
        self._go_on = go_on

    def open(
        self,
        held: EmbedderFile,
        embedder: StoreEmbedder,
        go_on: Callable[[], None] = lambda: None,
    ) -> OpenIndexes:
        """As of this moment; the owner goes on meanwhile. What it writes must be noticed before the
        first view. Any thread. Raises as ``Generations.open``. ``go_on`` may end it by raising,
        as the owner's end does.
        """

        def both() -> None:
            self._go_on()
            go_on()

        with self._owner_waits():
            moment = Moment.of(self._region.state)
        stored = Generations.open(
            self._fs,
            self.directory / held.folder,
            self._region.state,
            model=held.model,
            dimension=held.dimension,
            expects_vectors=embedder.is_used,
            moment=moment,
            role=self._spec.role,
            go_on=both,
        )
        storing = Storing(
            stored, self._region, self._clock.monotonic, self._owner_waits, self._wake
        )
        if stored.manifest.watermark < moment.upto:
            storing.note_change()
        return OpenIndexes(stored, storing, self.pumps_of(embedder))

    def pumps_of(self, embedder: StoreEmbedder) -> EmbeddingPumps | None:
        if not embedder.is_used:
            return None
        assert self._embedding is not None
        return EmbeddingPumps(
            self._embedding, embedder, self._prepare, self._clock.monotonic, self._wake
        )

    def candidate(self, name: str) -> StoreEmbedder:
        """An embedder that the store may go over to."""
        return StoreEmbedder(
            self._fs,
            self.directory,
            name,
            there=self._embedding is not None,
            stores=False,
            monotonic=self._clock.monotonic,
        )

    def stored_us(self, folder: str) -> int:
        """When its newest generation was; 0: there is none."""
        try:
            file = self._fs.open(self.directory / folder / MANIFEST_FILE, read_only=True)
        except FileNotFoundError:
            return 0
        with closing(file):
            return file.modified_us()

    def bytes_in(self, folder: str) -> int:
        return _bytes_below(self._fs, self.directory / folder)


def _bytes_below(fs: FileSystem, directory: Path) -> int:
    total = 0
    for name in fs.list_directory(directory):
        path = directory / name
        if fs.is_directory(path):
            total += _bytes_below(fs, path)
        else:
            file = fs.open(path, read_only=True)
            total += file.size()
            file.close()
    return total
