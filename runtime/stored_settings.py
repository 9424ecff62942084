"""The settings that a store keeps: ``store.toml``, and the embedder in a file of its own."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from neverforget.runtime.config import (
    CHECKS,
    CLIENT,
    FIXED,
    HOST,
    SETTINGS,
    STORE_TOML,
    Config,
    longterm_directory,
)
from neverforget.storage.atomic_file import write_atomic
from neverforget.storage.embedder_file import read_embedder
from neverforget.storage.errors import Corrupt, InvalidArgument, NotFound, UnsupportedFormat
from neverforget.storage.filesystem import LocalFileSystem

log = logging.getLogger(__name__)
_REPLICA, _HOST_TABLE = "replica", "[host]"
_NAMES_REPLICA = re.compile(r"\s*replica\s*=")


def read_stored(path: Path) -> dict[str, Any]:
    """What ``<path>/store.toml`` sets, and the embedder that the store has; {} where there is
    neither. Raises InvalidArgument.
    """
    found = _read_toml(path / STORE_TOML)
    try:
        held = read_embedder(LocalFileSystem(), longterm_directory(path))
    except (NotFound, Corrupt, UnsupportedFormat, OSError):
        return found  # the owner of the memories says what is wrong; conversations go on
    return {**found, "embedder": held.name}


def _read_toml(file: Path) -> dict[str, Any]:
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
    values = config.as_dict()
    lines = [
        "# Settings of this neverforget store.",
        "# [fixed] describes the bytes on disk: do not edit.",
        "# [host] is read when a host starts; [client] holds defaults for those who attach.",
    ]
    for table, names in (("fixed", FIXED), ("host", HOST), ("client", CLIENT)):
        lines += ["", f"[{table}]"]
        for name in SETTINGS:
            if name == "embedder":
                continue  # reindex changes it: it stands in a file with what it has made
            chosen = names is FIXED or (names is HOST and config.sources[name] != "default")
            if name in names and chosen and values[name] is not None:
                lines.append(f"{name} = {_toml(values[name])}")
    return ("\n".join(lines) + "\n").encode()


def without_replica(content: bytes) -> bytes:
    """A ``store.toml`` for a copy of the store, which must not ship under the same name."""
    lines = content.decode().splitlines()
    left = [
        f"# {line}  # a copy ships nowhere by itself" if _NAMES_REPLICA.match(line) else line
        for line in lines
    ]
    return ("\n".join(left) + "\n").encode()


def keep_replica(path: Path, config: Config, stored: Mapping[str, Any]) -> None:
    """A replica that was named for a store that had none is put into its ``store.toml``, with what
    was named about it: the next host, who names nothing, must ship there too. Nothing else of the
    file changes. What hinders that is logged.
    """
    if stored.get(_REPLICA) is not None or config.sources[_REPLICA] != "argument":
        return
    values, file = config.as_dict(), path / STORE_TOML
    named = [n for n in SETTINGS if n in HOST and n.startswith(_REPLICA)]
    added = [
        f"{n} = {_toml(values[n])}"
        for n in named
        if config.sources[n] == "argument" and n not in stored
    ]
    try:
        content = file.read_text() if file.exists() else ""
        if _REPLICA in msgspec.toml.decode(content).get("host", {}):
            return  # since it was read: the store is new
        lines = content.splitlines()
        tables = [line.partition("#")[0].strip() for line in lines]
        if _HOST_TABLE not in tables:
            lines += ["", _HOST_TABLE]
            tables += ["", _HOST_TABLE]
        at = tables.index(_HOST_TABLE) + 1
        content = "\n".join([*lines[:at], *added, *lines[at:]]) + "\n"
        if msgspec.toml.decode(content)["host"][_REPLICA] == config.replica:
            write_atomic(LocalFileSystem(), file, content.encode())
            return
        why = "it says otherwise"
    except (OSError, UnicodeDecodeError, msgspec.DecodeError) as error:
        why = str(error)
    log.warning(
        "%s does not say that the store has a replica: %s; write %s there", file, why, added
    )


def _toml(value: str | int | float) -> str:
    # A string of TOML is one of JSON, as long as it holds nothing that has to be escaped twice.
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str) else repr(value)
