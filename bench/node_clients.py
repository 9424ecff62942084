"""Clients on the nodes of a local Ray cluster, and the driver that tells them what to measure.

    python -m bench.node_clients ADDRESS IP FOLDER

The driver obeys one line of JSON after the other, ``[METHOD, ...arguments]`` of ``Driver``, and
answers each with one. It is a process of its own on the head, so that the measuring process stays
without Ray. Latencies are nanoseconds.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from itertools import cycle
from pathlib import Path
from typing import Any, NamedTuple

from bench.measure import TEXT, timed
from bench.peers import RECORD_BYTES, AsyncEcho, SQLite

CLIENTS = 8
SESSIONS_EACH = 4
SESSIONS_TRIED = 400
PATIENCE_S = 300.0
QUERIES = 64


class Job(NamedTuple):
    """What one call is: an append of ``TEXT`` to ``store`` at ``how``, a "recall" by words or a
    "known" one by vectors, too, an actor's "call", or an INSERT into "sqlite". ``where`` the
    session's owner, or the actor, is: "here" on the client's node, "away", or "any".
    """

    store: str
    how: str
    where: str

    @property
    def name(self) -> str:
        return f"{self.store} {self.how} {self.where}"


class Client:
    """One client: an actor on a node. ``files``: where its SQLite file is."""

    def __init__(self, number: int, node: str, files: str) -> None:
        self._number, self._node = number, node
        self._files = Path(files)
        self._stores: dict[str, Any] = {}
        self._calls: dict[Job, Callable[[], object]] = {}

    def prepare(self, job: Job) -> None:
        """Whatever comes before the first call."""
        job = Job(*job)
        self._calls[job] = made = self._call(job)
        made()

    def calls(self, job: Job, count: int) -> list[int]:
        return timed(self._calls[Job(*job)], count)

    def run(self, job: Job, start_at: float, seconds: float) -> list[int]:
        """As many as it comes to from then on; ``start_at``: seconds since the epoch."""
        call = self._calls[Job(*job)]
        clock, samples = time.perf_counter_ns, []
        time.sleep(max(0.0, start_at - time.time()))
        while time.time() < start_at + seconds:
            start = clock()
            call()
            samples.append(clock() - start)
        return samples

    def _call(self, job: Job) -> Callable[[], object]:
        if job.store == "sqlite":
            return SQLite(self._files / "peer.db", session=f"client-{self._number}").append
        if job.how == "call":
            return self._actor_call(job.where)
        store = self._connected(job.store)
        if job.how in ("recall", "known"):
            return self._recall(store, job.how)
        chats = cycle(self._sessions(store, job.where))
        return lambda: next(chats).append("user", TEXT, sync=job.how)

    def _connected(self, name: str) -> Any:
        import neverforget as nf

        if name not in self._stores:
            self._stores[name] = nf.connect(name, deadline=PATIENCE_S)
        return self._stores[name]

    def _sessions(self, store: Any, where: str) -> list[Any]:
        """So many of this client whose partitions are there."""
        how = {owner.partition: owner.through for owner in store.status().owners}
        wanted = {"here": ("socket",), "away": ("ray",), "any": ("socket", "ray")}[where]
        names = (f"client-{self._number}-{n}" for n in range(SESSIONS_TRIED))
        found = [chat for chat in map(store.session, names) if how[chat._place.partition] in wanted]
        assert len(found) >= SESSIONS_EACH, f"no partitions {where} for {self._node}: {how}"
        return found[:SESSIONS_EACH]

    def _actor_call(self, where: str) -> Callable[[], object]:
        import ray

        actor, record = ray.get_actor(f"echo-{where}", namespace="bench"), os.urandom(RECORD_BYTES)
        return lambda: ray.get(actor.call.remote(record))

    def _recall(self, store: Any, how: str) -> Callable[[], object]:
        strategy = "text" if how == "recall" else "hybrid"
        queries = cycle([f"memory {n} of parcel {n % 7}" for n in range(QUERIES)])
        for _ in range(QUERIES):
            store.recall(next(queries), strategy=strategy, wait=PATIENCE_S)
        return lambda: store.recall(next(queries), strategy=strategy)


class Driver:
    """Obeys ``Cluster``."""

    def __init__(self, address: str, ip: str, folder: str) -> None:
        import ray

        self._ray: Any = ray
        self._folder = folder
        self._clients: dict[str, list[Any]] = {}  # by node
        ray.init(address=address, _node_ip_address=ip, log_to_driver=False)

    def deploy(self, name: str, nodes: int, settings: Mapping[str, Any]) -> None:
        import neverforget as nf

        plan = {"path": f"$NF_DATA/{name}", "nodes": nodes, "settings": dict(settings)}
        nf.deploy(name, plan, wait=PATIENCE_S)

    def remember(self, name: str, count: int) -> None:
        """Memories to recall, all of them searchable when it returns."""
        import neverforget as nf

        with nf.connect(name, deadline=PATIENCE_S) as store:
            for at in range(0, count, 100):
                texts = [f"memory {n} of parcel {n % 7}: {TEXT[:100]}" for n in range(at, at + 100)]
                store.remember_many({"text": text} for text in texts)
            store.settle(timeout=PATIENCE_S)

    def clients(self, node: str, count: int) -> None:
        made = self._ray.remote(Client).options(num_cpus=0, resources={node: 0.001})
        known = self._clients.setdefault(node, [])
        while len(known) < count:
            number = sum(map(len, self._clients.values()))
            known.append(made.remote(number, node, self._folder))

    def echo(self, name: str, node: str) -> None:
        """The bare actor that is called for comparison."""
        made = self._ray.remote(AsyncEcho).options(
            num_cpus=0, resources={node: 0.001}, name=name, namespace="bench", lifetime="detached"
        )
        self._ray.get(made.remote().call.remote(b""))

    def prepare(self, spread: Mapping[str, int], job: Job) -> None:
        """``spread``: how many clients of each node take part."""
        self._ray.get([client.prepare.remote(job) for client in self._chosen(spread)])

    def calls(self, node: str, job: Job, count: int) -> list[int]:
        """Of the first client there."""
        found: list[int] = self._ray.get(self._clients[node][0].calls.remote(job, count))
        return found

    def run(self, spread: Mapping[str, int], job: Job, seconds: float) -> list[int]:
        """Of all of these at once."""
        start_at = time.time() + 0.3
        told = [each.run.remote(job, start_at, seconds) for each in self._chosen(spread)]
        return [sample for samples in self._ray.get(told) for sample in samples]

    def _chosen(self, spread: Mapping[str, int]) -> list[Any]:
        return [client for node, count in spread.items() for client in self._clients[node][:count]]


class Cluster:
    """The other end: what the measuring process holds."""

    def __init__(self, address: str, ip: str, folder: Path, environment: dict[str, str]) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "bench.node_clients", address, ip, str(folder)],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def ask(self, method: str, *arguments: Any) -> Any:
        assert self._process.stdin and self._process.stdout
        self._process.stdin.write(json.dumps([method, *arguments]) + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        if not answer:
            raise RuntimeError(f"the driver ended with {self._process.wait()}: {method}")
        return json.loads(answer)

    def close(self) -> None:
        self._process.communicate(timeout=60)


def main(address: str, ip: str, folder: str) -> None:
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # Ray prints on stdout, which is for answers here
    driver = Driver(address, ip, folder)
    for line in sys.stdin:
        method, *arguments = json.loads(line)
        print(json.dumps(getattr(driver, method)(*arguments)), file=answers, flush=True)


if __name__ == "__main__":
    # As a module, not as __main__: Ray sends what stands in that by value.
    from bench import node_clients

    node_clients.main(*sys.argv[1:4])
