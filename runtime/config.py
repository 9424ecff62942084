"""What a store is set to, and where each value came from.

Three kinds of settings. *Fixed* ones describe the bytes on disk: chosen when the store is created,
kept in its ``store.toml``, never changed. *Host* ones rule the process that owns the store: they
may be edited in ``store.toml`` between two runs. *Client* ones belong to each handle. A value comes
from the keywords of ``open``, else from ``<path>/store.toml``, else from the defaults below;
nothing is read from the environment.
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from neverforget.runtime import embedders, extractors, summarizers
from neverforget.runtime.embedder_names import MINILM
from neverforget.runtime.setting_checks import (
    SYNC_LEVELS,
    SyncLevel,
    check_embedder,
    check_extractor,
    check_replica,
    check_seconds,
    check_seconds_or_zero,
    check_summarizer,
    check_sync,
    check_weight,
    check_zone,
    one_of,
    whole,
)
from neverforget.runtime.setting_keywords import Settings
from neverforget.storage.errors import EmbedderMismatch, InvalidArgument

if TYPE_CHECKING:
    from neverforget.actors.embedder_contract import Embedder
    from neverforget.actors.extractor_contract import Extractor
    from neverforget.actors.summarizer_contract import Summarizer

__all__ = ["SYNC_LEVELS", "Settings", "SyncLevel", "check_seconds"]  # from elsewhere

STORE_TOML = "store.toml"
LONGTERM_FOLDER = "longterm"  # in it, by number, the directories of its owners
MIB = 1024 * 1024
TOKENIZERS = ("estimate", "o200k_base")
NAME_DIGESTS = ("blake2b-64",)


@dataclass(frozen=True, kw_only=True)
class Config:
    """Settings of a store, in one frozen value. ``Config(...)`` names some; the others stay open.

    Fixed at creation:
        partitions: how many owners share the sessions, each with a log of its own. 1 to 256.
        name_digest: how a session's name becomes its 64-bit id: "blake2b-64".
        tokenizer: how turns without a ``token_count`` are counted: "estimate" or "o200k_base".
        embedder: what memories are compared by: "minilm" (a model on this machine), "none" (they
            are found by their words only), "openai:MODEL@https://host/v1", or an object with
            model_id, dimension and embed(texts). An object lives with the process that hosts the
            store and is named "object:MODEL_ID" elsewhere; a host that was not given it finds by
            words. Another one than the store's raises EmbedderMismatch; ``reindex`` changes it.
    Host (one value for all who use the store; the next host takes them from ``store.toml``):
        segment_bytes: size that log segments grow to.
        batch_bytes_max: largest batch of records that one append may write.
        reply_bytes_max: where a reply is cut; a page may then be shorter than its limit.
        requests_queued_max: requests that may wait at one owner before it answers ``Overloaded``.
        sync_interval_ms: longest time that turns appended with ``sync="process"`` stay unsynced.
        embedder_processes: how many processes embed. Each one holds the model. 1 to 32.
        chunk_over_characters: a memory with a longer text is cut into chunks in the background, by
            which it is found. The memory stays as it is.
        chunker_processes: how many processes cut at most; there are none while nothing is to be
            cut. 1 to 32. An inline store cuts in one thread.
        summarizer: what adds a summary to the chunks: "none", "extractive" (sentences of the text),
            "openai:MODEL@https://host/v1", or an object with summarizer_id and summarize(text). An
            object lives with the process that hosts the store, as an embedder does.
        extractor: what makes memories of what was said, in the background: "rules" (offline, in the
            words that were said), "openai:MODEL@https://host/v1", an object with extractor_id and
            extract(window), which lives with the process that hosts the store, or "none".
        reflect_every_turns: with so many turns that wait, a session is reflected: memories are made
            of them. 0: only when ``reflect`` is called.
        reflect_after_s: and with any, when nothing was said in it for so many seconds. 0: never.
        reflector_threads: how many sessions are reflected at a time. 1 to 32. An inline store has
            one thread.
        timezone: that in which "yesterday" and other time frames are meant, as "Europe/Berlin".
        recall_text, recall_context, recall_vector: what words, the words around, and meaning count
            for in a hybrid recall; measured on conversations. recall_speaker: what is added where
            the one person whom the query names was speaking.
        recall_candidates: how many memories each of these searches contributes.
        recall_rrf_k: how little the first ranks stand out under ``fusion="rrf"``.
        replica: where every log is shipped to, so that a lost disk loses nothing that is there:
            "s3://BUCKET/PREFIX", "gs://...", "az://..." or "file:///FOLDER". None: nowhere.
        replica_unreachable: what an owner does that starts while the replica does not answer:
            "reads" (it serves reads only) or "write" (another owner may write elsewhere as well).
        replica_lag_bytes: appends wait while so much of a log is durable here and not shipped.
        replica_lag_s: they wait, too, while some of it is so many seconds old.
    Client (each handle has its own):
        sync: what ``append`` waits for: "disk" (survives a power loss), "process" (survives
            the death of any process, not of the machine) or "replica" (survives that of the
            machine and its disk; needs one).
        deadline_s: seconds that one call may take, retries included.
    """

    partitions: int = 2
    name_digest: str = "blake2b-64"
    tokenizer: str = "estimate"
    embedder: str | Embedder = MINILM
    segment_bytes: int = 64 * MIB
    batch_bytes_max: int = 64 * MIB
    reply_bytes_max: int = 4 * MIB
    requests_queued_max: int = 4096
    sync_interval_ms: int = 1000
    embedder_processes: int = 1
    chunk_over_characters: int = 2_000
    chunker_processes: int = 2
    summarizer: str | Summarizer = "none"
    extractor: str | Extractor = extractors.RULES
    reflect_every_turns: int = 100
    reflect_after_s: float = 3600.0
    reflector_threads: int = 2
    timezone: str = "UTC"
    recall_text: float = 0.2
    recall_context: float = 0.2
    recall_vector: float = 0.6
    recall_speaker: float = 0.15
    recall_candidates: int = 100
    recall_rrf_k: int = 60
    replica: str | None = None
    replica_unreachable: str = "reads"
    replica_lag_bytes: int = 64 * MIB
    replica_lag_s: float = 60.0
    sync: SyncLevel = "disk"
    deadline_s: float = 30.0

    # A default that the caller names counts as named, so values alone do not tell.
    def __new__(cls, **values: Any) -> Config:
        made = object.__new__(cls)
        object.__setattr__(made, "_sources", dict.fromkeys(values, "argument"))
        return made

    def __post_init__(self) -> None:
        for name, check in CHECKS.items():
            check(name, getattr(self, name))

    @property
    def sources(self) -> dict[str, str]:
        """Each setting's name -> "argument", "store.toml", "host" or "default"."""
        known: dict[str, str] = self.__dict__["_sources"]
        return {name: known.get(name, "default") for name in SETTINGS}

    def with_sources(self, sources: Mapping[str, str]) -> Config:
        """The same values, said to come from elsewhere."""
        made = copy.copy(self)
        object.__setattr__(made, "_sources", dict(sources))
        return made

    @property
    def embedder_name(self) -> str:
        """What a store keeps of ``embedder``."""
        return _name(self.embedder)

    @property
    def embedder_objects(self) -> dict[str, Embedder]:
        """The embedder by its name, where it is an object."""
        embedder = self.embedder
        return {} if isinstance(embedder, str) else {_name(embedder): embedder}

    @property
    def summarizer_name(self) -> str:
        """What a store keeps of ``summarizer``."""
        return summarizers.stored_name(self.summarizer)

    @property
    def summarizer_object(self) -> Summarizer | None:
        """The summarizer, where it is an object."""
        return None if isinstance(self.summarizer, str) else self.summarizer

    @property
    def extractor_name(self) -> str:
        """What a store keeps of ``extractor``."""
        return extractors.stored_name(self.extractor)

    @property
    def extractor_object(self) -> Extractor | None:
        """The extractor, where it is an object."""
        return None if isinstance(self.extractor, str) else self.extractor

    @property
    def object_names(self) -> dict[str, str]:
        """The settings whose values are objects, and what a store keeps of them."""
        held = {name: getattr(self, name) for name in ("embedder", "summarizer", "extractor")}
        return {n: _plain(held[n], n) for n in held if not isinstance(held[n], str)}

    @property
    def named(self) -> dict[str, Any]:
        """The settings that were given by argument, with their values."""
        return {n: getattr(self, n) for n, source in self.sources.items() if source == "argument"}

    def replaced(self, **values: Any) -> Config:
        """A copy with other values, their source "argument"."""
        sources = {**self.sources, **dict.fromkeys(values, "argument")}
        held = {name: getattr(self, name) for name in SETTINGS}
        return Config(**{**held, **values}).with_sources(sources)

    def as_dict(self) -> dict[str, Any]:
        """Every setting and its value, in the order of the class; objects by their names."""
        return {name: _plain(getattr(self, name), name) for name in SETTINGS}


CHECKS: dict[str, Callable[[str, object], None]] = {
    "partitions": whole(1, 256),
    "name_digest": one_of(NAME_DIGESTS),
    "tokenizer": one_of(TOKENIZERS),
    "embedder": check_embedder,
    "segment_bytes": whole(4096, 1 << 31),
    "batch_bytes_max": whole(4096, 64 * MIB),
    "reply_bytes_max": whole(4096, 64 * MIB),
    "requests_queued_max": whole(1, 1 << 20),
    "sync_interval_ms": whole(1, 60_000),
    "embedder_processes": whole(1, 32),
    "chunk_over_characters": whole(200, 100_000_000),
    "chunker_processes": whole(1, 32),
    "summarizer": check_summarizer,
    "extractor": check_extractor,
    "reflect_every_turns": whole(0, 1_000_000_000),
    "reflect_after_s": check_seconds_or_zero,
    "reflector_threads": whole(1, 32),
    "timezone": check_zone,
    "recall_text": check_weight,
    "recall_context": check_weight,
    "recall_vector": check_weight,
    "recall_speaker": check_weight,
    "recall_candidates": whole(1, 10_000),
    "recall_rrf_k": whole(1, 10_000),
    "replica": check_replica,
    "replica_unreachable": one_of(("reads", "write")),
    "replica_lag_bytes": whole(MIB, 1 << 40),
    "replica_lag_s": check_seconds,
    "sync": check_sync,
    "deadline_s": check_seconds,
}
SETTINGS = tuple(CHECKS)
FIXED = frozenset({"partitions", "name_digest", "tokenizer", "embedder"})
CLIENT = frozenset({"sync", "deadline_s"})
HOST = frozenset(SETTINGS) - FIXED - CLIENT
assert tuple(f.name for f in dataclasses.fields(Config)) == SETTINGS
assert tuple(Settings.__annotations__) == SETTINGS


def named(config: Config | None, overrides: Mapping[str, Any]) -> Config:
    """What the arguments of ``open`` say: keywords win over ``config``. Nothing else is named."""
    if config is not None and not isinstance(config, Config):
        raise InvalidArgument(f"config must be a neverforget.Config, not {type(config).__name__}")
    unknown = sorted(set(overrides) - set(SETTINGS))
    if unknown:
        raise InvalidArgument(
            f"no setting is called {', '.join(unknown)}; there are {', '.join(SETTINGS)}"
        )
    return Config(**{**({} if config is None else config.named), **overrides})


def effective(asked: Config, stored: Mapping[str, Any]) -> Config:
    """For whoever creates or hosts a store: named, else ``store.toml``, else default.

    ``stored`` is ``read_stored``'s answer ({} for a new store). A fixed setting that differs from
    the stored one raises InvalidArgument.
    """
    values, sources = dict(stored), dict.fromkeys(stored, STORE_TOML)
    if "embedder" in stored:
        sources["embedder"] = "store"
    for name, value in asked.named.items():
        if name in FIXED and name in stored and stored[name] != _plain(value, name):
            raise _is_fixed(name, stored[name], _plain(value, name))
        values[name], sources[name] = value, "argument"
    return Config(**values).with_sources(sources)


def attached(asked: Config, hosted: Mapping[str, Any], stored: Mapping[str, Any]) -> Config:
    """For a client that attaches: fixed and host settings are the host's (``hosted``, from
    ENDPOINT), client settings its own. A fixed or host setting that the client names otherwise
    raises InvalidArgument.
    """
    values: dict[str, Any] = {}
    sources: dict[str, str] = {}
    for name in SETTINGS:
        if name in CLIENT:
            if name in asked.named:
                values[name], sources[name] = asked.named[name], "argument"
            elif name in stored:
                values[name], sources[name] = stored[name], STORE_TOML
        elif name in hosted:
            values[name], sources[name] = hosted[name], "host"
            if name == "embedder" and name in stored:  # reindex may have changed it since
                values[name], sources[name] = stored[name], "store"
            wanted = _plain(asked.named.get(name, values[name]), name)
            if wanted != values[name]:
                if name in FIXED:
                    raise _is_fixed(name, values[name], wanted)
                raise InvalidArgument(
                    f"{name} is {hosted[name]!r} at the host of this store and cannot be "
                    f"{wanted!r} here; leave it out, or change {STORE_TOML} and start the host "
                    "again"
                )
    return Config(**values).with_sources(sources)


def _name(embedder: str | Embedder) -> str:
    return embedder if isinstance(embedder, str) else embedders.stored_name(embedder)


def _plain(value: Any, name: str) -> Any:
    if name == "summarizer":
        return summarizers.stored_name(value)
    if name == "extractor":
        return extractors.stored_name(value)
    return _name(value) if name == "embedder" else value


def _is_fixed(name: str, stored: object, asked: object) -> InvalidArgument | EmbedderMismatch:
    if name == "embedder":
        return EmbedderMismatch(
            f"this store has the embedder {stored!r}, not {asked!r}; leave it out, or change it "
            "with reindex(embedder=...)"
        )
    return InvalidArgument(
        f"{name} was fixed as {stored!r} when this store was created and cannot become {asked!r}; "
        "leave it out, or make another store and import into it"
    )


def host_settings(config: Config) -> dict[str, Any]:
    """The fixed and host settings, as ENDPOINT publishes them to those who attach."""
    return {name: value for name, value in config.as_dict().items() if name not in CLIENT}


def longterm_directory(path: Path) -> Path:
    """Of the store at ``path``: where its memories are."""
    return path / LONGTERM_FOLDER / "0"
