"""The settings that a store keeps: ``store.toml``, and the embedder in a file of its own."""

from __future__ import annotations

import json
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
from neverforget.storage.embedder_file import read_embedder
from neverforget.storage.errors import Corrupt, InvalidArgument, NotFound, UnsupportedFormat
from neverforget.storage.filesystem import LocalFileSystem


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


def _toml(value: str | int | float) -> str:
    # A string of TOML is one of JSON, as long as it holds nothing that has to be escaped twice.
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str) else repr(value)
