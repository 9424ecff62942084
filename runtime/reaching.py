"""The three ways to reach a store's owners: inside this process, through their sockets on this
node, or, where a handle came to another node, as Ray actors.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from neverforget.actors.places import REFLECTOR
from neverforget.runtime import config as settings
from neverforget.runtime.channel import Channel, SocketChannel
from neverforget.runtime.config import Config
from neverforget.runtime.deploying import is_deployed
from neverforget.runtime.deployment import split_address
from neverforget.runtime.endpoint import Named
from neverforget.storage.clock import Clock, SystemClock
from neverforget.storage.directory_lock import LOCK_FILE
from neverforget.storage.errors import (
    InvalidArgument,
    NeverforgetError,
    NotFound,
    UnsupportedFormat,
)
from neverforget.storage.filesystem import LocalFileSystem
from neverforget.storage.identity import read_identity

if TYPE_CHECKING:
    from neverforget.runtime.async_channel import AsyncChannel

_RING_S = 5.0
HostChoice = Literal["auto", "never"]
Kind = Literal["inline", "attached", "ray", "deployed"]


@dataclass(frozen=True)
class Wanted:
    """How a store is to be opened; see ``neverforget.open``. ``named`` and
    ``hosted``: the owners' names in Ray and the host's settings, as a handle brought them here from
    another node. ``reflects`` False: inline, nothing is reflected by itself.
    """

    host: HostChoice = "auto"
    inline: bool = False
    wait_s: float = 30.0
    create: bool = True
    store_id: str | None = None
    asked: Config = field(default_factory=Config)
    clock: Clock = field(default_factory=SystemClock)
    named: Named = field(default_factory=Named)
    hosted: dict[str, Any] = field(default_factory=dict)
    reflects: bool = True


@dataclass(frozen=True)
class Reach:
    """A way to the owners that is open. ``config``: fixed and host settings. ``holder_pid``: the
    process that holds the store, None where it cannot be told. ``named``: the owners'
    names in Ray. ``displaced``: the store's directory was deleted, renamed or replaced since, or
    its name given to another store. ``lend_embedder``: let the store embed with this object, too;
    the name of its setting, or InvalidArgument where owners live elsewhere. ``reflects``: the
    reflector was needed already, where it is an object of this process. ``through``: how calls to
    an owner go, "inline", "socket" or "ray".
    """

    kind: Kind
    store_id: str
    config: Config
    channel: Channel
    async_channel: Callable[[], AsyncChannel]
    release: Callable[[], None]
    holder_pid: Callable[[], int | None]
    named: Callable[[], Named]
    displaced: Callable[[], bool]
    lend_embedder: Callable[[Any], str]
    reflects: Callable[[], bool] = lambda: False
    through: Callable[[int], str] = lambda place: "socket"

    @property
    def hosted(self) -> bool:
        """Somebody can be asked for all owners at once."""
        return self.kind in ("attached", "deployed")


def reach(path: Path, wanted: Wanted) -> Reach:
    """Find a way, opening or bringing up what has to be. Raises what ``neverforget.open`` does."""
    if is_deployed(path):
        return _deployed(path, wanted)
    if wanted.inline:
        return _inline(path, wanted)
    if wanted.named.partitions and not path.exists():
        from neverforget.runtime.ray_channel import is_connected

        if is_connected():
            return _over_ray(wanted)
    return _attached(path, wanted)


def _attached(path: Path, wanted: Wanted) -> Reach:
    from neverforget.runtime.opening import attach

    attachment = attach(
        path,
        host=wanted.host,
        wait=wanted.wait_s,
        create=wanted.create,
        store_id=wanted.store_id,
        config=wanted.asked,
    )
    try:
        config = settings.attached(Config(), attachment.endpoint.settings, {})
        displaced = partial(_is_displaced, path, _place(path))
    except BaseException:
        attachment.close()
        raise

    def async_channel() -> AsyncChannel:
        from neverforget.runtime.async_channel import AsyncSocketChannel

        return AsyncSocketChannel(attachment.store_id, attachment)

    return Reach(
        "attached",
        attachment.store_id,
        config,
        SocketChannel(attachment.store_id, attachment),
        async_channel,
        attachment.close,
        lambda: attachment.endpoint.process.pid,
        lambda: attachment.endpoint.named,
        displaced,
        attachment.lend_embedder,
    )


def _inline(path: Path, wanted: Wanted) -> Reach:
    from neverforget.runtime.inline import open_inline
    from neverforget.runtime.inline_channel import InlineChannel

    host = open_inline(
        path,
        wanted.asked,
        create=wanted.create,
        store_id=wanted.store_id,
        clock=wanted.clock,
        reflects=wanted.reflects,
    )
    channel = InlineChannel(host.partitions, host.lock, host.longterm, host.reflection)

    def async_channel() -> AsyncChannel:
        from neverforget.runtime.async_inline_channel import AsyncInlineChannel

        return AsyncInlineChannel(channel)

    return Reach(
        "inline",
        host.store_id,
        host.config,
        channel,
        async_channel,
        host.close,
        lambda: None,
        Named,
        host.displaced,
        host.lend_embedder,
        lambda: host.reflection.runs,
        lambda place: "inline",
    )


def _over_ray(wanted: Wanted) -> Reach:
    from neverforget.runtime.ray_channel import AsyncRayChannel, RayChannel

    named = wanted.named

    def lost(place: int) -> None:
        """There may be no reflector yet. No bell hangs in Ray, but an owner on the same node can
        ring the one that hangs there."""
        if place == REFLECTOR:
            channel.handle(0).ring(named.bell, _RING_S)

    others = {REFLECTOR: named.reflector} if named.bell else {}
    channel = RayChannel(named.partitions, named.longterm, others, lost)
    assert wanted.store_id is not None, "only an address names actors, and it names its store"
    return Reach(
        "ray",
        wanted.store_id,
        settings.attached(Config(), wanted.hosted, {}),
        channel,
        lambda: AsyncRayChannel(channel),
        lambda: None,
        lambda: None,
        lambda: named,
        lambda: False,
        _not_here,
        through=lambda place: "ray",
    )


def _deployed(path: Path, wanted: Wanted) -> Reach:
    from neverforget.runtime import deployed_cluster
    from neverforget.runtime.deployed_channel import AsyncDeployedChannel, DeployedChannel

    name, address = split_address(str(path))
    deployed_cluster.join(address)
    where = deployed_cluster.ask_keeper(name, wanted.wait_s)
    store_id = where.description.store_id
    if wanted.store_id not in (None, store_id):
        raise UnsupportedFormat(
            f"{name} is store {store_id} now, not {wanted.store_id}; connect again"
        )
    channel = DeployedChannel(where)
    return Reach(
        "deployed",
        store_id,
        where.description.config,
        channel,
        lambda: AsyncDeployedChannel(channel),
        lambda: None,
        lambda: None,
        Named,
        lambda: channel.replaced,
        _not_here,
        through=channel.through,
    )


def _not_here(embedder: Any) -> str:
    raise InvalidArgument(
        "an embedder object lives in the process that hosts the store, and that is on another "
        "node; call this there, or name a model"
    )


def _place(path: Path) -> tuple[int, int, str] | None:
    """Which store stands at ``path``: its LOCK, which all hosts of a store take in turn, and its
    id, since a new file may get the number of a deleted one. None: none does."""
    try:
        status = (path / LOCK_FILE).stat()
        return status.st_dev, status.st_ino, read_identity(LocalFileSystem(), path).store_id
    except (FileNotFoundError, NotADirectoryError, NotFound):
        return None


def _is_displaced(path: Path, place: tuple[int, int, str] | None) -> bool:
    try:
        return _place(path) != place
    except (OSError, NeverforgetError):
        return False  # it cannot be told: whoever asks the owners will learn
