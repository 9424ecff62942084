"""Calls that come from other nodes, through Ray: what is too much is refused by name. No Ray here:
the shell of an actor is a plain object.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from neverforget.actors import actor_shell
from neverforget.actors.messages import AnyReply, AppendedReply, Failure, Request, encoder
from neverforget.actors.partition_actor import PartitionActor
from neverforget.storage.filesystem import LocalFileSystem
from neverforget.storage.region import Region
from neverforget.storage.region_options import RegionOptions
from tests.actors.regions import SEGMENT_BYTES, STORE_ID, append, spec, wait

REPLIES = msgspec.msgpack.Decoder(AnyReply)
CALLS_MAX = 5


class Shell(PartitionActor):
    def _publish(self, spec: object, what: str) -> None:
        """Its metrics go nowhere."""


async def asked(shell: Shell, request: Request) -> AnyReply:
    return REPLIES.decode(await shell.call(encoder.encode(request)))


@pytest.fixture
def shell(short_path: Path) -> Iterator[Shell]:
    options = RegionOptions(segment_bytes=SEGMENT_BYTES, first_segment_bytes=SEGMENT_BYTES)
    directory = short_path / "p0"
    Region.create(LocalFileSystem(), directory, store_id=STORE_ID, partition=0, options=options)
    made = Shell(spec(directory, socket=str(short_path / "p0.sock")))
    yield made
    asyncio.run(made.stop())


def test_more_calls_than_may_be_under_way_are_refused_and_others_served_later(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(actor_shell, "CALLS_MAX", CALLS_MAX)

    async def overload() -> None:
        assert isinstance(await asked(shell, append(1, "a")), AppendedReply)
        waiting = [asyncio.create_task(asked(shell, wait(n, 0))) for n in range(2, 2 + CALLS_MAX)]
        await asyncio.sleep(0)  # all of them are under way
        refused = await asked(shell, append(99, "too much"))
        assert isinstance(refused, Failure) and refused.code == "overloaded" and refused.id == 99
        waiting.pop().cancel()
        await asyncio.sleep(0)
        assert isinstance(await asked(shell, append(100, "b")), AppendedReply)
        await asyncio.gather(*waiting)  # the append has woken them

    asyncio.run(overload())


def test_more_bytes_than_may_be_under_way_are_refused_whatever_the_size_of_the_next_call(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thousand calls of 64 MiB were taken at once. A large one goes beside small ones: it would
    wait for ever for a moment without any.
    """
    small = len(encoder.encode(wait(2, 0)))
    monkeypatch.setattr(actor_shell, "CALLS_BYTES_MAX", 2 * small)

    async def overload() -> None:
        assert isinstance(await asked(shell, append(1, "a")), AppendedReply)
        waiting = [asyncio.create_task(asked(shell, wait(n, 0))) for n in (2, 3)]
        await asyncio.sleep(0)
        refused = await asked(shell, append(4, "b"))
        assert isinstance(refused, Failure) and refused.code == "overloaded"
        waiting.pop().cancel()
        await asyncio.sleep(0)
        assert isinstance(await asked(shell, append(5, "x" * 2000)), AppendedReply)
        await asyncio.gather(*waiting)

    asyncio.run(overload())
