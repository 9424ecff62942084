"""A member of the embedder pool as an actor."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from neverforget.actors.actor_shell import ActorShell, Owner
from neverforget.actors.background import give_way, unpickled
from neverforget.actors.embedder_spec import EmbedderSpec

Make = Callable[[Any], Any]


class EmbedderActor(ActorShell):
    """``make`` makes an embedder of its name, or of an object, and says what is wrong with it.
    ``objects``: those that the host was given, by the names of their settings, pickled: one that
    cannot be loaded here is the fault of those who ask for it, not of the actor.
    """

    def __init__(self, spec: EmbedderSpec, make: Make, objects: Mapping[str, bytes]) -> None:
        super().__init__(spec, f"embedder-{spec.member}", lambda: _made(spec, make, objects))


def _made(spec: EmbedderSpec, make: Make, objects: Mapping[str, bytes]) -> Owner:
    give_way()
    from neverforget.actors.embedder_pool import EmbedderService

    def one(name: str) -> Any:
        pickled = objects.get(name)
        return make(name if pickled is None else unpickled(pickled, f"the embedder {name}"))

    return EmbedderService(spec, one)
