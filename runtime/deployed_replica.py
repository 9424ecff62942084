"""What is done on a node about the replica of a deployed store, as tasks of its keeper."""

from __future__ import annotations

import time
from pathlib import Path

from neverforget.actors.messages import AnyReply, Request
from neverforget.runtime.deployed_channel import DeployedChannel
from neverforget.runtime.deployed_disk import read_disk
from neverforget.runtime.deployment import Description, Where
from neverforget.runtime.moving import log_of, named
from neverforget.runtime.replica_settings import publish, read_settings
from neverforget.runtime.store_directory import REGIONS_FOLDER
from neverforget.storage.errors import InvalidArgument, NotFound, Unavailable
from neverforget.storage.object_store import open_object_store
from neverforget.storage.replica_identity import last_header

CARRY_S = 120.0  # for one piece of what is brought back, also while its owner is on the move


def prepare_replica(path: str, before: str | None, description: Description) -> None:
    """Make sure that the replica is this store's, says how it was made and keeps what it promises.
    ``before``: the replica that it had. InvalidArgument, Unavailable.
    """
    url, store_id = description.config.replica, description.store_id
    assert url is not None, "only where there is one"
    if before not in (None, url):
        try:
            read_settings(url, store_id)
        except NotFound as error:
            raise InvalidArgument(
                f"{description.name} is shipped to {before}, and {url} has nothing of it; copy all "
                "objects there before you change the setting"
            ) from error
    publish(Path(path) / REGIONS_FOLDER, store_id, description.config)


def terms_in(url: str, store_id: str, places: tuple[int, ...]) -> dict[int, int]:
    """The term of the last object of each part's log. Unavailable: the replica does not answer, or
    has nothing of it.
    """
    objects = open_object_store(url)
    found: dict[int, int] = {}
    for place in places:
        last = last_header(objects, log_of(place), store_id)
        if last is None:
            raise Unavailable(
                f"{objects.name} has nothing of {named(place)}, whose disk is the only copy: bring "
                "that back",
                outcome="not_applied",
            )
        found[place] = last.term
    return found


def bring_back(path: str, disk: str, description: Description, place: int) -> str | None:
    """Send what the region of ``place`` in ``path`` has and the objects lack to the owner that
    serves it now, then rename the region. What was done, for people; None where the part is on this
    disk by now. Raises what ``salvaging.bring_back`` does; Unavailable also where the disk does not
    have ``description`` yet.
    """
    from neverforget.runtime.salvaging import bring_back as bring

    held = read_disk(Path(path))
    known = held.description
    if held.disk != disk or known is None:
        return None
    if known.version < description.version:
        raise Unavailable(
            f"{path} was not told yet that {named(place)} is elsewhere", outcome="not_applied"
        )
    if place in known.places_of(disk):
        return None
    url = description.config.replica
    assert url is not None, "nothing is moved without one"
    channel = DeployedChannel(Where(description=description))

    def ask(request: Request) -> AnyReply:
        return channel.call(place, request, time.monotonic() + CARRY_S)

    try:
        report = bring(Path(path), description.store_id, place, url, ask)
    except NotFound:
        return None  # it was done before, or its region was never finished here
    finally:
        channel.close()
    return (
        f"of {named(place)}, which was moved, {report.turns} turns and {report.records} other "
        f"records that had not been shipped were appended again; conflicts: {report.conflicts}"
    )
