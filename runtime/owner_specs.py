"""What the host, or an inline engine, tells each owner of a store when it makes it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from neverforget.actors.actor_options import REFLECTOR_OWNER, owner_name
from neverforget.actors.chunker_spec import ChunkerSpec, most_of
from neverforget.actors.embedder_spec import EmbedderSpec
from neverforget.actors.fusion import FusionConfig
from neverforget.actors.longterm_spec import LongTermSpec
from neverforget.actors.owner_spec import PartitionSpec
from neverforget.actors.places import LONGTERM
from neverforget.actors.reflector_spec import ReflectorSpec
from neverforget.runtime import extractors, summarizers
from neverforget.runtime.config import Config
from neverforget.runtime.embedder_names import NONE
from neverforget.runtime.endpoint import place_digest
from neverforget.runtime.store_directory import StoreDirectory
from neverforget.storage.directory_lock import ProcessId


class OwnerSpecs:
    """``host`` and ``folder`` (of sockets) None: the owners are objects of this process.
    ``reflects`` False: whatever the settings say, nothing is reflected by itself. ``place``: what
    stands in the names of actors for where the store is; "": its path. ``name``: of a deployed one.
    ``terms``: of its logs that were moved, by the number of the place.
    """

    def __init__(
        self,
        store: StoreDirectory,
        host: ProcessId | None = None,
        folder: Path | None = None,
        *,
        reflects: bool = True,
        place: str = "",
        name: str = "",
        terms: Mapping[int, int] | None = None,
    ) -> None:
        self._store = store
        self._folder = folder
        self._terms = terms or {}
        self._place = place or place_digest(store.path, store.store_id)[:8]
        config = store.config
        self._every = config.reflect_every_turns if reflects else 0
        if config.extractor_name == extractors.NONE:
            self._every = 0
        self._common: dict[str, Any] = {
            "store_id": store.store_id,
            "store_name": name,
            "role": "application" if host is None else "worker",
            "host": host,
            "segment_bytes": config.segment_bytes,
            "batch_bytes_max": config.batch_bytes_max,
            "reply_bytes_max": config.reply_bytes_max,
            "requests_queued_max": config.requests_queued_max,
            "sync_interval_ms": config.sync_interval_ms,
            "replica": config.replica,
            "replica_writes_alone": config.replica_unreachable == "write",
            "replica_lag_bytes": config.replica_lag_bytes,
            "replica_lag_s": config.replica_lag_s,
        }

    def partition(self, number: int) -> PartitionSpec:
        return PartitionSpec(
            directory=str(self._store.region(number)),
            partition=number,
            replica_term=self._terms.get(number, 0),
            reflect_every=self._every,
            reflect_after_s=self._store.config.reflect_after_s if self._every else 0.0,
            **self._of(f"p{number}"),
            **self._common,
        )

    def longterm(self) -> LongTermSpec:
        config = self._store.config
        return LongTermSpec(
            directory=str(self._store.longterm),
            replica_term=self._terms.get(LONGTERM, 0),
            embedder=config.embedder_name,
            fusion=fusion(config),
            chunk_over_characters=config.chunk_over_characters,
            chunker_processes=1 if self._folder is None else config.chunker_processes,
            summarizer=config.summarizer_name,
            tokenizer=config.tokenizer,
            **self._of("lt0"),
            **self._common,
        )

    def chunker(self) -> ChunkerSpec:
        """Of each in the pool. A summarizer that is an object is for the caller to bring there."""
        config = self._store.config
        name = config.summarizer_name
        make = None if name == summarizers.NONE else summarizers.made
        return ChunkerSpec(most_of(config.chunk_over_characters), name, make=make)

    def embedder(self, number: int) -> EmbedderSpec:
        return EmbedderSpec(directory="", member=number, **self._of(f"e{number}"), **self._common)

    def reflector(self) -> ReflectorSpec:
        config = self._store.config
        return ReflectorSpec(
            directory="",
            partitions=config.partitions,
            extractor=config.extractor_name,
            timezone=config.timezone,
            threads=1 if self._folder is None else config.reflector_threads,
            **self._of(REFLECTOR_OWNER),
            **self._common,
        )

    def reflector_socket(self) -> str:
        """ "" where nothing is ever reflected."""
        none = self._store.config.extractor_name == extractors.NONE
        return "" if none else self.reflector().socket

    def embedder_sockets(self) -> tuple[str, ...]:
        """Of the pool. A store without an embedder may get one by reindex: it has one member."""
        config = self._store.config
        members = 1 if config.embedder_name == NONE else config.embedder_processes
        return tuple(self.embedder(number).socket for number in range(members))

    def _of(self, owner: str) -> dict[str, Any]:
        if self._folder is None:
            return {}
        return {
            "socket": str(self._folder / f"{owner}.sock"),
            "name": owner_name(self._store.store_id, self._place, owner),
        }


def fusion(config: Config) -> FusionConfig:
    """How the searches of a store are weighed."""
    return FusionConfig(
        text=config.recall_text,
        context=config.recall_context,
        vector=config.recall_vector,
        speaker=config.recall_speaker,
        candidates=config.recall_candidates,
        rrf_k=config.recall_rrf_k,
    )
