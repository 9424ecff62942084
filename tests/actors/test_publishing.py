"""What becomes of an owner's figures on their way out: their names, and how much goes at once."""

from __future__ import annotations

import errno
import threading
from collections import Counter, defaultdict
from collections.abc import Iterator

import pytest

from neverforget.actors import publishing
from neverforget.actors.longterm_messages import ChunkingStatus
from neverforget.actors.messages import Status, StatusReply
from neverforget.actors.metric_names import COUNTERS, GAUGES, HISTOGRAMS, observed
from neverforget.actors.metrics import BOUNDS_S, Latencies, Meter
from neverforget.actors.publishing import (
    MIDDLES_S,
    OBSERVATIONS_MAX,
    Publication,
    Publisher,
    StatusRequest,
    Thinned,
)
from neverforget.actors.reflector_messages import ReflectorStatusReply
from neverforget.runtime.keeper_metrics import AVAILABLE, KeeperMetrics
from neverforget.storage.errors import Unavailable
from neverforget.storage.results import ReplicaStatus
from tests.actors.longterm_owners import OwnedLongTerm
from tests.actors.regions import PATIENCE_S, ManualClock, Owned, append
from tests.fakes.crash_filesystem import Fault


class Shelf:
    """A sink that keeps it."""

    def __init__(self) -> None:
        self.gauges: dict[str, float] = {}
        self.counts: Counter[str] = Counter()
        self.seen: defaultdict[str, Counter[float]] = defaultdict(Counter)
        self.published = threading.Semaphore(0)

    def gauge(self, name: str, value: float) -> None:
        assert name in GAUGES
        self.gauges[name] = value
        if name == "serving":
            self.published.release()

    def count(self, name: str, more: int) -> None:
        assert name in COUNTERS and more > 0
        self.counts[name] += more

    def observe(self, name: str, seconds: float, times: int) -> None:
        assert name in HISTOGRAMS and times > 0
        self.seen[name][seconds] += times


def told(owned: Owned) -> StatusReply:
    (asked,) = owned.ask(Status(1))
    assert isinstance(asked.answer, StatusReply)
    return asked.answer


def test_only_what_is_new_goes_out(owned: Owned) -> None:
    shelf = Shelf()
    meter, publication = owned.partition.meter, Publication(shelf)
    owned.ask(append(1), append(2))
    for _ in range(2):
        publication.publish(told(owned), meter)
    assert shelf.counts["appends"] == 2
    assert sum(shelf.seen["append_disk_seconds"].values()) == 2
    owned.ask(append(3))
    publication.publish(told(owned), meter)
    assert shelf.counts["appends"] == 3
    assert shelf.counts["turns_appended"] == 3
    assert shelf.gauges["turns"] == 3 and shelf.gauges["serving"] == 1.0


def test_turns_are_counted_on_over_a_log_that_is_opened_anew(owned: Owned) -> None:
    shelf = Shelf()
    publication = Publication(shelf)
    owned.ask(append(1), append(2))
    publication.publish(told(owned), owned.partition.meter)
    owned.fs.inject(Fault("fdatasync", path=".seg", error=errno.EIO))
    owned.ask(append(3))
    owned.until("serving")
    owned.ask(append(4))
    publication.publish(told(owned), owned.partition.meter)
    assert shelf.counts["turns_appended"] == 3
    assert shelf.counts["failures"] == 0, "that is counted where it is answered, by a transport"


def test_a_loop_that_does_not_answer_is_not_serving(owned: Owned) -> None:
    shelf = Shelf()
    meter, publication = owned.partition.meter, Publication(shelf)
    publication.publish(told(owned), meter)
    publication.publish(None, meter)
    assert shelf.gauges["serving"] == 0.0
    publication.publish(told(owned), meter)
    assert shelf.gauges["serving"] == 1.0


def test_an_error_is_published_with_its_time() -> None:
    meter = Meter(ManualClock())
    meter.note(Unavailable("away", outcome="unknown"))
    found = observed(None, meter)
    assert found.gauges["last_error_timestamp_seconds"] == 1000.0
    assert found.counters["failures"] == 0, "nobody was answered with it"


def test_every_metric_is_said_by_somebody(owned: Owned, longterm: OwnedLongTerm) -> None:
    """A dashboard of a name that nobody publishes stays empty without a word."""
    said: set[str] = set()
    partition = told(owned)
    assert partition.region is not None
    partition.region.replica = ReplicaStatus("s3://b", "everything", None, 3, 400, 0, 0)
    memories = longterm.status()
    memories.chunking = ChunkingStatus(0, 0, 0, 0, 0, None)  # where there are chunkers
    reflector = ReflectorStatusReply(0, 1, "rules", [], 0, 0, 0, 0, 0, 0, "no", 5)
    for reply, meter in (
        (partition, owned.partition.meter),
        (memories, longterm.owner.meter),
        (reflector, Meter(ManualClock())),
    ):
        found = observed(reply, meter)
        said |= {*found.gauges, *found.counters, *found.latencies}
    assert said | {AVAILABLE} == {*GAUGES, *COUNTERS, *HISTOGRAMS}


def test_a_keeper_publishes_whom_it_finds() -> None:
    shelves: dict[str, Shelf] = {}

    def make(store: str, partition: str) -> Shelf:
        assert store == "memory"
        return shelves.setdefault(partition, Shelf())

    metrics = KeeperMetrics("memory", make)
    metrics.publish([("0", "serving"), ("1", "away"), ("memories", "recovering")])
    assert {name: shelf.gauges[AVAILABLE] for name, shelf in shelves.items()} == {
        "0": 1.0, "1": 0.0, "memories": 0.0,
    }  # fmt: skip
    metrics.publish([("1", "serving")])
    assert shelves["1"].gauges[AVAILABLE] == 1.0


def test_a_keeper_goes_on_without_its_metrics(caplog: pytest.LogCaptureFixture) -> None:
    def make(store: str, partition: str) -> Shelf:
        raise RuntimeError("Ray has ended")

    metrics = KeeperMetrics("memory", make)
    for _ in range(2):
        metrics.publish([("0", "serving")])
    assert caplog.text.count("not published any more") == 1


# ---- thinning ------------------------------------------------------------------------------------


def test_few_are_passed_on_one_by_one() -> None:
    latencies, thinned = Latencies(), Thinned()
    latencies.add(0.0001, 3)
    latencies.add(1e9)
    assert thinned.news(latencies) == [(MIDDLES_S[1], 3), (MIDDLES_S[-1], 1)]
    assert thinned.news(latencies) == []


def test_of_many_an_even_selection_is_passed_on() -> None:
    """Each observation costs Ray microseconds: 20,000 appends a second must not."""
    latencies, thinned = Latencies(), Thinned()
    seen: Counter[float] = Counter()
    for _ in range(100):
        latencies.add(0.0002, 19_000)
        latencies.add(0.004, 990)
        latencies.add(0.9, 10)
        new = dict(thinned.news(latencies))
        assert sum(new.values()) <= OBSERVATIONS_MAX
        seen.update(new)
    total = sum(seen.values())
    assert total >= 99 * OBSERVATIONS_MAX
    by_share = [count / total for _, count in sorted(seen.items())]
    assert by_share == [
        pytest.approx(0.95, abs=0.001), pytest.approx(0.0495, abs=0.001),
        pytest.approx(0.0005, abs=0.0001),
    ]  # fmt: skip


def test_a_middle_lies_in_its_bucket() -> None:
    """Or Ray would count it in another one."""
    for number, middle in enumerate(MIDDLES_S):
        latencies = Latencies()
        latencies.add(middle)
        assert latencies.counts[number] == 1
    assert len(MIDDLES_S) == len(BOUNDS_S) + 1


# ---- the thread ----------------------------------------------------------------------------------


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(publishing, "EVERY_S", 0.001)
    yield


def test_it_asks_as_a_client_does_and_ends_when_it_is_told(owned: Owned, at_once: None) -> None:
    shelf, asked = Shelf(), threading.Semaphore(0)

    def submit(request: StatusRequest) -> None:
        owned.partition.run([request])
        asked.release()

    publisher = Publisher(owned.partition.meter, submit, lambda: shelf)
    publisher.start()
    for _ in range(3):
        assert asked.acquire(timeout=PATIENCE_S) and shelf.published.acquire(timeout=PATIENCE_S)
    publisher.close()
    assert publisher.join(PATIENCE_S)
    assert shelf.gauges["serving"] == 1.0


def test_where_nobody_would_see_it_nothing_is_asked() -> None:
    def submit(request: StatusRequest) -> None:
        raise AssertionError("asked")

    publisher = Publisher(Meter(ManualClock()), submit, lambda: None)
    publisher.start()
    assert publisher.join(PATIENCE_S)


def test_a_sink_that_fails_leaves_the_owner_alone(
    owned: Owned, at_once: None, caplog: pytest.LogCaptureFixture
) -> None:
    class Broken(Shelf):
        def gauge(self, name: str, value: float) -> None:
            raise RuntimeError("Ray has ended")

    def submit(request: StatusRequest) -> None:
        owned.partition.run([request])

    publisher = Publisher(owned.partition.meter, submit, Broken)
    publisher.start()
    assert publisher.join(PATIENCE_S)
    assert "Ray has ended" in caplog.text
    assert told(owned).state == "serving"
