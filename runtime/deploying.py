"""``deploy``, ``undeploy`` and ``connect``, in the caller's thread."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from neverforget.runtime.deployment import (
    RAY_PREFIX,
    checked_name,
    read_plan,
    split_address,
)
from neverforget.runtime.setting_checks import check_seconds
from neverforget.runtime.store_path import real_path
from neverforget.runtime.values import CONFIRMED, Confirmation
from neverforget.storage.errors import ConfirmationRequired, InvalidArgument

if TYPE_CHECKING:
    from neverforget.runtime.reaching import Wanted

DEPLOY_S = 120.0


def deploy(
    name: str | None,
    config: str | os.PathLike[str] | Mapping[str, Any],
    *,
    address: str = "auto",
    wait: float = DEPLOY_S,
) -> None:
    """Create the named store on the Ray cluster at ``address``, or update its host settings.

    ``config``: a TOML file, or the same as a mapping; see ``deployment.py``. ``name`` None: the one
    in ``config``. Its partitions are spread over the nodes that offer what ``config`` names, each
    pinned to the node that has its disk. Returns when all owners serve; repeated, it changes
    nothing. ``wait``: seconds for that. What was said is on the disks: a store that was undeployed
    comes back with it.

    Raises InvalidArgument (another number of partitions, or another fixed setting, than the store
    has), UnsupportedFormat (a node's folder holds something else), Unavailable (no such Ray, too
    few nodes, owners that do not start).
    """
    said, plan = read_plan(config)
    check_seconds("wait", wait)
    if name is None and said is None:
        raise InvalidArgument("the store has no name; pass one, or set name in config")
    chosen = checked_name(said if name is None else name)
    if said is not None and said != chosen:
        raise InvalidArgument(f"config is that of the store {said!r}, not of {chosen!r}")
    from neverforget.runtime import deployed_cluster
    from neverforget.runtime.keeper import Keeper

    deployed_cluster.join(address)
    deployed_cluster.deploy_by_keeper(Keeper, chosen, plan, wait)


def undeploy(name: str, *, address: str = "auto") -> None:
    """End the named store's actors, in order. Its data stays where it is: deploy it again to have
    it back. NotFound: no such store is deployed.
    """
    checked = checked_name(name)
    from neverforget.runtime import deployed_cluster

    deployed_cluster.join(address)
    deployed_cluster.undeploy_by_keeper(checked, DEPLOY_S)


def failover(
    name: str,
    partition: int | str,
    *,
    confirm: Confirmation | None = None,
    to: str | None = None,
    address: str = "auto",
    wait: float = DEPLOY_S,
) -> None:
    """Have a partition of the named store, or its "memories", served from another disk.

    The owner there takes over what the store's replica holds, and the old one acknowledges nothing
    at ``sync="replica"`` any more. Where the old disk is there its owner ends in order first, so
    that nothing is missing; else what it had acknowledged at "disk" and not shipped, about a second
    of it, comes back when that disk does. Vectors of memories are made anew. Other parts go on.

    ``confirm`` must be ``nf.CONFIRMED``. ``to``: the node, by the id or name that Ray gives it;
    None: where fewest parts are. Naming the node that it is on takes it back there, if somebody
    else had taken it over. Returns when the part serves; ``wait``: seconds for that. After
    Unavailable with outcome "unknown" it goes on by itself.

    Raises ConfirmationRequired, NotFound (no such store), InvalidArgument (no such partition or
    node, or a store without a replica), Unavailable (no other disk, the replica does not answer).
    """
    from neverforget.runtime.moving import checked_place, named

    checked, place = checked_name(name), checked_place(partition)
    check_seconds("wait", wait)
    if confirm is not CONFIRMED:
        raise ConfirmationRequired(
            f"a failover ends the owner of {named(place)} for good, where it is now; pass "
            "confirm=nf.CONFIRMED if it is meant"
        )
    from neverforget.runtime import deployed_cluster

    deployed_cluster.join(address)
    deployed_cluster.failover_by_keeper(checked, place, to, wait)


def path_of(path: str | os.PathLike[str], wanted: Wanted) -> Path:
    """The real path that ``open`` is given, or what stands for that of a deployed store."""
    if not isinstance(path, str) or not path.startswith(RAY_PREFIX):
        return real_path(path)
    name, address = split_address(path)
    if wanted.inline:
        raise InvalidArgument(f"{path} lives on a Ray cluster; leave inline=True out")
    return connected_path(name, address)


def connected_path(name: str, address: str) -> Path:
    """Connect this process to the Ray at ``address``. What stands for the store's path."""
    checked = checked_name(name)
    from neverforget.runtime import deployed_cluster

    return Path(f"{RAY_PREFIX}{checked}@{deployed_cluster.join(address)}")


def is_deployed(path: Path) -> bool:
    """``path`` is one that ``connected_path`` made."""
    return not path.is_absolute() and str(path).startswith(RAY_PREFIX)
