"""Handles on owners that Ray, or another thread, has let go meanwhile."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from neverforget.actors.handles import GONE, OwnerHandle, stop_all


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
