"""How handles travel: as the address of their store. Unpickling attaches; it never creates a store
and never starts a host for it, and it checks that the store at the path is still the same.

On another node there is no such path. A process there that belongs to the same Ray, as a task or an
actor does, reaches the owners as actors.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from msgspec import Struct

from neverforget.runtime.config import Config, host_settings
from neverforget.runtime.endpoint import Named
from neverforget.runtime.engine import Engine, Lease, lease
from neverforget.runtime.reaching import Wanted
from neverforget.runtime.scope import Scope


class StoreAddress(Struct, frozen=True):
    """Where a store is, which one it must be, and the view that the handle had of it."""

    path: str
    store_id: str
    scope: Scope
    named: Named = Named()
    hosted: dict[str, Any] = {}

    @classmethod
    def of(cls, engine: Engine, scope: Scope) -> StoreAddress:
        """The address of a view of ``engine``'s store. TypeError for an inline one."""
        if engine.inline:
            raise TypeError(
                f"a handle on an inline store cannot be pickled: the store lives in process "
                f"{engine.pid}; open {engine.path} without inline=True, then handles travel as "
                "addresses"
            )
        found = engine.reach
        hosted = host_settings(found.config)
        return cls(str(engine.path), engine.store_id, scope, found.named(), hosted)

    def attach(self) -> tuple[Lease, Scope, Config]:
        """What a handle is made of, in this process."""
        client = Config(sync=self.scope.sync, deadline_s=self.scope.deadline_s)
        wanted = Wanted(
            "never",
            create=False,
            store_id=self.store_id,
            asked=client,
            named=self.named,
            hosted=self.hosted,
        )
        held, config = lease(Path(self.path), wanted)
        return held, self.scope, config
