"""The reflector as an actor."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from neverforget.actors.actor_shell import ActorShell, Owner
from neverforget.actors.background import give_way, unpickled
from neverforget.actors.reflector_spec import ReflectorSpec

if TYPE_CHECKING:
    from neverforget.actors.extractor_contract import Extractor
    from neverforget.actors.ports import Owners


class ReflectorActor(ActorShell):
    """``connect`` makes a way to the owners of the store. ``make`` makes the extractor of its name,
    or of an object, and says what is wrong with it; ``pickled``: that object, where the host was
    given one.
    """

    def __init__(
        self,
        spec: ReflectorSpec,
        connect: Callable[[], Owners],
        make: Callable[..., Extractor | None],
        pickled: bytes | None,
    ) -> None:
        super().__init__(spec, "reflector", lambda: _made(spec, connect(), make, pickled))


def _made(
    spec: ReflectorSpec,
    owners: Owners,
    make: Callable[..., Extractor | None],
    pickled: bytes | None,
) -> Owner:
    give_way()
    from neverforget.actors.reflector import Reflector

    def one() -> Extractor | None:
        given: Any = spec.extractor
        if pickled is not None:
            given = unpickled(pickled, f"the extractor {spec.extractor}")
        return make(given, timezone=spec.timezone)

    return Reflector(spec, owners, one)
