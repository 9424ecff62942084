"""The owner of the long-term store as an actor, with the embedder pool to ask, and with chunkers
that it starts by itself.

What searches is loaded in the actor's process only: the host, which makes the actor, needs none of
it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence

from neverforget.actors.actor_shell import ActorShell, Owner
from neverforget.actors.chunker_pool import Member
from neverforget.actors.longterm_spec import LongTermSpec

# Of every library that starts threads of its own. The owner's searches and its indexer are threads
# already, and the partitions of the same machine must go on answering.
_NATIVE_THREADS = "1"
_NATIVE = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "RAYON_NUM_THREADS")


class LongTermActor(ActorShell):
    """``embedders``: the sockets of the pool's members. ``chunkers`` starts a chunker."""

    def __init__(
        self, spec: LongTermSpec, embedders: Sequence[str], chunkers: Callable[[], Member]
    ) -> None:
        super().__init__(spec, f"longterm-{spec.shard}", lambda: _made(spec, embedders, chunkers))


# How long a thread may hold the interpreter against another that wants it, instead of 5 ms. The
# loop wants it back after each call of the system; the indexer and whoever searches can wait.
_SWITCH_S = 0.0005


def _made(spec: LongTermSpec, embedders: Sequence[str], chunkers: Callable[[], Member]) -> Owner:
    # Read when these libraries are loaded, which is below.
    os.environ.update(dict.fromkeys(_NATIVE, _NATIVE_THREADS))
    sys.setswitchinterval(_SWITCH_S)
    from neverforget.actors.embedding_client import PoolEmbedding
    from neverforget.actors.longterm import LongTerm

    embedding = PoolEmbedding(embedders, spec.store_id) if embedders else None
    return LongTerm(spec, embedding, chunkers=chunkers)
