"""Nodes in network namespaces of their own, on one bridge: links that can be cut, and made lossy or
narrow.

Needs root, ``ip``, ``tc`` and ``iptables``. Packets are dropped without a word, as a broken switch
does: nobody is refused or unreachable. The loopback of a node that is cut off goes on, so what runs
on it goes on talking to itself.
"""

from __future__ import annotations

import os
import shutil
import subprocess

from tests.cluster.cluster_nodes import Net

_NET = "10.77.{0}."


def reason_not_to_run() -> str | None:
    """Why there can be none here."""
    if os.geteuid() != 0:
        return "not run: network namespaces need root"
    missing = [tool for tool in ("ip", "tc", "iptables") if shutil.which(tool) is None]
    if missing:
        return f"not run: {' and '.join(missing)} not found"
    made = _run("ip", "netns", "add", "nf-probe", check=False)
    if made.returncode != 0:
        return f"not run: no network namespaces here ({made.stderr.strip()})"
    rules = _run("ip", "netns", "exec", "nf-probe", "iptables", "-S", check=False)
    _run("ip", "netns", "del", "nf-probe")
    if rules.returncode != 0:
        return f"not run: no iptables in a namespace ({rules.stderr.strip()})"
    return None


class Namespaces(Net):
    """A ``Net`` of nodes called "a", "b", ...; ``close`` takes it down. Names and addresses carry a
    number of this process, so that two of them may run at once."""

    def __init__(self, nodes: str = "abc") -> None:
        self._id = os.getpid() % 250 + 1
        self._nodes = nodes
        self._bridge = f"nfbr{self._id}"
        self.close()
        _run("ip", "link", "add", self._bridge, "type", "bridge")
        _run("ip", "link", "set", self._bridge, "up")
        for node in nodes:
            self._add(node)

    def _add(self, node: str) -> None:
        name, inside, outside = self._name(node), self._link(node), f"{self._link(node)}o"
        _run("ip", "netns", "add", name)
        _run("ip", "link", "add", inside, "type", "veth", "peer", "name", outside)
        _run("ip", "link", "set", inside, "netns", name)
        _run("ip", "link", "set", outside, "master", self._bridge)
        _run("ip", "link", "set", outside, "up")
        _run("ip", "-n", name, "addr", "add", f"{self.address(node)}/24", "dev", inside)
        _run("ip", "-n", name, "link", "set", "lo", "up")
        _run("ip", "-n", name, "link", "set", inside, "up")

    def address(self, node: str) -> str:
        return _NET.format(self._id) + str(ord(node) - ord("a") + 1)

    def prefix(self, node: str) -> list[str]:
        return ["ip", "netns", "exec", self._name(node)]

    def cut(self, node: str) -> None:
        """Nothing goes in or out."""
        self.deafen(node)
        self.mute(node)

    def deafen(self, node: str) -> None:
        """It speaks and cannot hear."""
        self._rule(node, "INPUT", "-i", self._link(node))

    def mute(self, node: str) -> None:
        """It hears and cannot speak. Lost on the way, where nobody tells it."""
        for other in self._nodes:
            if other != node:
                self._rule(other, "INPUT", "-s", self.address(node))

    def lose(self, node: str, share: float) -> None:
        """So much of what is sent to it, and of what it sends, is lost on the way."""
        chance = ("-m", "statistic", "--mode", "random", "--probability", str(share))
        self._rule(node, "INPUT", "-i", self._link(node), *chance)
        for other in self._nodes:
            if other != node:
                self._rule(other, "INPUT", "-s", self.address(node), *chance)

    def narrow(self, node: str, kbit: int) -> None:
        """So many thousand bits a second come through, each way; what would wait for more than a
        second is lost."""
        for at, end in self._ends(node):
            _run(
                *at, "tc", "qdisc", "add", "dev", end, "root", "tbf",
                "rate", f"{kbit}kbit", "burst", "16kb", "latency", "1s",
            )  # fmt: skip

    def heal(self) -> None:
        """Every link is well."""
        for node in self._nodes:
            _run(*self.prefix(node), "iptables", "-F")
            for at, end in self._ends(node):
                _run(*at, "tc", "qdisc", "del", "dev", end, "root", check=False)  # if there is one

    def _ends(self, node: str) -> list[tuple[list[str], str]]:
        """Of its link: what it sends passes the first, what is sent to it the second."""
        return [(self.prefix(node), self._link(node)), ([], f"{self._link(node)}o")]

    def close(self) -> None:
        for node in self._nodes:
            _run("ip", "netns", "del", self._name(node), check=False)
            _run("ip", "link", "del", f"{self._link(node)}o", check=False)
        _run("ip", "link", "del", self._bridge, check=False)

    def _name(self, node: str) -> str:
        return f"nf{self._id}{node}"

    def _link(self, node: str) -> str:
        return f"nfv{self._id}{node}"

    def _rule(self, node: str, chain: str, *match: str) -> None:
        _run(*self.prefix(node), "iptables", "-A", chain, *match, "-j", "DROP")


def _run(*command: str, check: bool = True) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, check=check, capture_output=True, text=True)
