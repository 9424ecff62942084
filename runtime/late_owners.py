"""The long-term owner of a hosted store and its embedders: started when somebody needs them.

Who only talks never does. Until then bells hang at their sockets, which ENDPOINT names already; who
asks there waits until the one that was started answers.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from neverforget.actors.doorbell import Doorbells
from neverforget.runtime import embedders
from neverforget.runtime.owner_specs import OwnerSpecs
from neverforget.runtime.watchdog import Owner
from neverforget.storage.errors import NeverforgetError

if TYPE_CHECKING:
    from neverforget.actors.handles import OwnerHandle
    from neverforget.actors.owner_spec import OwnerSpec
    from neverforget.runtime.cluster import Cluster

log = logging.getLogger(__name__)


class LateOwners:
    """``objects``: embedders by the name of their setting. ``summarizer``: where that is an object.
    ``watch`` is given every owner that was started.
    """

    def __init__(
        self,
        specs: OwnerSpecs,
        cluster: Cluster,
        objects: dict[str, Any],
        summarizer: Any,
        watch: Callable[[Owner], None],
    ) -> None:
        self._specs = specs
        self._cluster = cluster
        self._objects = objects
        self._summarizer = summarizer
        self._watch = watch
        self._embedders: list[Owner] = []  # those that were needed so far
        self._bells = Doorbells()
        self._starting = threading.Lock()

    def begin(self, *, longterm_now: bool) -> None:
        """``longterm_now``: its owner is needed already. Waits for nobody; an owner that cannot be
        started is a matter for the log, since conversations are served.
        """
        for number, path in enumerate(self._specs.embedder_sockets()):
            self._bells.hang(Path(path), partial(self._start_embedder, number))
        if longterm_now:
            self._start_longterm()
        else:
            self._bells.hang(Path(self._specs.longterm().socket), self._start_longterm)
        self._bells.start()

    def lend(self, embedder: Any) -> str:
        """Have the pool embed with this object, too; the name of its setting. Calls under way are
        asked again."""
        name = embedders.stored_name(embedder)
        with self._starting:
            if name not in self._objects:
                self._objects[name] = embedder
                for owner in self._embedders:
                    with owner.replacing:
                        self._cluster.end([owner.handle])
                        owner.handle = owner.spawn()
        return name

    def close(self) -> None:
        """Start nobody any more. Whom it started is for the caller to end."""
        self._bells.close()

    def _start_longterm(self) -> None:
        spec, sockets = self._specs.longterm(), self._specs.embedder_sockets()
        chunker, summarizer = self._specs.chunker(), self._summarizer
        with self._starting:
            self._start(
                spec, lambda: self._cluster.spawn_longterm(spec, sockets, chunker, summarizer)
            )

    def _start_embedder(self, number: int) -> None:
        spec = self._specs.embedder(number)
        with self._starting:
            owner = self._start(spec, lambda: self._cluster.spawn_embedder(spec, self._objects))
            if owner is not None:
                self._embedders.append(owner)

    def _start(self, spec: OwnerSpec, spawn: Callable[[], OwnerHandle]) -> Owner | None:
        try:
            owner = Owner(spec, spawn(), spawn)
        except NeverforgetError:
            log.exception("%s cannot be started", spec.name)
            return None
        self._watch(owner)
        return owner
