"""A driver whose Ray Serve replicas, actors and tasks connect to one deployed store.

    python -m tests.cluster.serve_replicas ADDRESS HERE STORES

``HERE`` and ``STORES`` are resources of two nodes: only the second one has the store. Prints what
came of it, as one line of JSON.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import ray
from ray import serve
from ray.exceptions import RayError

import neverforget as nf
from tests.cluster.cluster_nodes import PATIENCE_S, until

NAME = "chats"
SESSIONS = 4
REQUESTS = 40
Said = tuple[str, int]  # session and seq


class Replica:
    """Of a deployment whose methods are plain: it connects when it is made."""

    def __init__(self) -> None:
        self._store = nf.connect(NAME, deadline=PATIENCE_S)

    def __call__(self, session: str, text: str, key: str) -> Said:
        turn = self._store.session(session).append("user", text, key=key)
        return session, turn.seq

    def through(self) -> list[str]:
        return sorted({str(owner.through) for owner in self._store.status().owners})

    def pid(self) -> int:
        return os.getpid()


class AsyncReplica:
    """Of a deployment whose methods are coroutines; a plain handle works in them as well, and holds
    the loop up."""

    async def __init__(self) -> None:  # type: ignore[misc]  # Serve awaits it
        self._store = await nf.aio.connect(NAME, deadline=PATIENCE_S)
        self._plain = nf.connect(NAME, deadline=PATIENCE_S)

    async def __call__(self, session: str, text: str, key: str) -> Said:
        turn = await self._store.session(session).append("user", text, key=key)
        assert self._plain.session(session)[turn.seq].content == text
        return session, turn.seq

    async def through(self) -> list[str]:
        return sorted({str(owner.through) for owner in (await self._store.status()).owners})

    async def pid(self) -> int:
        return os.getpid()


class Agent:
    """An actor that is given a handle, as one is passed to ``remote``."""

    def __init__(self, store: nf.Store) -> None:
        self._store = store

    def say(self, session: str, text: str, key: str) -> Said:
        return session, self._store.session(session).append("user", text, key=key).seq


class AsyncAgent:
    """An actor whose calls run side by side on one loop; all of them connect at once."""

    async def say(self, session: str, text: str, key: str) -> Said:
        async with await nf.aio.connect(NAME, deadline=PATIENCE_S) as store:
            return session, (await store.session(session).append("user", text, key=key)).seq


def say(session: str, text: str, key: str) -> Said:
    """A task."""
    with nf.connect(NAME, deadline=PATIENCE_S) as store:
        return session, store.session(session).append("user", text, key=key).seq


def requests(who: str) -> Iterable[tuple[str, str, str]]:
    """Session, text and key of what ``who`` is asked for."""
    for n in range(REQUESTS):
        yield f"chat-{n % SESSIONS}", f"{who} {n}", f"{who}-{n}"


class Driver:
    """Asks everybody, and keeps what was acknowledged: by key, session, seq and text."""

    def __init__(self) -> None:
        self.acknowledged: dict[str, tuple[str, int, str]] = {}

    def ask(self, who: str, call: Callable[..., Any], got: Callable[[Any], Said]) -> None:
        asked = [(request, call(*request)) for request in requests(who)]
        for (_, text, key), answer in asked:
            self.acknowledged[key] = (*got(answer), text)

    def replicas(self, handle: Any, who: str) -> None:
        self.ask(who, handle.remote, lambda answer: answer.result(timeout_s=PATIENCE_S))

    def wrong(self) -> list[str]:
        """Each key whose turn is not there as it was acknowledged, and each turn too much."""
        found: dict[str, tuple[str, int, str]] = {}
        doubled = []
        with nf.connect(NAME, deadline=PATIENCE_S) as store:
            for n in range(SESSIONS):
                for turn in store.session(f"chat-{n}"):
                    doubled += [str(turn.key)] if turn.key in found else []
                    found[str(turn.key)] = (f"chat-{n}", turn.seq, str(turn.content))
        both = found.keys() | self.acknowledged.keys()
        return doubled + sorted(k for k in both if found.get(k) != self.acknowledged.get(k))


def on(node: str) -> dict[str, Any]:
    return {"num_cpus": 0, "resources": {node: 0.001}}


def started(here: str, stores: str) -> dict[str, Any]:
    """The handle of each application, by its name."""
    serve.start(proxy_location="Disabled")  # replicas are called through handles: no HTTP
    targets = []
    for kind, replica, node in (("plain", Replica, stores), ("async", AsyncReplica, here)):
        deployment: Any = serve.deployment(replica)
        app = deployment.options(num_replicas=2, ray_actor_options=on(node)).bind()
        targets.append(serve.RunTarget(app, name=f"{kind}-{node}", route_prefix=None))
    handles = serve.run_many(targets)
    return {target.name: handle for target, handle in zip(targets, handles, strict=True)}


def after_kill(handle: Any, driver: Driver, who: str) -> bool:
    """End a replica's process and an owner's; what is asked then is answered, by another replica or
    by the next one in its place, and repeated under its key where an answer was lost."""
    killed = handle.pid.remote().result(timeout_s=PATIENCE_S)
    with nf.connect(NAME, deadline=PATIENCE_S) as store:
        os.kill(store.status().owners[0].pid, signal.SIGKILL)
    os.kill(killed, signal.SIGKILL)

    def answered(request: tuple[str, str, str]) -> Said | None:
        try:
            said: Said = handle.remote(*request).result(timeout_s=PATIENCE_S)
        except RayError:  # it was under way to the one that was killed
            return None
        return said

    for request in requests(who):
        session, seq = until(partial(answered, request), "an answer")
        driver.acknowledged[request[2]] = (session, seq, request[1])
    return True


def main(address: str, here: str, stores: str) -> dict[str, Any]:
    ray.init(address=address, log_to_driver=False)
    settings = {"partitions": 2, "embedder": "none", "segment_bytes": 1 << 20}
    nf.deploy(NAME, {"path": "$NF_DATA/chats", "settings": settings}, wait=3 * PATIENCE_S)
    driver = Driver()
    handles = started(here, stores)
    for who, handle in handles.items():
        driver.replicas(handle, who)
    through = {
        who: handle.through.remote().result(timeout_s=PATIENCE_S) for who, handle in handles.items()
    }
    remote: Any = ray.remote
    with nf.connect(NAME, deadline=PATIENCE_S) as store:
        for node in (here, stores):
            task = remote(say).options(**{**on(node), "num_cpus": 1})  # four processes at most
            driver.ask(f"task-{node}", task.remote, ray.get)
            agent = remote(Agent).options(**on(node)).remote(store)
            driver.ask(f"actor-{node}", agent.say.remote, ray.get)
            looping = remote(AsyncAgent).options(**on(node)).remote()
            driver.ask(f"async-actor-{node}", looping.say.remote, ray.get)
    survived = after_kill(handles[f"plain-{stores}"], driver, "killed")
    survived &= after_kill(handles[f"async-{here}"], driver, "async-killed")
    wrong = driver.wrong()
    serve.shutdown()
    nf.undeploy(NAME)
    ray.shutdown()
    return {
        "acknowledged": len(driver.acknowledged),
        "wrong": wrong,
        "through": through,
        "survived": survived,
    }


if __name__ == "__main__":
    print(json.dumps(main(*sys.argv[1:4])), flush=True)
