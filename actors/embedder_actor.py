"""A member of the embedder pool as an actor."""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable, Mapping
from typing import Any

from neverforget.actors.actor_shell import ActorShell, Owner
from neverforget.actors.embedder_spec import EmbedderSpec

NICE = 5  # background work gives way to owners; with a processor to spare it costs nothing

Make = Callable[[Any], Any]


class EmbedderActor(ActorShell):
    """``make`` makes an embedder of its name, or of an object, and says what is wrong with it.
    ``objects``: those that the host was given, by the names of their settings, pickled: one that
    cannot be loaded here is the fault of those who ask for it, not of the actor.
    """

    def __init__(self, spec: EmbedderSpec, make: Make, objects: Mapping[str, bytes]) -> None:
        super().__init__(spec, f"embedder-{spec.member}", lambda: _made(spec, make, objects))


def _made(spec: EmbedderSpec, make: Make, objects: Mapping[str, bytes]) -> Owner:
    os.nice(NICE)
    from neverforget.actors.embedder_pool import EmbedderService
    from neverforget.storage.errors import Unavailable

    def one(name: str) -> Any:
        pickled = objects.get(name)
        if pickled is None:
            return make(name)
        try:
            embedder = pickle.loads(pickled)
        except Exception as error:
            raise Unavailable(
                f"the embedder {name} cannot be loaded in its own process "
                f"({type(error).__name__}: {error}); define its class in a module that can be "
                "imported there",
                outcome="not_applied",
            ) from error
        return make(embedder)

    return EmbedderService(spec, one)
