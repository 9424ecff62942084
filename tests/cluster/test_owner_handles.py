"""Handles on owners that Ray, or another thread, has let go meanwhile."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

from neverforget.actors.handles import GONE, OwnerHandle, stop_all
from neverforget.actors.spawn import Node, spawn_partition
from neverforget.storage.filesystem import LocalFileSystem
from neverforget.storage.region import Region
from tests.actors.regions import STORE_ID, spec
from tests.cluster.processes import PATIENCE_S, until


class ForgottenMeanwhile(OwnerHandle):
    """Another thread forgets the dead actor when this one has just seen that there is one."""

    _seen: Any = None

    @property
    def _actor(self) -> Any:
        seen, self._seen = self._seen, None
        return seen

    @_actor.setter
    def _actor(self, actor: Any) -> None:
        self._seen = actor


def test_an_owner_that_another_thread_forgets_is_still_called_by_this_one() -> None:
    """Threads share a handle: who came second had no actor to call, and an AttributeError."""
    assert ForgottenMeanwhile("p0", "the actor").actor == "the actor"


def test_an_owner_that_ray_has_let_go_does_not_keep_the_others_from_ending(ray_local: Any) -> None:
    """What Ray says of such an actor has no type of its own. Whoever ended several owners was
    interrupted by it: the rest went on, and so did the lock of a host that wanted to end."""

    def gone() -> None:
        raise Exception(f"{GONE} 0123. It might be dead or it's from a different cluster")

    method = SimpleNamespace(remote=gone)
    actor = SimpleNamespace(stop=method, describe=method)
    assert stop_all([OwnerHandle("p0", actor), OwnerHandle("p1", actor)], 1.0) == ["p0", "p1"]
    assert OwnerHandle("p0", actor).is_dead(1.0)


def test_an_owner_that_was_left_behind_under_its_name_is_replaced(
    ray_local: Any, short_path: Path
) -> None:
    """A host that could not reach Ray's head ended its owners by signal, Ray started them again,
    and the next host found their names taken for ever: the store did not come back."""
    directory = short_path / "p0"
    directory.mkdir()
    Region.create(LocalFileSystem(), directory, store_id=STORE_ID, partition=0)
    settled = spec(
        directory, role="worker", name="left-over-p0", socket=str(short_path / "p0.sock")
    )
    node = Node(ray_local.get_runtime_context().get_node_id(), {})
    left_over = spawn_partition(settled, node)
    before = until(left_over.pid, "an owner")
    owner = spawn_partition(settled, node)
    until(lambda: owner.pid() not in (None, before), "the next one")
    assert stop_all([owner], PATIENCE_S) == []
