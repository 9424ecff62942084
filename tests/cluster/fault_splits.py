"""The network splits: nodes in namespaces, writers on both sides. See ``fault_scenarios``.

Nodes: "a" is the head and offers nothing, "b" and "c" have the disks. "b" is cut off. What is on it
goes on: an owner and a writer that talk through a socket. As long as nobody moved its partition
that is right, and every turn of both sides must be there afterwards.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tests.cluster.cluster_nodes import RayNodes, until
from tests.cluster.fault_scenarios import is_away, ready
from tests.cluster.fault_world import World
from tests.cluster.namespaces import Namespaces, reason_not_to_run
from tests.faults.writing import NotRun, Row

CUT_S = 15.0


@contextmanager
def split_nodes() -> Iterator[tuple[RayNodes, Namespaces]]:
    why = reason_not_to_run()
    if why is not None:
        raise NotRun(why)
    net = Namespaces()
    try:
        with RayNodes(net) as nodes:
            try:
                ready(nodes, "a", "b", "c")
                yield nodes, net
            finally:
                net.heal()
    finally:
        net.close()


def cut_off() -> Row:
    """[23] A node is cut off with a writer on it, for so long that the head gives it up; then the
    link heals. Its raylet ends, its disk stays: the node starts again with it."""
    return _split("node cut off, healed", lambda net: net.cut("b"))


def one_way() -> Row:
    """[24] The node hears and cannot speak."""
    return _split("one-way link, healed", lambda net: net.mute("b"))


def _split(scenario: str, cut: Callable[[Namespaces], None]) -> Row:
    with split_nodes() as (nodes, net):
        with World(nodes, "split") as world:
            partition = world.partition_on("b")
            here, there = world.write("a"), world.write("b", None, "--deadline", "5")
            world.progress()
            before = world.owners()[partition]
            world.fault()
            cut(net)
            detected = world.detected(partition, is_away)
            world.progress(200, world.sessions_on("c"), here)
            until(lambda: world.since() > CUT_S, "the split to last")
            own = there.acks(world.sessions_on("b")[0])
            alone = sum(at > world.fault_ns for at in own)
            net.heal()
            healed = world.since()
            until(lambda: not nodes.lives("b"), "the raylet that was given up to end")
            ended = world.since()
            nodes.kill("b")
            nodes.start("b")
            world.progress(200, world.sessions_on("b"), here)
            row = world.finish(scenario, killed=[there])
            row.detected_s = detected
            row.next_s = world.next_append(world.sessions_on("b"), here)
            row.last_byte_s = world.last_byte("b", partition, before["epoch"])
            row.notes += [
                f"healed at {healed:.1f} s, raylet ended at {ended:.1f} s",
                f"{alone} turns acknowledged on the side that was cut off",
            ]
            world.cold(row)
            return row


def lossy(share: float = 0.2) -> Row:
    """[24] A fifth of the packets is lost in both directions; then none."""
    return _bad(f"{share:.0%} of packets lost, then none", lambda net: net.lose("b", share))


def narrow(kbit: int = 100) -> Row:
    """[24] A link of 100 kbit/s; then it is wide again."""
    return _bad(f"a link of {kbit} kbit/s, then wide again", lambda net: net.narrow("b", kbit))


def _bad(scenario: str, worsen: Callable[[Namespaces], None], seconds: float = 20.0) -> Row:
    """The node may be given up, as what it sends comes late or not at all. Then its raylet ends,
    now or when it is told, and it is started again."""
    with split_nodes() as (nodes, net):
        with World(nodes, "bad-link") as world:
            here, there = world.write("a"), world.write("b")
            world.progress()
            world.fault()
            worsen(net)
            until(lambda: world.since() > seconds, "the link to stay bad")
            during = sum(len([t for t in w.acks(s) if t > world.fault_ns])
                         for w in (here, there) for s in w.sessions)  # fmt: skip
            net.heal()
            healed = world.since()
            started: list[float] = []

            def start_again() -> None:
                if not nodes.lives("b"):
                    nodes.kill("b")
                    nodes.start("b")
                    started.append(world.since() - healed)

            world.progress(200, None, here, meanwhile=start_again)
            resumed = world.since()
            row = world.finish(scenario, killed=[there])
            row.next_s = world.next_append(world.all_sessions, here)
            row.notes += [
                f"{during} turns acknowledged meanwhile",
                f"200 more in each session {resumed - healed:.1f} s after the link was well",
                *(f"the node was given up, and up again {after:.1f} s after" for after in started),
            ]
            world.cold(row)
            return row
