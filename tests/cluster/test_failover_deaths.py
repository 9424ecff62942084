"""Somebody who takes part in a failover dies in the middle of it, and it goes on."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import neverforget as nf
from neverforget.runtime.deployed_disk import read_disk
from neverforget.storage.directory_lock import read_holder
from tests.cluster.joined_nodes import Nodes, joined
from tests.cluster.moving_parts import (
    chat_in,
    deployed,
    failover,
    folder_of,
    nodes_of,
    other,
)
from tests.cluster.processes import PATIENCE_S, until


@pytest.fixture(scope="module")
def nodes() -> Iterator[Nodes]:
    with joined("a", "b") as made:
        yield made


class Writer:
    """Appends 0, 1, 2, … to one session, the odd ones at "replica"; ``seqs``: what it was told."""

    def __init__(self, name: str, session: str) -> None:
        self._name, self._session = name, session
        self._stop = threading.Event()
        self.seqs: list[int] = []
        self.failed: BaseException | None = None
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        try:
            with nf.connect(self._name, deadline=PATIENCE_S) as store:
                chat = store.session(self._session)
                while not self._stop.is_set():
                    said = len(self.seqs)
                    turn = chat.append("user", said, sync="replica" if said % 2 else "disk")
                    self.seqs.append(turn.seq)
        except BaseException as error:
            self.failed = error

    def goes_on(self) -> None:
        """Wait until more is acknowledged."""
        count = len(self.seqs)
        until(lambda: self.failed or len(self.seqs) > count, "more appends")
        assert self.failed is None, self.failed

    def end(self) -> list[int]:
        self._stop.set()
        self._thread.join()
        assert self.failed is None, self.failed
        return self.seqs


def pid_of_keeper(store: nf.Store) -> int:
    host = store.status().host
    assert host is not None
    return host.pid


def pid_of_host(path: Path) -> int:
    """Of the host of the part in ``path``, once there is one."""

    def look() -> int:
        held = read_holder(path)
        return 0 if held is None else held.process.pid

    found: int = until(look, f"a host of {path}")
    return found


def pid_of_owner(path: Path) -> int:
    return pid_of_host(path / "regions" / "p0")


OTHERS = ("keeper", "old host", "new owner", "old owner")
LONG = [pytest.param(who, marks=pytest.mark.long) for who in OTHERS]


@pytest.mark.parametrize("who", ["new host", *LONG])
def test_a_failover_goes_on_whoever_dies_in_it(nodes: Nodes, who: str) -> None:
    """From the moment on at which the description stands on the new disk. A writer goes on all the
    while: everything is there once and in order.
    """
    name = "dies-" + who.replace(" ", "-")
    with deployed(nodes, name) as store:
        chat = chat_in(store, 0)
        writer = Writer(name, chat.name)
        writer.goes_on()
        was = nodes_of(nodes, name)[0]
        old, new = folder_of(nodes, was, name), folder_of(nodes, other(was), name)
        version = read_disk(new).description.version  # type: ignore[union-attr]
        victims: dict[str, Callable[[], int]] = {
            "keeper": lambda: keeper,
            "new host": lambda: pid_of_host(new),
            "new owner": lambda: pid_of_owner(new),
            "old owner": lambda: old_owner,
            "old host": lambda: pid_of_host(old),
        }
        keeper, old_owner = pid_of_keeper(store), pid_of_owner(old)
        raised: list[BaseException] = []

        def move() -> None:
            try:
                failover(name, 0, to=nodes.nodes[other(was)].node_id)
            except nf.NeverforgetError as error:
                raised.append(error)

        asking = threading.Thread(target=move)
        asking.start()
        until(
            lambda: read_disk(new).description.version > version,  # type: ignore[union-attr]
            "the description on the new disk",
        )
        kill(victims[who]())
        asking.join()
        assert not raised, "a keeper that died is told again, and knows what was carried out"
        writer.goes_on()
        until(lambda: store.status().owners[0].state == "serving", "the new owner")
        writer.goes_on()
        seqs = writer.end()
        said = list(range(len(seqs)))
        # Where the old owner could not end in order, or in time, the rest comes back later.
        until(lambda: sorted(content(turn) for turn in chat) == said, "all of it, once")
        turns = list(chat)
        assert [content(turns[seqs[n]]) for n in said if n % 2] == [n for n in said if n % 2]
        in_place = [content(turn) for turn in turns if turn.salvaged_from is None]
        assert in_place == sorted(in_place)
        assert nodes_of(nodes, name)[0] == other(was)


def content(turn: nf.Turn) -> int:
    assert isinstance(turn.content, int)
    return turn.content


def kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass  # it has ended in order by now


@pytest.mark.long
def test_a_restored_store_takes_a_deployed_one_over_and_gives_it_back(
    nodes: Nodes, tmp_path: Path
) -> None:
    """``restore`` is a failover of everything to one machine: the deployed owners say so."""
    with deployed(nodes, "whole") as store:
        chat, staying = chat_in(store, 0), chat_in(store, 1)
        for each in (chat, staying):
            each.append("user", "deployed", sync="replica")
        failover("whole", 0)
        url = f"file://{nodes.folder}/replica-whole"
        assert nf.restore(tmp_path / "here", url).turns == 2
        with nf.open(tmp_path / "here", inline=True) as restored:
            assert restored.session(chat.name).append("user", "restored").seq == 1
        with pytest.raises(nf.OwnerFenced):
            chat.append("user", "fenced", sync="replica")
        on = nodes.nodes[nodes_of(nodes, "whole")[0]].node_id
        failover("whole", 0, to=on)
        chat.append("user", "back", sync="replica")
        said = [turn.content for turn in chat]
        assert said[:2] == ["deployed", "restored"]
        # What the fenced owner could not acknowledge it had written, and it is brought back here.
        assert sorted(said[2:]) == ["back", "fenced"]
