"""Real logs, real objects in a folder: what is shipped by one is taken over by another."""

from __future__ import annotations

import itertools
import random
from pathlib import Path

import pytest

from neverforget.storage import control
from neverforget.storage.batch import stage_batch
from neverforget.storage.control import ControlField, F
from neverforget.storage.errors import Unavailable
from neverforget.storage.filesystem import LocalFileSystem
from neverforget.storage.format import HEADER_BYTES, Kind
from neverforget.storage.log import LogOptions
from neverforget.storage.object_store import ObjectStore
from neverforget.storage.record import encode_control
from neverforget.storage.set_aside import ASIDE_DIRECTORY
from neverforget.storage.shipping_asking import ShippingOptions
from neverforget.storage.shipping_erasing import ShippedEraser
from neverforget.storage.shipping_events import Level, Serve, Stop
from tests.fakes.crash_filesystem import CrashFileSystem, Killed
from tests.storage.object_stores import UnreliableStore, crashing_folder, folder
from tests.storage.shipping_node import Node
from tests.storage.small_log import PAGE

FS = LocalFileSystem()
TEXTS = [f"turn {n} " + "x" * (n * 37 % 700) for n in range(60)]


def node(tmp_path: Path, name: str, store: ObjectStore, owner: int, runs: int = 2_000) -> Node:
    options = ShippingOptions(run_bytes_max=runs)
    return Node(FS, tmp_path / name, store, owner=owner, shipping=options)


def segments(one: Node) -> dict[str, bytes]:
    """The bytes of every segment that has a record."""
    end = max(position for position, _ in one.records())
    files = (one.directory / "log").glob("*.seg")
    return {f.name: f.read_bytes() for f in files if int(f.stem, 16) <= end}


def fill(one: Node, texts: list[str], rng: random.Random) -> None:
    at = 0
    while at < len(texts):
        count = rng.randint(1, 4)
        one.append(*texts[at : at + count], first_seq=at)
        at += count


def test_a_lost_disk_comes_back_byte_for_byte(tmp_path: Path, rng: random.Random) -> None:
    store = folder(tmp_path / "bucket")
    first = node(tmp_path, "first", store, 1)
    first.start()
    fill(first, TEXTS, rng)
    first.append("y" * 30_000, first_seq=len(TEXTS))  # larger than any segment: it has its own
    first.append("the last")
    first.ship()
    assert first.known[0] == first.log.durable  # type: ignore[union-attr]
    first.close()

    second = node(tmp_path, "second", store, 100)
    assert isinstance(second.start()[0], Serve)
    second.close()
    assert second.records() == first.records()
    assert segments(second) == segments(first)


def test_the_old_owner_is_fenced_and_its_lag_is_set_aside(
    tmp_path: Path, rng: random.Random
) -> None:
    store = folder(tmp_path / "bucket")
    first = node(tmp_path, "first", store, 1)
    first.start()
    fill(first, TEXTS[:20], rng)
    first.ship()
    shipped = first.known[0]
    lagging = [*first.append(*TEXTS[20:25]), *first.append("z" * 20_000), *first.append("end")]

    second = node(tmp_path, "second", store, 100)
    second.start()
    second.append("after the failover")
    second.ship()
    (stop,) = first.ship()
    assert isinstance(stop, Stop) and stop.why == "fenced"
    first.close()
    lost = [record for position, record in first.records() if position in lagging]

    first.start()
    first.append("at home again")
    first.ship()
    first.close()
    second.start()
    second.close()
    assert first.records() == second.records()
    assert segments(first) == segments(second)
    aside = b""
    for path in sorted((first.directory / ASIDE_DIRECTORY).iterdir()):
        begin, end, _ = (int(part, 16) for part in path.stem.split("-"))
        assert path.stat().st_size == end - begin and begin >= shipped
        aside += path.read_bytes()
    assert all(record in aside for record in lost) and len(lost) == len(lagging)


def test_a_mark_from_another_disk_is_not_believed(tmp_path: Path, rng: random.Random) -> None:
    """A copy of that disk was broken off, or its SHIPPED file put in place of one that was lost."""
    store = folder(tmp_path / "bucket")
    mine = node(tmp_path, "mine", store, 1, runs=500)
    mine.start()
    fill(mine, TEXTS[:10], rng)
    mine.ship()
    lagging = [mine.append(text)[0] for text in TEXTS[10:30]]
    mine.close()
    lost = [record for position, record in mine.records() if position in lagging]
    other = node(tmp_path, "other", store, 100, runs=500)
    other.start()
    for text in TEXTS[30 : rng.randint(35, 60)]:
        other.append(text)
    other.ship()
    other.close()
    mine.known = other.known
    assert isinstance(mine.start()[0], Serve)
    mine.close()
    assert mine.records() == other.records()
    aside = b"".join(f.read_bytes() for f in (tmp_path / "mine" / ASIDE_DIRECTORY).iterdir())
    assert all(record in aside for record in lost)


def test_a_lag_that_nobody_has_written_over_is_shipped_late(tmp_path: Path) -> None:
    store = folder(tmp_path / "bucket")
    first = node(tmp_path, "first", store, 1)
    first.start()
    first.append("shipped")
    first.ship()
    first.append("not shipped")
    first.close()
    second = node(tmp_path, "second", store, 100)
    second.start()
    second.close()
    first.start()
    first.ship()
    first.close()
    assert not (first.directory / ASIDE_DIRECTORY).exists()
    second.start()
    second.close()
    assert second.records() == first.records() and len(first.records()) == 2


@pytest.mark.parametrize("what", ["header", "body", "end"])
def test_rot_is_mended_from_the_objects(what: str, tmp_path: Path) -> None:
    store = folder(tmp_path / "bucket")
    one = node(tmp_path, "one", store, 1)
    one.start()
    places = [one.append(text)[0] for text in TEXTS[:8]]
    one.ship()
    one.close()
    before = one.records()
    path = one.directory / "log" / f"{0:016x}.seg"
    raw = bytearray(path.read_bytes())
    at = {"header": places[3] + 9, "body": places[3] + HEADER_BYTES, "end": places[7] + 9}[what]
    raw[at] ^= 1
    path.write_bytes(raw)
    one.known = (0, 0) if what != "end" else one.known
    one.start()
    one.close()
    assert one.records() == before
    assert not (one.directory / ASIDE_DIRECTORY).exists()


def test_what_was_erased_is_erased_wherever_the_log_is_taken_over(tmp_path: Path) -> None:
    store = folder(tmp_path / "bucket")
    first, second = node(tmp_path, "first", store, 1), node(tmp_path, "second", store, 100)
    first.start()
    (place,) = first.append("a secret to be erased")
    first.append("another turn")
    first.ship()
    second.start()
    second.close()
    first.start()
    assert first.log is not None
    length = first.log.header(place).body_length
    body = {F[ControlField.RANGES]: control.pack_ranges([(place + HEADER_BYTES, length)])}
    record = encode_control(Kind.ERASING, 5, 2, body, timestamp_us=1)
    stage_batch(first.log, record, [(0, 5, 2)])
    first.log.write()
    first.log.sync()
    first.ship()
    first.log.overwrite(place + HEADER_BYTES, length)
    first.log.sync()
    ShippedEraser(store, "store/partition-0/", first.known[1]).erase(
        [(place + HEADER_BYTES, length)]
    )
    first.close()
    third = node(tmp_path, "third", store, 200)
    for other in (second, third):
        other.start()
        other.close()
    files = [p for p in tmp_path.rglob("*") if p.is_file()]
    assert len(files) > 10 and not [p for p in files if b"a secret" in p.read_bytes()]


def test_without_its_store_it_may_read(tmp_path: Path) -> None:
    bucket = tmp_path / "bucket"
    one = node(tmp_path, "one", folder(bucket), 1)
    one.start()
    one.append("here")
    one.ship()
    bucket.rename(tmp_path / "not mounted")
    (serve,) = one.start()
    assert isinstance(serve, Serve) and serve.level == Level.READS
    one.close()
    (tmp_path / "not mounted").rename(bucket)
    serve = one.start()[0]
    assert isinstance(serve, Serve) and serve.level == Level.EVERYTHING
    one.close()


def test_a_store_that_fails_now_and_then_only_takes_longer(
    tmp_path: Path, rng: random.Random
) -> None:
    store = folder(tmp_path / "bucket")
    first = node(tmp_path, "first", store, 1, runs=300)
    first.start()
    fill(first, TEXTS, rng)
    first.ship()
    first.close()
    unreliable = UnreliableStore(store)
    calls = itertools.count()

    def now_and_then(operation: str, key: str) -> None:
        if next(calls) % 3 == 0:
            raise Unavailable(f"{operation} of {key} was made to fail", outcome="unknown")

    unreliable.before = unreliable.after = now_and_then
    second = node(tmp_path, "second", unreliable, 100)
    assert isinstance(second.start()[0], Serve)
    second.close()
    assert second.records() == first.records() and next(calls) > 100


# ---- crashes -------------------------------------------------------------------------------------


def crash_at(call: int, seed: int, power: bool) -> int:
    """A takeover that cuts and applies, killed before its nth call, and then finished. How many
    calls there were.
    """
    rng = random.Random(seed)
    shared = CrashFileSystem(seed)
    store = crashing_folder(shared)
    other = Node(CrashFileSystem(seed + 1), CrashFileSystem().root / "r", store, owner=100)
    fs = CrashFileSystem(seed + 2)
    mine = Node(fs, fs.root / "r", store, owner=1, shipping=ShippingOptions(run_bytes_max=3_000))
    mine.start()
    fill(mine, TEXTS[:8], rng)
    mine.ship()
    lagging = [mine.append(text)[0] for text in TEXTS[8:20]]
    other.start()
    fill(other, TEXTS[30:45], rng)
    other.append("w" * 20_000)
    other.ship()
    mine.close()
    lost = [record for position, record in mine.records() if position in lagging]
    before = len(fs.calls)
    fs.kill_at(before + call)
    try:
        mine.start()
    except Killed:
        fs = fs.power_cut() if power else fs.process_death()
        known, mine = mine.known, Node(fs, fs.root / "r", store, owner=50)
        mine.known = known
        mine.start()
    calls = len(fs.calls) - before
    mine.append("done")
    mine.ship()
    mine.close()
    other.start()
    other.close()
    assert mine.records() == other.records()
    directory = fs.root / "r" / ASIDE_DIRECTORY
    aside = b"".join(fs.content(directory / name) for name in fs.list_directory(directory))
    assert all(record in aside for record in lost)
    return calls


@pytest.mark.parametrize("power", [False, True])
def test_a_takeover_that_dies_anywhere_is_finished_by_the_next_start(power: bool) -> None:
    calls = crash_at(1_000_000, 0, power)
    assert calls > 50
    for call in range(0, calls, 4 if power else 5):
        crash_at(call, call, power)


@pytest.mark.parametrize("power", [False, True])
def test_a_first_segment_of_another_size_gives_way_at_no_price(power: bool) -> None:
    """Dead between the old one and the new one the log was without a segment: it did not open any
    more, and a restore could not be finished, but in an empty folder.
    """
    shared = CrashFileSystem(1)
    store = crashing_folder(shared)
    first = Node(CrashFileSystem(2), CrashFileSystem().root / "r", store, owner=1)
    first.start()
    first.append(*TEXTS[:5])
    first.ship()
    first.close()
    wider = LogOptions(segment_bytes=4 * PAGE, first_segment_bytes=2 * PAGE)
    call = -1
    while True:
        call += 1
        fs = CrashFileSystem(3)
        second = Node(fs, fs.root / "r", store, owner=100 + 10 * call, options=wider)
        fs.kill_at(len(fs.calls) + call)
        try:
            second.start()
            break
        except Killed:
            fs = fs.power_cut() if power else fs.process_death()
        again = Node(fs, fs.root / "r", store, owner=105 + 10 * call, options=wider)
        assert isinstance(again.start()[0], Serve)
        again.close()
        assert again.records() == first.records()
    assert call > 20


@pytest.mark.parametrize("trial", range(12))
def test_three_machines_take_over_from_one_another_at_random(
    trial: int, rng: random.Random
) -> None:
    """Zombies go on appending and shipping until they are fenced; power is cut now and then. What
    was shipped stays, where it was, and all come to the same log.
    """
    store = crashing_folder(CrashFileSystem(trial))
    options = ShippingOptions(run_bytes_max=rng.choice([500, 5_000]))
    nodes = []
    for number in range(3):
        fs = CrashFileSystem(trial * 10 + number)
        made = Node(fs, fs.root / "r", store, owner=1 + 1_000 * number, shipping=options)
        nodes.append(made)
    shipped: dict[int, bytes] = {}
    texts = iter(range(1_000_000))
    for _ in range(60):
        one = rng.choice(nodes)
        step = rng.choice(["start", "append", "append", "append", "ship", "ship", "cut"])
        if step == "start" and (one.log is None or rng.random() < 0.3):
            one.start()
        elif step == "cut" and rng.random() < 0.5:
            one.power_cut()
        elif one.log is None:
            continue
        elif step == "append":
            size = rng.choice([10, 300, 300, 5_000])
            one.append(*[f"{next(texts)} " + "x" * size for _ in range(rng.randint(1, 3))])
        elif step == "ship":
            until, places = one.known[0], one.places()
            stopped = [n for n in one.ship() if isinstance(n, Stop)]
            for position in places:
                if until <= position < one.known[0]:
                    record = one.read(position)
                    assert shipped.setdefault(position, record) == record
            if stopped:
                one.close()
    for one in nodes:
        assert isinstance(one.start()[0], Serve)
        one.ship()
        one.close()
    for one in nodes:
        one.start()
        one.close()
    first = nodes[0].records()
    for one in nodes[1:]:
        assert one.records() == first
    assert shipped.items() <= dict(first).items()
