"""What is deployed: a plan, as somebody writes it, and the description that stands on the disks.

A plan is a TOML file, or the same as a mapping::

    path = "/var/lib/neverforget/memory"   # on every node; ~ and $VARIABLE are expanded there
    resource = "neverforget"               # offered by the nodes that may hold a part; or
    # label = { memory = "yes" }           # ... the labels that these nodes carry
    nodes = 2                              # so many must offer it before the store is made
    failover = "auto"                      # needs settings.replica; "manual": only when told to
    failover_after_s = 30                  # how long a disk is away before its parts are moved
    [settings]                             # of the store, as for ``open``
    partitions = 4
    replica = "s3://bucket/memory"
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal

import msgspec

from neverforget.actors.actor_options import owner_name
from neverforget.actors.host_messages import OwnerView
from neverforget.actors.places import LONGTERM, REFLECTOR
from neverforget.runtime.config import CLIENT, FIXED, Config, named
from neverforget.storage.errors import InvalidArgument

RAY_PREFIX = "ray:"
Failover = Literal["manual", "auto"]
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_LABEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/-]{0,127}")


class Plan(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``settings``: fixed and host settings that were named. ``resource`` counts where ``label`` is
    empty. ``failover_after_s`` counts where ``failover`` is "auto"."""

    path: str
    resource: str = "neverforget"
    label: dict[str, str] = {}
    nodes: int = 1
    failover: Failover = "manual"
    failover_after_s: float = 30.0
    settings: dict[str, Any] = {}

    @property
    def place(self) -> tuple[str, str, dict[str, str]]:
        """Where its parts are looked for."""
        return self.path, "" if self.label else self.resource, self.label

    @property
    def offer(self) -> str:
        """For people: what a node that may hold a part has."""
        if self.label:
            return "the label " + ", ".join(f"{k}={v}" for k, v in sorted(self.label.items()))
        return f"the resource {self.resource!r}"


class Description(msgspec.Struct, frozen=True, kw_only=True):
    """A deployed store. ``partitions``: the disk of each, by its id; ``longterm``: that of the
    memories, of their embedders and of the reflector. "creating": regions may still be missing;
    "made": one that is missing is lost. The highest ``version`` counts. ``moved``: by the number
    of the place, the term of the log there: it grows with every move. ``started``: the version
    since which all owners are to have been started anew.
    """

    name: str
    store_id: str
    version: int
    state: Literal["creating", "made"]
    partitions: tuple[str, ...]
    longterm: str
    settings: dict[str, Any]
    moved: dict[int, int] = {}
    started: int = 1
    failover: Failover = "manual"
    failover_after_s: float = 30.0

    def disk_of(self, place: int) -> str:
        return self.longterm if place in (LONGTERM, REFLECTOR) else self.partitions[place]

    def owner(self, place: int) -> str:
        """The name of an owner in Ray: the same wherever its disk is."""
        owner = {LONGTERM: "lt0", REFLECTOR: "r0"}.get(place, f"p{place}")
        return owner_name(self.store_id, self.disk_of(place)[:8], owner)

    @property
    def disks(self) -> list[str]:
        return sorted({*self.partitions, self.longterm})

    def places_of(self, disk: str) -> list[int]:
        """Partitions, and LONGTERM for the memories."""
        found = [n for n, where in enumerate(self.partitions) if where == disk]
        return [*found, LONGTERM] if self.longterm == disk else found

    @property
    def config(self) -> Config:
        return Config(**self.settings)


class Where(msgspec.Struct, frozen=True, kw_only=True):
    """What a client needs. ``nodes``: by disk, the id in Ray of the node that has it now and its
    name, missing while it is away; ``sockets``: by the number of the place."""

    description: Description
    nodes: dict[str, tuple[str, str]] = {}
    sockets: dict[int, str] = {}


class Told(msgspec.Struct, frozen=True):
    """How a node host is. ``state``: "starting", "serving", "failing" (it tries again; ``reason``)
    or "ended". ``version``: of the description that it goes by. ``owners`` and ``sockets``: by the
    number of the place."""

    disk: str
    state: str
    reason: str | None
    version: int
    owners: dict[int, OwnerView]
    sockets: dict[int, str]


def away(description: Description, place: int) -> str:
    """For people: that no node has the disk of ``place``, and what to do."""
    named = "the memories are" if place in (LONGTERM, REFLECTOR) else f"partition {place} is"
    said = f"{named} away, no node of the cluster has the disk: start Ray on that node again"
    if description.settings.get("replica") is None:
        return said
    part = "memories" if place in (LONGTERM, REFLECTOR) else place
    return f"{said}, or: neverforget failover {description.name} {part}"


def where_of(
    description: Description, nodes: Mapping[str, tuple[str, str]], told: Iterable[Told]
) -> Where:
    """What clients are told. A host that has not yet given up what was moved away is not asked."""
    sockets = {
        place: path
        for host in told
        for place, path in host.sockets.items()
        if description.disk_of(place) == host.disk
    }
    return Where(description=description, nodes=dict(nodes), sockets=sockets)


def checked_name(name: object) -> str:
    """The name of a deployed store."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise InvalidArgument(
            f"name is {name!r}; a store's name is up to 64 letters, digits, '.', '_' and '-'"
        )
    return name


def split_address(text: str) -> tuple[str, str]:
    """ "ray:NAME" or "ray:NAME@ADDRESS" as name and address."""
    name, _, address = text.removeprefix(RAY_PREFIX).partition("@")
    return checked_name(name), address or "auto"


def read_plan(config: str | os.PathLike[str] | Mapping[str, Any]) -> tuple[str | None, Plan]:
    """A plan and the name that it may give. InvalidArgument where it is none."""
    what, values = "config", config
    if not isinstance(config, Mapping):
        file = Path(os.path.expanduser(config))
        what = str(file)
        try:
            values = msgspec.toml.decode(file.read_bytes())
        except OSError as error:
            raise InvalidArgument(f"{file} cannot be read: {error.strerror}") from error
        except msgspec.DecodeError as error:
            raise InvalidArgument(f"{file} is not valid TOML: {error}; correct it") from error
    assert isinstance(values, Mapping)
    plain = {name: value for name, value in values.items() if name != "name"}
    try:
        plan = msgspec.convert(plain, Plan)
    except msgspec.ValidationError as error:
        fields = ", ".join(("name", *Plan.__struct_fields__))
        raise InvalidArgument(
            f"{what} is no plan of a deployment: {error}; it may have {fields}, and failover is "
            '"manual" or "auto"'
        ) from error
    _check(plan, what)
    name = values.get("name")
    return None if name is None else checked_name(name), plan


def _check(plan: Plan, what: str) -> None:
    if not plan.path.startswith(("/", "~", "$")):
        raise InvalidArgument(
            f"{what}: path is {plan.path!r}; name a folder that each node has, from its root"
        )
    if not 1 <= plan.nodes <= 10_000:
        raise InvalidArgument(f"{what}: nodes is {plan.nodes}; a store needs 1 or more")
    if not 1 <= plan.failover_after_s <= 86_400:
        raise InvalidArgument(
            f"{what}: failover_after_s is {plan.failover_after_s}; give 1 to 86,400 seconds"
        )
    if plan.failover == "auto" and plan.settings.get("replica") is None:
        raise InvalidArgument(
            f'{what}: failover = "auto" moves a partition to a disk that has nothing of it, which '
            "needs a replica; set settings.replica, or leave failover out"
        )
    for word in (plan.resource, *plan.label, *plan.label.values()):
        if not _LABEL.fullmatch(word):
            raise InvalidArgument(f"{what}: {word!r} cannot be a resource or label")
    client = sorted(CLIENT & set(plan.settings))
    if client:
        raise InvalidArgument(
            f"{what}: {', '.join(client)} belongs to each client; pass it to connect"
        )
    for name, value in named(None, plan.settings).as_dict().items():
        if name in plan.settings and str(value).startswith("object:"):
            raise InvalidArgument(f"{what}: {name} cannot be an object; name a model")


def described(plan: Plan, name: str, store_id: str, disks: list[str]) -> Description:
    """A new store on ``disks``: partitions in turn, memories where fewest partitions are."""
    config = named(None, plan.settings)
    spread = tuple(disks[n % len(disks)] for n in range(config.partitions))
    return Description(
        name=name,
        store_id=store_id,
        version=1,
        state="creating",
        partitions=spread,
        longterm=min(reversed(disks), key=spread.count),
        settings={**config.named, **{n: v for n, v in config.as_dict().items() if n in FIXED}},
        failover=plan.failover,
        failover_after_s=plan.failover_after_s,
    )


def updated(found: Description, plan: Plan) -> Description:
    """``found`` with the host settings of ``plan``; only these start owners anew. InvalidArgument
    where it would change what was fixed when the store was made."""
    have = found.config.as_dict()
    asked = named(None, plan.settings).as_dict()
    for setting in sorted(FIXED & set(plan.settings)):
        if asked[setting] != have[setting]:
            raise InvalidArgument(
                f"{found.name} was deployed with {setting} = {have[setting]!r}, which was fixed "
                f"then and cannot become {asked[setting]!r}; put {have[setting]!r} back, or deploy "
                "under another name and path and import into that"
            )
    fixed = {n: v for n, v in found.settings.items() if n in FIXED}
    settings = {**{n: v for n, v in plan.settings.items() if n not in FIXED}, **fixed}
    changed = msgspec.structs.replace(
        found,
        settings=settings,
        failover=plan.failover,
        failover_after_s=plan.failover_after_s,
    )
    if changed == found:
        return found
    version = found.version + 1
    started = found.started if settings == found.settings else version
    return msgspec.structs.replace(changed, version=version, started=started)
