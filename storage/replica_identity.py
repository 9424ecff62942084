"""The identity that a log has in its replica, for a directory that is made again elsewhere."""

from __future__ import annotations

from neverforget.storage.identity import Identity, longterm_identity, region_identity
from neverforget.storage.object_store import ObjectStore
from neverforget.storage.shipping_object import (
    OBJECT_HEADER_BYTES,
    decode_header,
    log_prefix,
    object_key,
)


def identity_in(objects: ObjectStore, log: str, store_id: str) -> Identity | None:
    """That of the region of this log, "partition-0" and so on; None where nothing of it was ever
    shipped. Raises Unavailable, Corrupt.
    """
    start = objects.get_start(object_key(log_prefix(store_id, log), 1), OBJECT_HEADER_BYTES)
    if start is None:
        return None
    made = new_identity(log, store_id)
    return Identity(made.store_id, made.what, made.partition, decode_header(start).log_id)


def new_identity(log: str, store_id: str) -> Identity:
    """One for a log that begins, with a log id of its own."""
    kind, _, number = log.partition("-")
    at = int(number)
    return region_identity(store_id, at) if kind == "partition" else longterm_identity(store_id, at)
