"""What a replica says of a log to whoever is to make or move its directory."""

from __future__ import annotations

from neverforget.storage.errors import Corrupt
from neverforget.storage.identity import Identity, longterm_identity, region_identity
from neverforget.storage.object_store import ObjectStore
from neverforget.storage.shipping_finding import Galloping
from neverforget.storage.shipping_object import (
    OBJECT_HEADER_BYTES,
    ObjectHeader,
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


def last_header(objects: ObjectStore, log: str, store_id: str) -> ObjectHeader | None:
    """That of the log's last object; None where nothing of it was ever shipped. Raises Unavailable,
    Corrupt.
    """
    prefix, galloping = log_prefix(store_id, log), Galloping(0)
    while (number := galloping.next) is not None:
        galloping.answer(objects.head(object_key(prefix, number)) is not None)
    if not galloping.last:
        return None
    start = objects.get_start(object_key(prefix, galloping.last), OBJECT_HEADER_BYTES)
    if start is None:
        raise Corrupt(f"object {galloping.last} of {prefix} was there and is not any more")
    return decode_header(start)
