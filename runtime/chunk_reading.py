"""Reading what a long memory was cut into, as operations."""

from __future__ import annotations

from neverforget.actors.longterm_messages import Chunks, MemoriesReply, Original, unpacked
from neverforget.runtime.memory_arguments import checked_id
from neverforget.runtime.memory_codec import memory_of
from neverforget.runtime.memory_values import Memory
from neverforget.runtime.operation import LONGTERM, Call, Operation
from neverforget.runtime.scope import Scope
from neverforget.storage.errors import NotFound
from neverforget.storage.longterm_results import MemoryView


def chunks(scope: Scope, memory_id: str) -> Operation[list[Memory]]:
    """All of one version. Raises NotFound."""
    wanted = checked_id(memory_id)
    found: list[Memory] = []
    while True:
        after = found[-1].id if found else None
        try:
            reply: MemoriesReply = yield Call(LONGTERM, Chunks(0, scope.root, wanted, after))
        except NotFound:
            if after is None:
                raise
            found = []  # it was revised between two replies: begin with its new chunks
            continue
        found += [memory_of(view) for view in unpacked(reply.memories, list[MemoryView])]
        if not reply.more:
            return found


def original(scope: Scope, chunk_id: str) -> Operation[Memory]:
    """Of a chunk or summary. Raises NotFound, Corrupt."""
    reply: MemoriesReply = yield Call(LONGTERM, Original(0, scope.root, checked_id(chunk_id)))
    return memory_of(unpacked(reply.memories, list[MemoryView])[0])
