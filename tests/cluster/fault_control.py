"""A driver in a process of its own that does what it is told, so that a test need not be one.

    python -m tests.cluster.fault_control ADDRESS IP

One line of JSON is one call, ``{"do": NAME, ...arguments}``; the answer is one line as well:
``{"did": VALUE}`` or ``{"raised": CLASS, "message": TEXT}``. A driver whose node dies is lost with
it; the next ``Control`` is made then.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import neverforget as nf
from tests.cluster.cluster_nodes import PATIENCE_S, RayNodes
from tests.conftest import ROOT
from tests.faults.acknowledged import Found, read_back

SESSIONS_TRIED = 200


class Calls:
    """What can be told; arguments and values are JSON."""

    def __init__(self, address: str) -> None:
        self.address = address
        self._stores: dict[str, nf.Store] = {}

    def deploy(self, name: str, plan: dict[str, Any]) -> None:
        nf.deploy(name, plan, address=self.address, wait=PATIENCE_S)

    def undeploy(self, name: str) -> None:
        if (store := self._stores.pop(name, None)) is not None:
            store.close()
        nf.undeploy(name, address=self.address)

    def failover(self, name: str, partition: int | str, to: str) -> int:
        """How often it had to be told: whoever is told may be on the node that was lost."""
        for tries in range(1, 20):
            try:
                nf.failover(
                    name, partition,
                    confirm=nf.CONFIRMED, to=to, address=self.address, wait=PATIENCE_S,
                )  # fmt: skip
            except nf.Unavailable:
                continue
            return tries
        raise AssertionError("told twenty times in vain")

    def drain(self, ip: str, deadline_s: int) -> None:
        import ray

        (node,) = [n["NodeID"] for n in ray.nodes() if n["Alive"] and n["NodeManagerAddress"] == ip]
        command = [str(Path(sys.executable).with_name("ray")), "drain-node"]
        command += ["--address", self.address, "--node-id", node]
        command += ["--reason", "DRAIN_NODE_REASON_PREEMPTION", "--reason-message", "test"]
        command += ["--deadline-remaining-seconds", str(deadline_s)]
        subprocess.run(command, check=True, capture_output=True, text=True)

    def owners(self, name: str, deadline: float = PATIENCE_S) -> list[dict[str, Any]]:
        """Those of the partitions, in their order."""
        names = ("pid", "node", "state", "epoch", "reason")
        owners = self._store(name).scoped(deadline=deadline).status().owners
        return [{each: getattr(owner, each) for each in names} for owner in owners]

    def lag(self, name: str) -> list[int | None]:
        """Bytes of each partition's log that are not shipped yet."""
        replicas = [owner.replica for owner in self._store(name).status().owners]
        return [None if each is None else each.lag_bytes for each in replicas]

    def sessions(self, name: str, count: int = 1) -> dict[int, list[str]]:
        """By partition, so many names of sessions each."""
        store = self._store(name)
        found: dict[int, list[str]] = {n: [] for n in range(store.config.partitions)}
        for number in range(SESSIONS_TRIED):
            session = f"chat-{number}"
            mine = found[store.session(session)._place.partition]
            if len(mine) < count:
                mine.append(session)
        return found

    def append(self, name: str, session: str, text: str, deadline: float = PATIENCE_S) -> int:
        store = self._store(name).scoped(deadline=deadline)
        return store.session(session).append("user", text).seq

    def read(self, name: str, sessions: list[str]) -> dict[str, list[Found]]:
        with nf.connect(name, address=self.address, deadline=PATIENCE_S) as fresh:
            return read_back(fresh, sessions)

    def texts(self, name: str, session: str) -> list[str]:
        """What was said in it."""
        return [str(turn.content) for turn in self._store(name).session(session)]

    def verify(self, name: str) -> list[str]:
        """What is damaged."""
        report = self._store(name).verify()
        return [str(each) for each in report.findings if each.severity == "error"]

    def connect(self, name: str) -> None:
        self._store(name)

    def connect_again(self, name: str, shut_down: bool) -> None:
        """With another connection to Ray, if ``shut_down``."""
        if shut_down:
            import ray

            self._stores.pop(name).close()
            ray.shutdown()
        with nf.connect(name, address=self.address, deadline=PATIENCE_S):
            pass

    def _store(self, name: str) -> nf.Store:
        if name not in self._stores:
            store = nf.connect(name, address=self.address, deadline=PATIENCE_S)
            self._stores[name] = store
        return self._stores[name]


class Raised(Exception):
    """What the driver was told to do raised ``kind``."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(f"{kind}: {message}")
        self.kind = kind


class Control:
    """Such a driver, on a node. One call at a time."""

    def __init__(self, nodes: RayNodes, node: str) -> None:
        module = [sys.executable, "-m", "tests.cluster.fault_control"]
        with (nodes.folder / "control.out").open("ab") as printed:
            self._process = subprocess.Popen(
                [*nodes.net.prefix(node), *module, nodes.address, nodes.ip(node)],
                cwd=ROOT,
                env=nodes.environment(node),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=printed,
                text=True,
            )

    def __call__(self, do: str, *, patience_s: float = PATIENCE_S * 2, **arguments: Any) -> Any:
        """What it did. Raised; AssertionError where it does not answer in time: it is ended."""
        process = self._process
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write(json.dumps({"do": do, **arguments}) + "\n")
        process.stdin.flush()
        giving_up = threading.Timer(patience_s, process.kill)
        giving_up.start()
        try:
            answer = process.stdout.readline()
        finally:
            giving_up.cancel()
        assert answer, f"no answer to {do} {arguments}: the driver ended with {process.poll()}"
        told = json.loads(answer)
        if "raised" in told:
            raise Raised(told["raised"], told["message"])
        return told["did"]

    def read(self, name: str, sessions: list[str]) -> dict[str, list[Found]]:
        found: dict[str, list[Found]] = {}
        for session, turns in self("read", name=name, sessions=sessions).items():
            found[session] = [
                Found(seq, writer, number, digest, tuple(origin) if origin else None)
                for seq, writer, number, digest, origin in turns
            ]
        return found

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            try:
                pipe.close()
            except BrokenPipeError:
                continue


def main() -> int:
    import ray

    address, ip = sys.argv[1:]
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print is no answer
    ray.init(address=address, _node_ip_address=ip, namespace="control", log_to_driver=False)
    calls = Calls(address)
    for line in sys.stdin:
        asked = json.loads(line)
        try:
            answer = {"did": getattr(calls, asked.pop("do"))(**asked)}
        except Exception as error:
            answer = {"raised": type(error).__name__, "message": str(error)}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()
    return 0


if __name__ == "__main__":
    code = main()
    os._exit(code)
