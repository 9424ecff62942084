"""The long-term owner of a hosted store, its embedders and its reflector: started when somebody
needs them.

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

from neverforget.actors.doorbell import Doorbells, ring
from neverforget.actors.process_end import terminate
from neverforget.runtime import embedders
from neverforget.runtime.config import Config
from neverforget.runtime.owner_channel import channel_to
from neverforget.runtime.owner_specs import OwnerSpecs
from neverforget.runtime.watchdog import Owner, process_of
from neverforget.storage.errors import NeverforgetError

if TYPE_CHECKING:
    from neverforget.actors.handles import OwnerHandle
    from neverforget.actors.owner_spec import OwnerSpec
    from neverforget.actors.ports import Owners
    from neverforget.runtime.cluster import Cluster
    from neverforget.runtime.endpoint import Endpoint

log = logging.getLogger(__name__)
_ENDED_S = 10.0  # a process that is killed is gone long before


class LateOwners:
    """``config``: of the store, with the objects that it was given. ``watch`` is given every owner
    that was started.
    """

    def __init__(
        self,
        specs: OwnerSpecs,
        cluster: Cluster,
        config: Config,
        watch: Callable[[Owner], None],
        connect: Callable[[], Owners] | None = None,
    ) -> None:
        self._specs = specs
        self._cluster = cluster
        self._objects: dict[str, Any] = dict(config.embedder_objects)  # by the names of settings
        self._summarizer = config.summarizer_object
        self._extractor = config.extractor_object
        self._watch = watch
        self._connect = connect
        self._embedders: list[Owner] = []  # those that were needed so far
        self._reflector: Owner | None = None
        self._bells = Doorbells()
        self._starting = threading.Lock()

    def begin(self, endpoint: Endpoint, *, longterm_now: bool, reflector_now: bool = False) -> None:
        """``endpoint``: where all of them are, or will be. ``longterm_now``, ``reflector_now``:
        these are needed already. Waits for nobody; an owner that cannot be started is a matter for
        the log, since conversations are served.
        """
        for number, path in enumerate(endpoint.embedders):
            self._bells.hang(Path(path), partial(self._start_embedder, number))
        if endpoint.reflector and not reflector_now:
            self._bells.hang(Path(endpoint.reflector), partial(self._start_reflector, endpoint))
        if longterm_now:
            self._start_longterm()
        else:
            self._bells.hang(Path(endpoint.longterm), self._start_longterm)
        self._bells.start()
        if endpoint.reflector and reflector_now:
            self._start_reflector(endpoint)

    def reflect(self) -> None:
        """Sessions are due: have the reflector started, unless it is. Any thread, at any time."""
        if self._reflector is None:
            ring(Path(self._specs.reflector().socket))

    @property
    def reflector(self) -> Owner | None:
        """Once it was needed."""
        return self._reflector

    def lend(self, embedder: Any) -> str:
        """Have the pool embed with this object, too; the name of its setting. Calls under way are
        asked again."""
        name = embedders.stored_name(embedder)
        with self._starting:
            if name not in self._objects:
                self._objects[name] = embedder
                for owner in self._embedders:
                    with owner.replacing:
                        # Ray ends it some time later: until then it would answer without it.
                        process = process_of(owner)
                        self._cluster.end([owner.handle])
                        terminate([process] if process is not None else [], _ENDED_S)
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

    def _start_reflector(self, endpoint: Endpoint) -> None:
        spec, extractor = self._specs.reflector(), self._extractor
        connect = self._connect or partial(channel_to, endpoint)
        with self._starting:
            self._reflector = self._start(
                spec, lambda: self._cluster.spawn_reflector(spec, extractor, connect)
            )

    def _start(self, spec: OwnerSpec, spawn: Callable[[], OwnerHandle]) -> Owner | None:
        try:
            owner = Owner(spec, spawn(), spawn)
        except NeverforgetError:
            log.exception("%s cannot be started", spec.name)
            return None
        self._watch(owner)
        return owner
