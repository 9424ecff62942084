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
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypedDict

import msgspec

from neverforget.storage.errors import InvalidArgument

STORE_TOML = "store.toml"
MIB = 1024 * 1024
SyncLevel = Literal["disk", "process"]
SYNC_LEVELS: tuple[SyncLevel, ...] = ("disk", "process")
TOKENIZERS = ("estimate", "o200k_base")
NAME_DIGESTS = ("blake2b-64",)


@dataclass(frozen=True, kw_only=True)
class Config:
    """Settings of a store, in one frozen value. ``Config(...)`` names some; the others stay open.

    Fixed at creation:
        partitions: how many owners share the sessions, each with a log of its own. 1 to 256.
        name_digest: how a session's name becomes its 64-bit id: "blake2b-64".
        tokenizer: how turns without a ``token_count`` are counted: "estimate" or "o200k_base".
    Host (one value for all who use the store; the next host takes them from ``store.toml``):
        segment_bytes: size that log segments grow to.
        batch_bytes_max: largest batch of records that one append may write.
        reply_bytes_max: where a reply is cut; a page may then be shorter than its limit.
        requests_queued_max: requests that may wait at one owner before it answers ``Overloaded``.
        sync_interval_ms: longest time that turns appended with ``sync="process"`` stay unsynced.
    Client (each handle has its own):
        sync: what ``append`` waits for: "disk" (survives a power loss) or "process" (survives the
            death of any process, not of the machine).
        deadline_s: seconds that one call may take, retries included.
    """

    partitions: int = 2
    name_digest: str = "blake2b-64"
    tokenizer: str = "estimate"
    segment_bytes: int = 64 * MIB
    batch_bytes_max: int = 64 * MIB
    reply_bytes_max: int = 4 * MIB
    requests_queued_max: int = 4096
    sync_interval_ms: int = 1000
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
    def named(self) -> dict[str, Any]:
        """The settings that were given by argument, with their values."""
        return {n: getattr(self, n) for n, source in self.sources.items() if source == "argument"}

    def replaced(self, **values: Any) -> Config:
        """A copy with other values, their source "argument"."""
        sources = {**self.sources, **dict.fromkeys(values, "argument")}
        return Config(**{**self.as_dict(), **values}).with_sources(sources)

    def as_dict(self) -> dict[str, Any]:
        """Every setting and its value, in the order of the class."""
        return {name: getattr(self, name) for name in SETTINGS}


class Settings(TypedDict, total=False):
    """The settings as keywords of ``open``; see ``Config``."""

    partitions: int
    name_digest: str
    tokenizer: str
    segment_bytes: int
    batch_bytes_max: int
    reply_bytes_max: int
    requests_queued_max: int
    sync_interval_ms: int
    sync: SyncLevel
    deadline_s: float


def _whole(low: int, high: int) -> Callable[[str, object], None]:
    def check(name: str, value: object) -> None:
        if type(value) is not int or not low <= value <= high:
            raise InvalidArgument(
                f"{name} must be a whole number from {low:,} to {high:,}, not {value!r}"
            )

    return check


def _one_of(choices: tuple[str, ...]) -> Callable[[str, object], None]:
    def check(name: str, value: object) -> None:
        if value not in choices:
            raise InvalidArgument(
                f"{name} must be {' or '.join(map(repr, choices))}, not {value!r}"
            )

    return check


def _sync(name: str, value: object) -> None:
    if value not in SYNC_LEVELS:
        raise InvalidArgument(
            f"{name} must be {' or '.join(map(repr, SYNC_LEVELS))}, not {value!r}{not_yet(value)}"
        )


def not_yet(sync: object) -> str:
    """What to add about a level that is described, and that this version has not."""
    if sync != "replica":
        return ""
    return ' ("replica" needs a store on a cluster, which this version does not have yet)'


def check_seconds(name: str, value: object) -> None:
    """A number of seconds above zero."""
    real = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not real or math.isnan(value) or value <= 0:  # type: ignore[operator,arg-type]
        raise InvalidArgument(f"{name} must be a number of seconds above 0, not {value!r}")


CHECKS: dict[str, Callable[[str, object], None]] = {
    "partitions": _whole(1, 256),
    "name_digest": _one_of(NAME_DIGESTS),
    "tokenizer": _one_of(TOKENIZERS),
    "segment_bytes": _whole(4096, 1 << 31),
    "batch_bytes_max": _whole(4096, 64 * MIB),
    "reply_bytes_max": _whole(4096, 64 * MIB),
    "requests_queued_max": _whole(1, 1 << 20),
    "sync_interval_ms": _whole(1, 60_000),
    "sync": _sync,
    "deadline_s": check_seconds,
}
SETTINGS = tuple(CHECKS)
FIXED = frozenset({"partitions", "name_digest", "tokenizer"})
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
    for name, value in asked.named.items():
        if name in FIXED and name in stored and stored[name] != value:
            raise _is_fixed(name, stored[name], value)
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
            if name in asked.named and asked.named[name] != hosted[name]:
                if name in FIXED:
                    raise _is_fixed(name, hosted[name], asked.named[name])
                raise InvalidArgument(
                    f"{name} is {hosted[name]!r} at the host of this store and cannot be "
                    f"{asked.named[name]!r} here; leave it out, or change {STORE_TOML} and start "
                    "the host again"
                )
    return Config(**values).with_sources(sources)


def _is_fixed(name: str, stored: object, asked: object) -> InvalidArgument:
    return InvalidArgument(
        f"{name} was fixed as {stored!r} when this store was created and cannot become {asked!r}; "
        "leave it out, or make another store and import into it"
    )


def host_settings(config: Config) -> dict[str, Any]:
    """The fixed and host settings, as ENDPOINT publishes them to those who attach."""
    return {name: getattr(config, name) for name in SETTINGS if name not in CLIENT}


def read_stored(path: Path) -> dict[str, Any]:
    """What ``<path>/store.toml`` sets; {} where there is none. Raises InvalidArgument."""
    file = path / STORE_TOML
    try:
        text = file.read_bytes()
    except FileNotFoundError:
        return {}
    try:
        tables = msgspec.toml.decode(text)
    except msgspec.DecodeError as error:
        raise InvalidArgument(f"{file} is not valid TOML: {error}; correct it") from error
    found: dict[str, Any] = {}
    for table, allowed in (("fixed", FIXED), ("host", HOST), ("client", CLIENT)):
        for name, value in tables.pop(table, {}).items():
            if name not in allowed:
                raise InvalidArgument(
                    f"{file}: [{table}] has no setting {name}; it may hold "
                    + ", ".join(sorted(allowed))
                )
            try:
                CHECKS[name](name, value)
            except InvalidArgument as error:
                raise InvalidArgument(f"{file}: {error}") from None
            found[name] = value
    if tables:
        raise InvalidArgument(
            f"{file}: unknown {', '.join(sorted(tables))}; its tables are [fixed], [host], [client]"
        )
    return found


def store_toml(config: Config) -> bytes:
    """The ``store.toml`` of a new store: every fixed setting, and the host's that were named. A
    client setting belongs to the handle that named it and is not passed on to others.
    """
    lines = [
        "# Settings of this neverforget store.",
        "# [fixed] describes the bytes on disk: do not edit.",
        "# [host] is read when a host starts; [client] holds defaults for those who attach.",
    ]
    for table, names in (("fixed", FIXED), ("host", HOST), ("client", CLIENT)):
        lines += ["", f"[{table}]"]
        for name in SETTINGS:
            chosen = names is FIXED or (names is HOST and config.sources[name] != "default")
            if name in names and chosen:
                lines.append(f"{name} = {_toml(getattr(config, name))}")
    return ("\n".join(lines) + "\n").encode()


def _toml(value: str | int | float) -> str:
    return f'"{value}"' if isinstance(value, str) else repr(value)
