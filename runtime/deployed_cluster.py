"""Ray, for deployed stores: joining a cluster, keeper, node hosts, and what is done on a node."""

from __future__ import annotations

import contextlib
import logging
import socket
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import msgspec
import ray
from ray.exceptions import (
    ActorDiedError,
    ActorUnschedulableError,
    GetTimeoutError,
    RayError,
    RayTaskError,
)
from ray.experimental import internal_kv
from ray.util.client import ray as ray_client
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from neverforget.actors import ray_link
from neverforget.actors.actor_options import KEEPER, NAMESPACE, NODE_HOST
from neverforget.runtime.deployed_channel import keeper_name
from neverforget.runtime.deployment import Plan, Told, Where
from neverforget.storage.errors import (
    InvalidArgument,
    NeverforgetError,
    NotFound,
    Unavailable,
    from_wire,
)

if TYPE_CHECKING:
    from neverforget.runtime.keeper import Keeper

T = TypeVar("T")
_NODE_S = 60.0  # for what is done on a node
_NAME_FREE_S = 15.0
_HEAD_S = 3.0
_PAUSE_S = 0.1
_NAMED = ("auto", "local")  # addresses that are none, but stand for one


class RayNode(NamedTuple):
    id: str
    name: str


def join(address: str) -> str:
    """Be connected to the Ray at ``address``; its address. One that this process is connected to
    already is used, and must be that one. It stays connected."""
    _check_address(address)
    if ray.is_initialized():
        wrong = ray_link.trouble()
        if wrong in ("cluster ended", "node lost"):
            raise Unavailable(ray_link.explained(wrong), outcome="not_applied")
    else:
        _check_head(address)
        try:
            ray.init(
                address=address,
                namespace=NAMESPACE,
                log_to_driver=False,
                logging_level=logging.ERROR,
            )
        except (ConnectionError, RayError, RuntimeError, ValueError) as error:
            raise ray_link.not_joined(address, error) from error
        _joined[address] = ray.get_runtime_context().gcs_address
    if ray_client.is_connected():
        raise InvalidArgument(
            "this process uses Ray Client, through which owners cannot be reached; run it on a "
            "node of the cluster"
        )
    found: str = ray.get_runtime_context().gcs_address
    if address not in ("auto", "local", found) and _joined.get(address) != found:
        raise InvalidArgument(
            f"this process is connected to the Ray at {found}, not {address}; leave address out"
        )
    return found


_joined: dict[str, str] = {}  # addresses that were joined here, and what Ray calls them


def _check_address(address: str) -> None:
    if address.startswith("ray://"):
        raise InvalidArgument(
            f"{address!r} is an address of Ray Client, through which owners cannot be reached; run "
            "this on a node of the cluster, with the head's HOST:PORT"
        )
    _, _, port = address.rpartition(":")
    if address not in _NAMED and not (port.isdecimal() and 0 < int(port) < 65536):
        raise InvalidArgument(
            f"address is {address!r}; give HOST:PORT of the cluster's head, such as "
            "192.0.2.1:6379, or auto"
        )


def _check_head(address: str) -> None:
    """Ray waits for half a minute for a head that is not there, and then may end the process."""
    if address in _NAMED:
        return
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=_HEAD_S).close()
    except (OSError, UnicodeError) as error:  # the latter: what cannot be the name of a host
        raise ray_link.not_joined(address, error) from error


def gcs_address() -> str:
    found: str = ray.get_runtime_context().gcs_address
    return found


def offering(plan: Plan) -> list[RayNode]:
    """The nodes that are there and offer what ``plan`` wants of them."""
    found = []
    for node in ray.nodes():
        labels = node.get("Labels") or {}
        if plan.label:
            offers = plan.label.items() <= labels.items()
        else:
            offers = node["Resources"].get(plan.resource, 0) > 0
        if node["Alive"] and offers:
            found.append(RayNode(node["NodeID"], node["NodeName"] or node["NodeManagerHostname"]))
    return found


def on_node(
    node: str, function: Callable[..., T], *arguments: Any, wait_s: float | None = _NODE_S
) -> T:
    """What ``function`` returns there. Raises what it raises of ours, and Unavailable. ``wait_s``
    None: for as long as it takes."""
    remote: Any = ray.remote(function)
    pinned = remote.options(
        num_cpus=0,
        max_retries=0,
        scheduling_strategy=NodeAffinitySchedulingStrategy(node, soft=False),
    )
    found: T = _got(pinned.remote(*arguments), wait_s, f"node {node[:8]}")
    return found


def remembered(store: str) -> bytes | None:
    """What ``remember`` was last given for ``store``, for as long as this Ray lives."""
    found: bytes | None = internal_kv._internal_kv_get(_key(store))
    return found


def remember(store: str, description: bytes) -> None:
    internal_kv._internal_kv_put(_key(store), description, overwrite=True)


def _key(store: str) -> bytes:
    return f"{NAMESPACE}:{store}".encode()


# ---- node hosts ----------------------------------------------------------------------------------


class NodeHostHandle:
    """One node's host. ``wait`` in ``told``: seconds."""

    def __init__(self, actor: Any, node: str) -> None:
        self._actor = actor
        self.node = node

    def told(self, wait_s: float) -> Told:
        """How it is. Unavailable; NotFound: it has ended for good."""
        return msgspec.msgpack.decode(
            _got(self._actor.describe.remote(), wait_s, "a host"), type=Told
        )

    def follow(self, wait_s: float) -> None:
        """Have it go by the description that stands on its disk now. Unavailable; NotFound."""
        _got(self._actor.follow.remote(), wait_s, "a host")

    def stop(self, wait_s: float) -> None:
        """In order, then for good, whatever becomes of that."""
        with contextlib.suppress(Unavailable):
            _got(self._actor.stop.remote(), wait_s, "a host")
        self.end()

    def end(self) -> None:
        with contextlib.suppress(RayError, ValueError):
            ray.kill(self._actor, no_restart=True)


def start_node_host(name: str, node: str, path: str, disk: str, store_id: str) -> NodeHostHandle:
    """The host of the part on ``node``; one that runs already is taken over. ``name`` carries disk
    and node: one that was there before is another's."""
    # Only here: a client that connects, one of hundreds at once, loads none of what an owner needs.
    from neverforget.actors.spawn import made_remote
    from neverforget.runtime.node_host import NodeHost

    remote_class = made_remote(
        NodeHost,
        **NODE_HOST,
        name=name,
        namespace=NAMESPACE,
        lifetime="detached",
        get_if_exists=True,
        # Hard: the disk is on this node. A node that returns is another one to Ray; the keeper
        # makes the next host there.
        scheduling_strategy=NodeAffinitySchedulingStrategy(node, soft=False),
    )
    return NodeHostHandle(remote_class.remote(path, disk, store_id), node)


def running_node_host(name: str, node: str) -> NodeHostHandle | None:
    """That of a part, where one runs; none is started."""
    try:
        return NodeHostHandle(ray.get_actor(name, namespace=NAMESPACE), node)
    except ValueError:
        return None


# ---- the keeper, as others see it ----------------------------------------------------------------


def ask_keeper(name: str, wait_s: float) -> Where:
    """Where the owners of ``name`` are. NotFound: no such store is deployed. Unavailable: what the
    keeper says, or, for so long, no head or no keeper was there to say it."""
    give_up_at = time.monotonic() + wait_s
    while True:
        left_s = max(0.001, give_up_at - time.monotonic())
        try:
            ray_link.check(min(left_s, ray_link.ANSWER_S))
            keeper = _keeper(name)
            if keeper is None:
                raise _not_deployed(name)
            told = _got(keeper.where.remote(), left_s, "the keeper")
        except Unavailable:
            if time.monotonic() + _PAUSE_S >= give_up_at:
                raise
            time.sleep(_PAUSE_S)  # Ray starts it again, or somebody the head
        else:
            return msgspec.msgpack.decode(_said(*told), type=Where)


def deploy_by_keeper(cls: type[Keeper], name: str, plan: Plan, wait_s: float) -> Where:
    """Have the keeper, made if there is none, create or update the store. Raises what it says."""
    from neverforget.actors.spawn import made_remote

    remote_class = made_remote(
        cls,
        **KEEPER,
        name=keeper_name(name),
        namespace=NAMESPACE,
        lifetime="detached",
        get_if_exists=True,
    )
    keeper = remote_class.remote(name, msgspec.msgpack.encode(plan))
    payload = _answer(keeper.deploy.remote(msgspec.msgpack.encode(plan), wait_s), wait_s + 30.0)
    return msgspec.msgpack.decode(payload, type=Where)


def failover_by_keeper(name: str, place: int, to: str | None, wait_s: float) -> None:
    """Have one part served from another disk. Raises what the keeper says, and NotFound.

    The keeper may be on the node that was lost, and come back elsewhere: it is told again, with the
    term that the part had before, by which it knows what was carried out.
    """
    until = time.monotonic() + wait_s
    before: int | None = None
    while True:
        left_s = max(1.0, until - time.monotonic())
        known = ask_keeper(name, left_s).description.moved.get(place, 0)
        before = known if before is None else before
        try:
            keeper = _keeper(name)
            if keeper is None:
                raise _not_deployed(name)
            asked = keeper.failover.remote(place, to, left_s, before)
            told = _got(asked, left_s + 90.0, "the keeper")
        except Unavailable:
            if time.monotonic() >= until:
                raise
            time.sleep(_PAUSE_S)
        else:
            _said(*told)
            return


def undeploy_by_keeper(name: str, wait_s: float) -> None:
    """End everything in order. NotFound."""
    keeper = _keeper(name)
    if keeper is None:
        raise _not_deployed(name)
    _answer(keeper.undeploy.remote(), wait_s)
    with contextlib.suppress(RayError, ValueError):
        ray.kill(keeper, no_restart=True)
    give_up_at = time.monotonic() + _NAME_FREE_S
    while _keeper(name) is not None and time.monotonic() < give_up_at:
        time.sleep(0.05)


def _keeper(name: str) -> Any | None:
    try:
        return ray.get_actor(keeper_name(name), namespace=NAMESPACE)
    except ValueError:
        return None


def _not_deployed(name: str) -> NotFound:
    return NotFound(
        f"no store {name!r} is deployed on the Ray cluster at {gcs_address()}; run: "
        "neverforget deploy CONFIG"
    )


def _answer(call: Any, wait_s: float) -> bytes:
    return _said(*_got(call, wait_s, "the keeper"))


def _said(payload: bytes, wrong: tuple[str, str, dict[str, Any]] | None) -> bytes:
    """The keeper answers (payload, None), or (b"", what is wrong)."""
    if wrong is not None:
        raise from_wire(*wrong)
    return payload


def _got(call: Any, wait_s: float | None, who: str) -> Any:
    try:
        return ray.get(call, timeout=wait_s)
    except RayTaskError as error:
        cause = getattr(error, "cause", None)
        if isinstance(cause, NeverforgetError):
            raise cause from None
        # Of one node, where the package may be missing or another version: not of whoever asks.
        why = str(error).strip().rpartition("\n")[2]  # without how it came to that
        raise NeverforgetError(f"{who} cannot do what it was asked to: {why}") from error
    except (ActorDiedError, ActorUnschedulableError) as error:
        raise NotFound(f"{who} has ended for good: {error}") from error
    except GetTimeoutError as error:
        raise Unavailable(
            f"{who} has not answered within {wait_s or 0:.0f} s; what it was told may go on: look "
            "with neverforget status, or ask again",
            outcome="unknown",
        ) from error
    except RayError as error:
        why = str(error).strip().partition("\n")[0]
        raise Unavailable(f"{who} does not answer: {why}", outcome="unknown") from error
