"""How the region of an owner is opened by what its spec says, and let go of."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

from neverforget.actors.owner_spec import OwnerSpec, region_options
from neverforget.actors.region_life import LOCK_WAIT_S, Owned
from neverforget.storage.clock import Clock
from neverforget.storage.directory_lock import Role
from neverforget.storage.errors import Corrupt
from neverforget.storage.filesystem import FileSystem
from neverforget.storage.identity import IDENTITY_FILE, Identity
from neverforget.storage.region_creation import create_region
from neverforget.storage.region_options import RegionOptions
from neverforget.storage.shipping_mark import marked_term
from neverforget.storage.spare import Submit


class Closed(Owned, Protocol):
    def close(self) -> None: ...


R = TypeVar("R", bound=Closed)
Make = Callable[[FileSystem, Path, Identity, RegionOptions], None]


class RegionOpening(Generic[R]):
    """An ``Opening``. ``open_region`` is given what every kind of region is opened with. ``leave``
    is called before a region is closed: whatever uses it must have ended when that returns.
    ``shipped_as``: the name of its log in a replica. ``make``: makes the region, empty, where it
    was moved to; repeatable, after a crash, too.
    """

    def __init__(
        self,
        name: str,
        label: str,
        spec: OwnerSpec,
        fs: FileSystem,
        clock: Clock,
        lock: bool,
        open_region: Callable[..., R],
        leave: Callable[[R], None] = lambda region: None,
        *,
        shipped_as: str = "",
        make: Make = create_region,
    ) -> None:
        self.name, self.label = name, label
        self.directory = spec.directory
        self.role: Role = spec.role
        self._spec = spec
        self._fs = fs
        self._clock = clock
        self._lock = lock
        self._open_region = open_region
        self._leave = leave
        self._shipped_as = shipped_as
        self._make = make

    def open(self, *, submit: Submit, read_only: bool, predecessor: R | None) -> R:
        spec = self._spec
        if spec.replica_term and not (read_only and spec.replica):
            self._arrive()
        return self._open_region(
            self._fs,
            Path(spec.directory),
            store_id=spec.store_id,
            role=spec.role,
            host=spec.host,
            clock=self._clock,
            options=region_options(spec),
            lock=self._lock,
            lock_wait_s=LOCK_WAIT_S,
            submit=submit,
            read_only=read_only,
            predecessor=predecessor,
            **self._replica(),
        )

    def _replica(self) -> dict[str, Any]:
        spec = self._spec
        if spec.replica is None:
            return {}
        from neverforget.actors.replica_spec import replica_of

        return {"replica": replica_of(spec, self._shipped_as)}

    def _arrive(self) -> None:
        """The region was moved here: where nothing of it is, it is made, as the log that the
        replica has. Opening it fills it."""
        from neverforget.storage.object_store import open_object_store
        from neverforget.storage.replica_identity import identity_in

        spec, directory = self._spec, Path(self._spec.directory)
        if spec.replica is None:
            if marked_term(self._fs, directory) >= spec.replica_term:
                return
            raise Corrupt(
                f"{self._shipped_as} was moved here and the replica that it was to be fetched from "
                "is not configured any more: set it again"
            )
        if self._fs.exists(directory / IDENTITY_FILE):
            return
        store = open_object_store(spec.replica)
        identity = identity_in(store, self._shipped_as, spec.store_id)
        if identity is None:
            raise Corrupt(
                f"{self._shipped_as} was moved here, and {store.name} has nothing of it; its old "
                "disk is the only copy: bring that back"
            )
        self._make(self._fs, directory, identity, region_options(spec))

    def close(self, region: R) -> None:
        self._leave(region)
        region.close()
