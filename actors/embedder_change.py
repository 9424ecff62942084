"""Which other embedder an open store is going over to, if it is: asked for by its owner, stepped by
its indexer. See ``reindexing`` for how.
"""

from __future__ import annotations

from collections.abc import Callable

from neverforget.actors.index_folders import IndexFolders
from neverforget.actors.longterm_messages import ReindexReply
from neverforget.actors.open_indexes import OpenIndexes
from neverforget.actors.reindexing import Reindexing
from neverforget.actors.store_embedder import StoreEmbedder
from neverforget.storage.embedder_file import collect_folders, free_folder
from neverforget.storage.errors import Conflict, NeverforgetError
from neverforget.storage.filesystem import FileSystem


class EmbedderChange:
    """``embedder``: what the store has. ``wake``: the indexer has something to do."""

    def __init__(
        self,
        fs: FileSystem,
        folders: IndexFolders,
        embedder: StoreEmbedder,
        wake: Callable[[], None],
    ) -> None:
        self.running: Reindexing | None = None  # or the one that ran last
        self._fs, self._folders, self._embedder, self._wake = fs, folders, embedder, wake
        self._wanted: str | None = None
        self._unwanted = False

    # ---- the owner -------------------------------------------------------------------------------

    def ask(self, name: str) -> None:
        """Go over to this one. To ask for the one that the store has gives up going over to any
        other; else Conflict is raised while it does.
        """
        to = self.to
        if to is None:
            self._wanted = name
        elif name == self._embedder.name:
            self._unwanted = True
        elif name != to:
            raise Conflict(
                f"the store is being reindexed by {to!r}; wait for that, or give it up: reindex by "
                f"{self._embedder.name!r}, which it has",
                seq=None,
            )
        self._wake()

    @property
    def to(self) -> str | None:
        """The embedder that it goes over to."""
        running = self.running
        to = running.name if running is not None and running.state == "running" else None
        return self._wanted or to

    def reply(self, id: int, name: str) -> ReindexReply:
        """To whoever asked for ``name``."""
        running = self.running
        if self._wanted is not None or self._unwanted:
            return ReindexReply(id, "running", 0, 0, None)
        if running is None:
            return ReindexReply(id, "idle", 0, 0, None)
        if running.has_failed and name == self._embedder.name != running.name:
            return ReindexReply(id, "done", 0, 0, None)  # that was to be given up
        return running.reply(id)

    def notice(self) -> None:
        """As ``LongTermIndex.notice``."""
        running = self.running
        if running is not None and running.opened is not None:
            running.opened.index.notice()

    @property
    def error(self) -> NeverforgetError | None:
        running = self.running  # once: the indexer may end it meanwhile
        return None if running is None else running.error

    def is_clean(self, end: int) -> bool:
        """As ``OpenIndexes.is_clean``."""
        running = self.running
        return running is None or running.is_clean(end)

    # ---- the indexer -----------------------------------------------------------------------------

    def step(self, current: OpenIndexes) -> tuple[bool, bool]:
        """Whether it is complete, and is to be taken over; and whether there is something to see.
        ``current``: what answers meanwhile.
        """
        running = self.running
        if running is not None and running.has_failed and running.leaves_folder:
            if running.is_opening:
                return False, False  # until it has seen that nobody wants it
            collect_folders(self._fs, self._folders.directory, self._embedder.held.folder)
            running.removed()
        if self._wanted is not None:
            running, self._wanted = self._begun(self._wanted), None
            self.running = running
        if running is None or running.state != "running":
            self._unwanted = False
            return False, False
        complete = False
        if self._unwanted:
            running.give_up()
            self._unwanted = False
        else:
            complete = running.step(self._embedder.held, current.index)
        if running.has_failed:
            self._wake()
        return complete, running.changed or running.state != "running"

    def _begun(self, name: str) -> Reindexing:
        folders, embedder = self._folders, self._folders.candidate(name)
        return Reindexing(
            embedder,
            free_folder(self._fs, folders.directory, self._embedder.held),
            folders.pumps_of(embedder),
            lambda held, go_on: folders.open(held, embedder, go_on),
            self._wake,
        )

    def deadlines(self) -> list[float]:
        return [] if self.running is None else self.running.deadlines()

    def close(self) -> None:
        """Leave what is made; it begins anew when it is stepped again."""
        if self.running is not None:
            self._wanted = self.to
            self.running.close()
            self.running = None
