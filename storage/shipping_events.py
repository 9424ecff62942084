"""What the shipping of a log asks for, and what it is told: plain values, no I/O.

A *question* has a ``call`` number. There is one at a time, its answer bears the same number, and an
answer with another number is late: nobody waits for it any more. A *notice* needs no answer.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Literal

from neverforget.storage.shipping_object import ObjectHeader, Run


class Level(IntEnum):
    """What an owner may do. Each level includes those below it."""

    NOTHING = 0  # not even reads: what the local log holds may lack acknowledged records
    READS = 1  # the store cannot be reached: reads only
    UNFENCED = 2  # so configured: "disk" and "process" too, though another owner may serve as well
    EVERYTHING = 3


# ---- questions to the object store ---------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Look:
    """Is there an object of this number? Answer: Looked."""

    call: int
    number: int


@dataclass(frozen=True, slots=True)
class ReadHeader:
    """Read the header of an object that exists. Answer: HeaderRead."""

    call: int
    number: int


@dataclass(frozen=True, slots=True)
class Put:
    """Create-only. Answer: PutAnswered; Failed also where the outcome is unknown."""

    call: int
    number: int
    data: bytes


@dataclass(frozen=True, slots=True)
class Fetch:
    """Read a whole object, keep it, and compare its records with the local log's from ``position``
    on, where the objects before it end. Answer: Fetched.
    """

    call: int
    number: int
    position: int


# ---- questions to the local log ------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PersistEpoch:
    """Make an epoch above the stored one and ``at_least`` durable. Answer: Persisted."""

    call: int
    at_least: int


@dataclass(frozen=True, slots=True)
class Compare:
    """Do exactly the records of this run stand in the local log in [``position``, its stop)? In
    segments of the same base and size, all headers and bodies sound or known to be erased. Answer:
    Compared.
    """

    call: int
    header: ObjectHeader
    position: int


@dataclass(frozen=True, slots=True)
class SetAside:
    """Copy everything from ``position`` to the end of the local log to where it is salvaged from,
    durably; then cut the log off there, durably. Repeating it after a crash loses no copy. Answer:
    Done.
    """

    call: int
    position: int


@dataclass(frozen=True, slots=True)
class Apply:
    """Write the records of the object that was fetched into the local log from ``position`` on, at
    their own positions, erase what they say is erased, and sync. Answer: Done.
    """

    call: int
    number: int
    position: int


@dataclass(frozen=True, slots=True)
class ReadRun:
    """Read whole batches of one segment from ``start`` (or the next segment's first record, where
    its data ends there), below ``limit``, at most ``bytes_max`` or one batch. Answer: RunRead.
    """

    call: int
    start: int
    limit: int
    bytes_max: int


# ---- notices -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Serve:
    level: Level
    reason: str


@dataclass(frozen=True, slots=True)
class Shipped:
    """Everything that ends at or below ``position`` is in objects up to ``number``: acknowledge
    "replica" up to there. Keep the pair beside the log: it spares the next start work.
    """

    position: int
    number: int


@dataclass(frozen=True, slots=True)
class Stop:
    """Nothing is acknowledged any more, at any level, and nothing shipped. "fenced": a newer owner
    serves, answer OwnerFenced. "restart": close and open again; the objects hold what this log must
    take over first. "refused": the objects are not what they must be; QUARANTINED. "newer": a newer
    version wrote them; QUARANTINED.
    """

    why: Literal["fenced", "restart", "refused", "newer"]
    reason: str


StoreQuestion = Look | ReadHeader | Put | Fetch
LocalQuestion = PersistEpoch | Compare | SetAside | Apply | ReadRun
Question = StoreQuestion | LocalQuestion
Notice = Serve | Shipped | Stop
Action = Question | Notice


# ---- answers -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Looked:
    call: int
    exists: bool


@dataclass(frozen=True, slots=True)
class HeaderRead:
    call: int
    header: ObjectHeader


@dataclass(frozen=True, slots=True)
class PutAnswered:
    """``created`` False: an object of this number exists, of whomever."""

    call: int
    created: bool


@dataclass(frozen=True, slots=True)
class Fetched:
    """The local log agrees up to ``same_until``, between ``position`` and the run's stop.
    ``other``: what stands there is a sound record that is not the object's, or a segment of another
    shape; else nothing stands there, or something damaged.
    """

    call: int
    header: ObjectHeader
    same_until: int
    other: bool


@dataclass(frozen=True, slots=True)
class Persisted:
    """``now_us``: by the clock that people go by, for what is put."""

    call: int
    epoch: int
    now_us: int = 0


@dataclass(frozen=True, slots=True)
class Compared:
    call: int
    same: bool


@dataclass(frozen=True, slots=True)
class Done:
    call: int


@dataclass(frozen=True, slots=True)
class RunRead:
    """None: no record stands below the limit. ``now_us``: as of ``Persisted``."""

    call: int
    run: Run | None
    now_us: int = 0


@dataclass(frozen=True, slots=True)
class Failed:
    """The store did not answer, or not in time; what was put may exist, now or later."""

    call: int
    message: str


@dataclass(frozen=True, slots=True)
class Bad:
    """What was read is no sound object, or one that a ``newer`` version wrote."""

    call: int
    reason: str
    newer: bool = False


Answer = (
    Looked | HeaderRead | PutAnswered | Fetched | Persisted | Compared | Done | RunRead
    | Failed | Bad
)  # fmt: skip


# ---- other events --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Durable:
    """The local log is synced up to ``position``."""

    position: int


@dataclass(frozen=True, slots=True)
class Wanted:
    """Somebody waits for "replica" up to ``position``."""

    position: int


@dataclass(frozen=True, slots=True)
class Tick:
    """Time has passed: see ``wake_at_us``."""


Event = Answer | Durable | Wanted | Tick
