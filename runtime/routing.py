"""Which partition a session lives in: rendezvous hashing of (namespace, name).

A fixed function of the names and the number of partitions, part of the store's format: another
answer would hide what is stored. Every partition is asked for a score and the highest one wins.
"""

from __future__ import annotations

import hashlib


def partition_of(scope: bytes, partitions: int) -> int:
    """The partition of a session; ``scope`` is ``record.session_scope(namespace, name)``."""
    if partitions == 1:
        return 0
    common = hashlib.blake2b(scope, digest_size=8, person=b"nf-route")
    best, chosen = b"", 0
    for partition in range(partitions):
        score = common.copy()
        score.update(partition.to_bytes(4, "little"))
        if (digest := score.digest()) > best:
            best, chosen = digest, partition
    return chosen
