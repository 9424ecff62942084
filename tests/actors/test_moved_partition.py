"""A partition that was told to be served elsewhere: made there from its objects, and what may not
be served before that.
"""

from __future__ import annotations

import shutil
import threading
import uuid
from pathlib import Path
from typing import Any

import pytest

from neverforget.actors.longterm import LongTerm
from neverforget.actors.longterm_spec import LongTermSpec
from neverforget.actors.messages import Failure
from neverforget.actors.partition import Partition
from neverforget.storage.clock import SystemClock
from neverforget.storage.embedder_file import read_embedder
from neverforget.storage.errors import Unavailable
from neverforget.storage.filesystem import LocalFileSystem
from neverforget.storage.longterm import LongTermRegion
from neverforget.storage.region import Region
from neverforget.storage.region_options import RegionOptions
from neverforget.storage.replica import Replica
from neverforget.storage.shipping_asking import ShippingOptions
from neverforget.storage.shipping_mark import SHIPPED_FILE, marked_term
from tests.actors.regions import SEGMENT_BYTES, Asked, append, get, spec, texts

FS = LocalFileSystem()
STORE_ID = str(uuid.UUID(int=7))
OPTIONS = RegionOptions(segment_bytes=SEGMENT_BYTES, first_segment_bytes=SEGMENT_BYTES)


@pytest.fixture
def away(tmp_path: Path) -> Path:
    found = tmp_path / "away"
    (found / STORE_ID).mkdir(parents=True)
    (found / STORE_ID / "settings").touch()  # or it is taken for a folder that is not mounted
    return found


def owner(directory: Path, away: Path, term: int = 0, **changes: Any) -> Partition:
    """Opened; the region is made where none was ever moved."""
    if not term and not directory.exists():
        Region.create(FS, directory, store_id=STORE_ID, partition=0, options=OPTIONS)
    told = spec(
        directory, store_id=STORE_ID, replica=f"file://{away}", replica_term=term, **changes
    )
    partition = Partition(told, clock=SystemClock(), fs=FS)
    partition.bind(lambda: None)
    partition.open()
    return partition


def said(partition: Partition) -> list[Any]:
    asked = Asked(get(9))
    partition.run([asked])
    return texts(asked)


def append_one(partition: Partition, number: int, text: str) -> Asked:
    asked = Asked(append(number, text))
    partition.run([asked])
    return asked


def test_it_is_made_from_its_objects_and_the_old_owner_acknowledges_nothing_more(
    tmp_path: Path, away: Path
) -> None:
    old = owner(tmp_path / "old", away)
    append_one(old, 1, "shipped")
    old.close()
    old = owner(tmp_path / "old", away)
    new = owner(tmp_path / "new", away, 1)
    assert new.state == "serving" and said(new) == ["shipped"]
    assert marked_term(FS, tmp_path / "new") == 1
    append_one(new, 2, "after the move")
    new.close()

    old.close()
    again = owner(tmp_path / "old", away)
    assert again.state == "quarantined" and "another place" in str(again.reason)
    again.close()
    new = owner(tmp_path / "new", away, 1)
    assert said(new) == ["shipped", "after the move"]
    new.close()


def test_one_that_was_told_before_the_last_takes_nothing_back(tmp_path: Path, away: Path) -> None:
    """Also where it never served: it may have been asleep until now."""
    owner(tmp_path / "old", away).close()
    owner(tmp_path / "third", away, 2).close()
    second = owner(tmp_path / "second", away, 1)
    assert second.state == "quarantined" and "another place" in str(second.reason)
    second.close()
    third = owner(tmp_path / "third", away, 2)
    assert third.state == "serving"
    third.close()


def test_a_moved_one_that_lost_its_directory_is_no_fresh_start(tmp_path: Path, away: Path) -> None:
    owner(tmp_path / "old", away).close()
    owner(tmp_path / "new", away, 1).close()
    shutil.rmtree(tmp_path / "new")
    lost = owner(tmp_path / "new", away, 1)
    assert lost.state == "quarantined" and "failover" in str(lost.reason)
    lost.close()
    again = owner(tmp_path / "new", away, 2)  # as that failover says
    assert again.state == "serving"
    again.close()


def test_where_nothing_was_shipped_nothing_is_made_up(tmp_path: Path, away: Path) -> None:
    new = owner(tmp_path / "new", away, 1)
    assert new.state == "quarantined" and "only copy" in str(new.reason)
    assert not (tmp_path / "new").exists()
    new.close()


def test_what_was_not_fetched_is_not_served_without_a_replica_either(
    tmp_path: Path, away: Path
) -> None:
    """The setting was taken away after a move: the empty region passed for all there is."""
    old = owner(tmp_path / "old", away)
    append_one(old, 1, "shipped")
    old.close()
    Region.create(FS, tmp_path / "new", store_id=STORE_ID, partition=0, options=OPTIONS)
    told = spec(tmp_path / "new", store_id=STORE_ID, replica_term=1)
    new = Partition(told, clock=SystemClock(), fs=FS)
    new.bind(lambda: None)
    new.open()
    assert new.state == "quarantined" and "set it again" in str(new.reason)
    new.close()
    shutil.rmtree(tmp_path / "new")
    owner(tmp_path / "new", away, 1).close()
    new = Partition(told, clock=SystemClock(), fs=FS)
    new.bind(lambda: None)
    new.open()
    assert new.state == "serving" and said(new) == ["shipped"]
    new.close()


def test_nothing_is_served_before_the_replica_has_answered(tmp_path: Path, away: Path) -> None:
    """Not even read: what stands there lacks what was acknowledged elsewhere, or is empty."""
    old = owner(tmp_path / "old", away)
    append_one(old, 1, "shipped")
    old.close()
    owner(tmp_path / "new", away, 1).close()
    (tmp_path / "new" / SHIPPED_FILE).unlink()  # as before it had caught up
    away.rename(tmp_path / "not mounted")
    alone = ShippingOptions(unreachable_after_us=1_000, write_without_store=True)
    replica = Replica(f"file://{away}", STORE_ID, "partition-0", alone, term=2)
    for read_only in (False, True):
        with pytest.raises(Unavailable, match="replica"):
            Region.open(
                FS,
                tmp_path / "new",
                store_id=STORE_ID,
                partition=0,
                replica=replica,
                read_only=read_only,
            )
    elsewhere = owner(tmp_path / "third", away, 2)
    assert elsewhere.state == "recovering"
    refused = append_one(elsewhere, 3, "not here").answer
    assert isinstance(refused, Failure) and refused.fields["outcome"] == "not_applied"
    (tmp_path / "not mounted").rename(away)
    pause = threading.Event()
    while elsewhere.state != "serving":
        pause.wait(0.01)
        elsewhere.tick()
    assert said(elsewhere) == ["shipped"]
    elsewhere.close()


def test_memories_move_as_well_and_their_indexes_are_made_anew(tmp_path: Path, away: Path) -> None:
    def longterm(name: str, term: int) -> LongTerm:
        told = LongTermSpec(
            directory=str(tmp_path / name),
            store_id=STORE_ID,
            role="application",
            replica=f"file://{away}",
            replica_term=term,
            embedder="none",
            segment_bytes=SEGMENT_BYTES,
        )
        made = LongTerm(told, None)
        made.bind(lambda: None)
        made.open()
        return made

    LongTermRegion.create(FS, tmp_path / "old", store_id=STORE_ID, options=OPTIONS)
    longterm("old", 0).close()
    new = longterm("new", 1)
    assert new.state == "serving", new.reason
    new.close()
    assert read_embedder(FS, tmp_path / "new").name == "none"
    stale = tmp_path / "old" / "derived-1" / "stale"
    stale.parent.mkdir(exist_ok=True)
    stale.write_bytes(b"of a log that was cut")
    back = longterm("old", 2)
    assert back.state == "serving" and not stale.exists()
    back.close()
