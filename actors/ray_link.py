"""This process's link to its Ray cluster: whether the head answers, whether the node through which
it came is still there, which nodes are being drained.

Asked through Ray's GcsClient, whose calls end in time, with an error. ``ray.nodes`` and
``ray.get_actor`` wait for a lost head without end, and ``ray.nodes`` aborts the whole process when
another cluster answers in its place (Ray 2.60).
"""

from __future__ import annotations

from typing import Any, Literal

import ray
from ray._private import worker as ray_worker
from ray.exceptions import AuthenticationError, RpcError

from neverforget.storage.errors import Unavailable

Trouble = Literal["head silent", "cluster ended", "node lost", "not connected"]

# A head that is well answers in a millisecond.
ANSWER_S = 1.0


def trouble(timeout_s: float = ANSWER_S) -> Trouble | None:
    """What is wrong with the link, None: nothing. "head silent" may pass; the others do not."""
    if not ray.is_initialized():
        return "not connected"
    try:
        mine = ray.NodeID.from_hex(ray.get_runtime_context().get_node_id())
        (alive,) = _gcs().check_alive([mine], timeout=timeout_s)
    except AuthenticationError:  # the id of another cluster
        return "cluster ended"
    except RpcError:
        return "head silent"
    return None if alive else "node lost"


def explained(found: Trouble) -> str:
    """For people, with the remedy."""
    if found == "not connected":
        return "this process is not connected to Ray any more; call nf.connect again"
    address = ray.get_runtime_context().gcs_address
    again = "start this process again, or close the store, call ray.shutdown() and connect again"
    return {
        "head silent": f"the head of the Ray cluster at {address} does not answer: start it again",
        "cluster ended": f"the Ray cluster that this process was connected to has ended, another "
        f"answers at {address}: {again}, after neverforget deploy CONFIG",
        "node lost": "Ray has given up the node through which this process came to it, so owners "
        f"that were started since cannot be reached: {again}",
    }[found]


def not_joined(address: str, error: BaseException) -> Unavailable:
    """Why Ray does not let this process join the cluster at ``address``. Ray says of a token that
    is missing, or another's, only that it could not connect: the reason stands behind."""
    each: BaseException | None = error
    while each is not None:
        if "authentication token" in str(each).lower():
            return Unavailable(
                f"the Ray cluster at {address!r} asks for a token, and this process shows none, or "
                "not that one: set RAY_AUTH_MODE=token, and put what `ray get-auth-token` prints "
                "on its head into ~/.ray/auth_token or RAY_AUTH_TOKEN",
                outcome="not_applied",
            )
        each = each.__cause__ or each.__context__
    why = str(error).strip().partition("\n")[0]
    return Unavailable(
        f"no Ray cluster at {address!r}: {why}; start one, or pass its address",
        outcome="not_applied",
    )


def check(timeout_s: float = ANSWER_S) -> None:
    """Before what would wait for a lost head without end, or make Ray start a cluster, or join a
    stranger's. Raises Unavailable."""
    found = trouble(timeout_s)
    if found is not None and found != "node lost":
        raise Unavailable(explained(found), outcome="not_applied")


def draining(timeout_s: float = ANSWER_S) -> dict[str, float]:
    """The nodes that are being drained, by id: until when, seconds since 1970, 0: no limit. Raises
    Unavailable."""
    if not ray.is_initialized():
        raise Unavailable(explained("not connected"), outcome="not_applied")
    try:
        found: dict[str, int] = _gcs().get_draining_nodes(timeout=timeout_s)
    except (RpcError, AuthenticationError) as error:
        raise Unavailable(f"the head does not answer: {error}", outcome="not_applied") from error
    return {_hex(node): until_ms / 1000 for node, until_ms in found.items()}


def node_id() -> str:
    """Of the node that this process runs on."""
    found: str = ray.get_runtime_context().get_node_id()
    return found


def _hex(node: Any) -> str:
    return node if isinstance(node, str) else str(node.hex())


def _gcs() -> Any:
    worker: Any = ray_worker.global_worker
    return worker.gcs_client
