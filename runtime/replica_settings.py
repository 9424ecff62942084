"""What a replica holds besides the logs: one small object per store that says how it was made, so
that a lost directory can be made again from the replica alone.

    {store}/settings      JSON: {version, store_id, settings}, the settings fixed at creation

Put once, create-only. The embedder is that of the creation; ``reindex`` may have changed it since,
which costs a restored store one more ``reindex``: vectors are derived, and never shipped.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import msgspec

from neverforget.runtime.config import FIXED, Config
from neverforget.storage.errors import Corrupt, InvalidArgument, NotFound, Unavailable
from neverforget.storage.object_store import ObjectStore, open_object_store
from neverforget.storage.shipping_mark import SHIPPED_FILE
from neverforget.storage.shipping_object import settings_key
from neverforget.storage.versioned_file import decode_versioned

log = logging.getLogger(__name__)
_VERSION = 1
_TIMEOUT_S = 5.0
_NAME = "settings"


class StoredSettings(msgspec.Struct, frozen=True):
    store_id: str
    settings: dict[str, Any]
    version: int = _VERSION


def publish(regions: Path, store_id: str, config: Config) -> None:
    """Make sure that the replica says how this store was made, and that it keeps what it promises.

    Where nothing was shipped before, the place is made, as far as it is a folder, and Unavailable
    raised if it does not answer; later that is only logged: the owners find out by themselves.
    """
    assert config.replica is not None, "only where there is one"
    first = not any(regions.glob(f"*/{SHIPPED_FILE}"))
    try:
        store = open_object_store(config.replica, timeout_s=_TIMEOUT_S, create=first)
        key = settings_key(store_id)
        if store.head(key) is not None:
            return
        folder = config.replica.startswith("file:")
        if folder and not first:
            log.error("%s has nothing of store %s: is it mounted?", store.name, store_id)
            return
        if first and not folder:
            from neverforget.storage.object_cloud import check_conditions

            check_conditions(store, f"{store_id}/")
        values = {name: value for name, value in config.as_dict().items() if name in FIXED}
        store.put_new(key, msgspec.json.encode(StoredSettings(store_id, values)))
    except Unavailable as error:
        if first:
            raise
        log.warning("the replica does not answer: %s", error)


def read_settings(url: str, store_id: str | None = None) -> StoredSettings:
    """Of the one store that is shipped there, or of ``store_id``. Raises NotFound,
    InvalidArgument (there are several), Corrupt, UnsupportedFormat, Unavailable.
    """
    store = open_object_store(url)
    found = [store_id] if store_id is not None else _stores(store)
    if not found:
        raise NotFound(f"no store is shipped to {store.name}")
    if len(found) > 1:
        raise InvalidArgument(
            f"{len(found)} stores are shipped to {store.name}; say which: {', '.join(found)}"
        )
    key = settings_key(found[0])
    stored = store.get(key)
    if stored is None:
        raise NotFound(f"no store {found[0]} is shipped to {store.name}")
    name = f"{key} in {store.name}"
    read = decode_versioned(stored.data, name, StoredSettings, _VERSION, "is damaged")
    if read.store_id != found[0]:
        raise Corrupt(f"{name} is not of this store", file=key)
    return read


def _stores(store: ObjectStore) -> list[str]:
    """Their ids."""
    found = []
    for key, _ in store.list(""):
        place, divided, name = key.partition("/")
        if divided and name == _NAME:
            found.append(place)
    return found
