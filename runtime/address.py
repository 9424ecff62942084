"""How handles travel: as the address of their store. Unpickling attaches; it never creates a store
and never starts a host for it, and it checks that the store at the path is still the same.
"""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct

from neverforget.runtime.config import Config
from neverforget.runtime.engine import Lease, Wanted, lease
from neverforget.runtime.scope import Scope


class StoreAddress(Struct, frozen=True):
    """Where a store is, which one it must be, and the view that the handle had of it."""

    path: str
    store_id: str
    scope: Scope

    def attach(self) -> tuple[Lease, Scope, Config]:
        """What a handle is made of, in this process."""
        client = Config(sync=self.scope.sync, deadline_s=self.scope.deadline_s)
        wanted = Wanted("never", create=False, store_id=self.store_id, asked=client)
        held, config = lease(Path(self.path), wanted)
        return held, self.scope, config
