"""Which embedder an open long-term store has, what that says of itself, and whether it answers.

The file ``EMBEDDER`` is the truth; a store that has lost it has the embedder of its settings, and
derives everything anew where that is not what was there. Vectors are made and compared only after
the embedder has said that it is what the stored ones are of (``known``).
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from neverforget.actors.embedder_health import EmbedderHealth
from neverforget.storage.embedder_file import (
    EMBEDDER_FILE,
    FIRST_FOLDER,
    EmbedderFile,
    check_model,
    read_embedder,
    write_embedder,
)
from neverforget.storage.errors import Corrupt, NeverforgetError, NotFound
from neverforget.storage.filesystem import FileSystem
from neverforget.storage.results import Finding

NONE = "none"


class StoreEmbedder:
    """Changed by the indexer; looked at by any thread."""

    def __init__(
        self,
        fs: FileSystem,
        directory: Path,
        name: str,
        *,
        there: bool,
        stores: bool = True,
        monotonic: Callable[[], float],
    ) -> None:
        """``name``: of the store's settings. ``there``: whether anybody embeds at all. ``stores``
        False: one that the store may go over to; the file is not its own yet.
        """
        self.held = EmbedderFile(name)
        self.health = EmbedderHealth(monotonic)
        self.known = False
        self.findings: list[Finding] = []
        self._fs = fs
        self._directory = directory
        self._there = there
        self._stores = stores
        if not self.is_used:
            self.health.there_is_none()

    @property
    def name(self) -> str:
        return self.held.name

    @property
    def is_used(self) -> bool:
        """Whether there are, or will be, vectors."""
        return self._there and self.held.name != NONE

    def read(self) -> None:
        """Take what the file says. Raises UnsupportedFormat, OSError."""
        self.findings = []
        try:
            self.held = read_embedder(self._fs, self._directory)
        except NotFound:
            return  # it is written when there is something to say
        except Corrupt as error:
            path = str(self._directory / EMBEDDER_FILE)
            self.findings = [Finding("bad_derived_file", "repaired", path, 0, 0, str(error))]
        self.known = False
        if not self.is_used:
            self.health.there_is_none()

    def check(self, model: str, dimension: int) -> None:
        """EmbedderMismatch unless this is what the store's vectors are, or will be, of."""
        check_model(self.held, model, dimension)

    def learn(self, model: str, dimension: int) -> bool:
        """It has said what it is. True: that was not known, so there are no vectors yet. Raises
        EmbedderMismatch, OutOfSpace, OSError.
        """
        held = check_model(self.held, model, dimension)
        news = held != self.held
        if news:
            write_embedder(self._fs, self._directory, held)
            self.held = held
        self.known = True
        self.health.went_well()
        return news

    def goes_over(self, to: EmbedderFile) -> None:
        """The store has another embedder from now on; durable when it returns."""
        if self._stores:
            write_embedder(self._fs, self._directory, to)
        self.held = to
        self.known = True
        if self.is_used:
            self.health.went_well()
        else:
            self.health.there_is_none()


def folder_of(fs: FileSystem, directory: Path) -> str:
    """Where what is derived is; a file that cannot be read is found out about later."""
    try:
        return read_embedder(fs, directory).folder
    except (NeverforgetError, OSError):
        return FIRST_FOLDER
