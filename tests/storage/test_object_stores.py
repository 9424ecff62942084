"""One suite for the seam, run over a folder, a folder in memory, and S3 on the loopback."""

from __future__ import annotations

import importlib.util
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from neverforget.storage.errors import InvalidArgument, Unavailable
from neverforget.storage.filesystem import LocalFileSystem
from neverforget.storage.object_cloud import check_conditions
from neverforget.storage.object_folder import FolderStore
from neverforget.storage.object_store import ObjectStore, open_object_store
from neverforget.storage.shipping_calls import Got, carry_out
from neverforget.storage.shipping_events import (
    Bad,
    Failed,
    Fetch,
    HeaderRead,
    Look,
    Looked,
    Put,
    PutAnswered,
    ReadHeader,
    StoreQuestion,
)
from neverforget.storage.shipping_object import (
    Author,
    Run,
    decode_header,
    encode_fence,
    encode_run,
)
from tests.fakes.crash_filesystem import CrashFileSystem
from tests.storage.object_stores import (
    UnreliableStore,
    crashing_folder,
    fails,
    folder,
    make_bucket,
    s3_server,
    s3_store,
)
from tests.storage.shipping_simulator import World

KEY = "store/partition-0/0000000000000001"
AUTHOR = Author(bytes(16), 7, 1)
OTHER = "store/partition-0/0000000000000002"


@pytest.fixture(scope="module", autouse=True)
def server() -> Iterator[str | None]:
    """Here before the first test is, so that none of them leaves it behind. None: not installed."""
    needed = ("obstore", "moto", "flask", "flask_cors")
    if any(importlib.util.find_spec(name) is None for name in needed):
        yield None
        return
    with s3_server() as url:
        yield url


@pytest.fixture
def endpoint(server: str | None) -> str:
    if server is None:
        pytest.skip("not run: needs obstore, moto[s3], flask and flask-cors, of the test extra")
    return server


def make_store(kind: str, request: pytest.FixtureRequest) -> ObjectStore:
    if kind == "folder":
        return folder(request.getfixturevalue("tmp_path") / "bucket")
    if kind == "memory":
        return crashing_folder(CrashFileSystem())
    endpoint = request.getfixturevalue("endpoint")
    bucket = f"bucket-{abs(hash(request.node.nodeid)):x}"
    make_bucket(endpoint, bucket)
    return s3_store(endpoint, bucket if kind == "s3" else f"{bucket}/some/prefix")


@pytest.fixture(params=["folder", "memory", "s3", "s3-prefix"])
def store(request: pytest.FixtureRequest) -> ObjectStore:
    return make_store(request.param, request)


def test_what_was_put_is_read_back(store: ObjectStore) -> None:
    data = bytes(range(256)) * 5_000
    assert store.put_new(KEY, data)
    found = store.get(KEY)
    assert found is not None and found.data == data
    assert store.head(KEY) == len(data)
    assert store.get_start(KEY, 128) == data[:128]
    assert store.get_start(KEY, len(data) + 10) == data


def test_what_was_not_put_is_not_there(store: ObjectStore) -> None:
    store.put_new(KEY, b"something")
    for key in (OTHER, "another/partition-0/0000000000000001", "none"):
        assert store.head(key) is None
        assert store.get(key) is None
        assert store.get_start(key, 10) is None
        assert not store.replace(key, b"x", "tag")
        assert store.head(key) is None


def test_a_taken_key_is_left_as_it_is(store: ObjectStore) -> None:
    assert store.put_new(KEY, b"first")
    assert not store.put_new(KEY, b"second")
    assert not store.put_new(KEY, b"first")
    found = store.get(KEY)
    assert found is not None and found.data == b"first"


def test_of_many_who_race_for_a_key_one_gets_it(store: ObjectStore) -> None:
    n_racers, n_keys = 6, 8
    start = threading.Barrier(n_racers, timeout=60)

    def race(racer: int) -> list[int]:
        won = []
        for number in range(n_keys):
            start.wait()
            if store.put_new(f"store/log/{number:016d}", b"%d" % racer * 1_000):
                won.append(number)
        return won

    with ThreadPoolExecutor(n_racers) as pool:
        wins = list(pool.map(race, range(n_racers)))
    assert sorted(number for won in wins for number in won) == list(range(n_keys))
    for racer, won in enumerate(wins):
        for number in won:
            found = store.get(f"store/log/{number:016d}")
            assert found is not None and found.data == b"%d" % racer * 1_000


def test_replacing_goes_by_the_state_that_was_read(store: ObjectStore) -> None:
    store.put_new(KEY, b"as it was")
    first = store.get(KEY)
    assert first is not None
    assert store.replace(KEY, b"erased 1.", first.tag)
    assert not store.replace(KEY, b"erased 2.", first.tag)
    second = store.get(KEY)
    assert second is not None and second.data == b"erased 1." and second.tag != first.tag
    assert store.replace(KEY, b"erased 3.", second.tag)
    third = store.get(KEY)
    assert third is not None and third.data == b"erased 3."
    assert not store.put_new(KEY, b"as it was"), "the key stays taken"


def test_keys_are_listed_in_order_below_a_prefix(store: ObjectStore) -> None:
    for number in (12, 2, 1):
        store.put_new(f"a/log/{number:016d}", b"x" * number)
    store.put_new("a/logs/1", b"y")
    store.put_new("b/1", b"z")
    below = [(f"a/log/{n:016d}", n) for n in (1, 2, 12)]
    assert list(store.list("a/log/")) == below
    assert list(store.list("a/")) == [*below, ("a/logs/1", 1)]
    assert [key for key, _ in store.list("")] == [k for k, _ in below] + ["a/logs/1", "b/1"]
    assert list(store.list("c/")) == []


def test_its_conditions_are_kept(store: ObjectStore) -> None:
    check_conditions(store, "store/")


def test_a_store_that_ignores_conditions_is_refused(tmp_path: Path) -> None:
    class Forgetful(UnreliableStore):
        def put_new(self, key: str, data: bytes, *, behind: str | None = None) -> bool:
            self._store.put_new(key, data)
            return True

    class Careless(UnreliableStore):
        def replace(self, key: str, data: bytes, tag: str) -> bool:
            found = self._store.get(key)
            return found is not None and self._store.replace(key, data, found.tag)

    for kind in (Forgetful, Careless):
        with pytest.raises(Unavailable, match=r"create-only|conditional"):
            check_conditions(kind(folder(tmp_path)), "store/")


# ---- lost answers --------------------------------------------------------------------------------


def test_a_put_whose_answer_was_lost_stands_there_and_is_told_from_another(
    store: ObjectStore,
) -> None:
    unreliable = UnreliableStore(store)
    unreliable.after = fails("put_new")
    with pytest.raises(Unavailable) as lost:
        unreliable.put_new(KEY, b"mine")
    assert lost.value.outcome == "unknown"
    unreliable.after = lambda operation, key: None
    assert not unreliable.put_new(KEY, b"mine")
    found = unreliable.get(KEY)
    assert found is not None and found.data == b"mine"


def test_a_slow_put_that_arrives_late_changes_nothing(store: ObjectStore) -> None:
    """Its sender gave up, and another owner has the number by now."""
    slow = UnreliableStore(store)
    sent, arrives = threading.Event(), threading.Event()

    def hold(operation: str, key: str) -> None:
        sent.set()
        assert arrives.wait(60)

    slow.before = hold
    with ThreadPoolExecutor(1) as pool:
        late = pool.submit(slow.put_new, KEY, b"of the owner before")
        assert sent.wait(60)
        assert store.put_new(KEY, b"of the owner after")
        arrives.set()
        assert late.result() is False
    found = store.get(KEY)
    assert found is not None and found.data == b"of the owner after"


def test_a_server_that_never_answers_is_unavailable_in_time(endpoint: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        store = s3_store(f"http://127.0.0.1:{silent.getsockname()[1]}", "bucket", timeout_s=0.2)
        with pytest.raises(Unavailable) as failed:
            store.put_new(KEY, b"x")
        assert failed.value.outcome == "unknown"
        with pytest.raises(Unavailable):
            store.head(KEY)


def test_what_is_asked_of_a_store_is_answered_whatever_happens(store: ObjectStore) -> None:
    unreliable = UnreliableStore(store)
    fence = encode_fence(AUTHOR, 1, 1, 0)
    run = encode_run(AUTHOR, 2, 1, Run(0, 1 << 20, 1, 64, 72, 0, b"12345678"))
    store.put_new("a/0000000000000002", run)
    store.put_new("a/0000000000000003", run[:-1] + b"!")
    store.put_new("a/0000000000000004", b"no object of ours")

    def ask(question: StoreQuestion) -> object:
        return carry_out(unreliable, "a/", question)

    assert ask(Look(1, 1)) == Looked(1, False)
    assert ask(Put(2, 1, fence)) == PutAnswered(2, True)
    assert ask(Put(3, 1, fence)) == PutAnswered(3, False)
    assert ask(Look(4, 1)) == Looked(4, True)
    assert ask(ReadHeader(5, 1)) == HeaderRead(5, decode_header(fence))
    assert ask(Fetch(6, 2, 0)) == Got(6, decode_header(run), b"12345678")
    bad: list[StoreQuestion] = [
        Fetch(7, 3, 0),
        ReadHeader(8, 4),
        Fetch(9, 4, 0),
        ReadHeader(10, 5),
        Fetch(11, 5, 0),
    ]
    assert [type(ask(question)) for question in bad] == [Bad] * 5
    unreliable.before = fails("head", "get", "get_start", "put_new")
    unanswered: list[StoreQuestion] = [
        Look(1, 1),
        ReadHeader(1, 1),
        Fetch(1, 1, 0),
        Put(1, 9, fence),
    ]
    assert [type(ask(question)) for question in unanswered] == [Failed] * 4


def test_a_server_that_is_gone_is_unavailable(endpoint: str) -> None:
    with s3_server() as another:
        make_bucket(another, "bucket")
        s3_store(another, "bucket").put_new(KEY, b"here")
        store = s3_store(another, "bucket", timeout_s=0.1)
    calls: list[tuple[Any, str]] = [
        (lambda: store.put_new(OTHER, b"x"), "unknown"),
        (lambda: store.replace(KEY, b"x", "tag"), "unknown"),
        (lambda: store.get(KEY), "not_applied"),
        (lambda: store.get_start(KEY, 10), "not_applied"),
        (lambda: store.head(KEY), "not_applied"),
        (lambda: list(store.list("")), "not_applied"),
    ]
    for call, outcome in calls:
        with pytest.raises(Unavailable) as failed:
            call()
        assert failed.value.outcome == outcome


def test_a_bucket_that_is_missing_is_not_an_empty_one(endpoint: str) -> None:
    """An owner that took it for one would begin a second history."""
    missing(s3_store(endpoint, "no-such-bucket"))


def test_a_folder_that_is_not_mounted_is_not_an_empty_one(tmp_path: Path) -> None:
    missing(open_object_store(str(tmp_path / "not" / "mounted")))
    (tmp_path / "file").write_text("where the folder was")
    missing(open_object_store(str(tmp_path / "file")))
    assert not (tmp_path / "not").exists()


def test_a_folder_that_lacks_what_is_there_takes_nothing_behind_it(tmp_path: Path) -> None:
    """An empty mount point is a folder like any other."""
    store = folder(tmp_path / "bucket")
    assert store.put_new("a/1", b"x") and store.put_new("a/2", b"x", behind="a/1")
    (tmp_path / "bucket").rename(tmp_path / "unmounted")
    (tmp_path / "bucket").mkdir()
    for _ in range(3):
        with pytest.raises(Unavailable) as failed:
            store.put_new("a/3", b"x", behind="a/2")
        assert failed.value.outcome == "not_applied"
    (tmp_path / "bucket").rmdir()
    (tmp_path / "unmounted").rename(tmp_path / "bucket")
    assert store.put_new("a/3", b"x", behind="a/2")


def test_a_folder_that_is_exchanged_in_the_middle_of_a_put_is_found(tmp_path: Path) -> None:
    store = folder(tmp_path / "bucket")
    store.put_new("a/1", b"x")

    class Exchanging(LocalFileSystem):
        def link(self, source: Path, target: Path) -> None:
            super().link(source, target)
            (tmp_path / "bucket" / "a" / "1").unlink()

    store = FolderStore(Exchanging(), tmp_path / "bucket")
    with pytest.raises(Unavailable) as failed:
        store.put_new("a/2", b"x", behind="a/1")
    assert failed.value.outcome == "unknown"


def missing(store: ObjectStore) -> None:
    for call in (
        lambda: store.head(KEY),
        lambda: store.get(KEY),
        lambda: store.get_start(KEY, 10),
        lambda: store.put_new(KEY, b"x"),
        lambda: list(store.list("")),
    ):
        with pytest.raises(Unavailable):
            call()


def test_a_world_of_owners_ships_to_it_and_keeps_its_promises(store: ObjectStore) -> None:
    """The simulator's network in front of a real store: see ``shipping_simulator``."""
    world = World(3, store=store).run(500)
    assert len(world.objects) > 5


# ---- opening -------------------------------------------------------------------------------------


def test_a_folder_is_opened_by_its_path(tmp_path: Path) -> None:
    for url in (str(tmp_path / "bucket"), f"file://{tmp_path}/bucket"):
        store = open_object_store(url, create=True)
        assert isinstance(store, FolderStore)
        store.put_new(KEY, b"x")
    assert (tmp_path / "bucket" / KEY).read_bytes() == b"x"


@pytest.mark.parametrize("url", ["", "ftp://host/x", "https://host/x"])
def test_other_places_are_refused(url: str) -> None:
    with pytest.raises(InvalidArgument):
        open_object_store(url)


def test_without_the_extra_the_remedy_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "obstore", None)
    with pytest.raises(Unavailable, match=r"pip install neverforget\[object-store\]"):
        open_object_store("s3://bucket")


def test_a_store_that_cannot_be_listed_is_named() -> None:
    """ "object  in s3://bucket/x", it said where it was about all of them."""
    pytest.importorskip("obstore")
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))  # and does not listen
        store = s3_store(f"http://127.0.0.1:{nobody.getsockname()[1]}", "bucket/x", 1.0)
        with pytest.raises(Unavailable, match=r"^the objects in s3://bucket/x: "):
            list(store.list(""))


def test_obstore_is_imported_for_a_cloud_store_alone(tmp_path: Path) -> None:
    code = (
        "import sys\n"
        "from neverforget.storage import object_cloud, shipping_machine\n"
        "from neverforget.storage.object_store import open_object_store\n"
        f"open_object_store({str(tmp_path)!r}, create=True).put_new('a/1', b'x')\n"
        "print('obstore' in sys.modules)"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "False"


@pytest.mark.parametrize("key", ["", "/a", "a//b", "../a", "a/../b", "a/.hidden", "a b", "a/x.tmp"])
def test_a_folder_takes_no_key_that_leads_elsewhere(key: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument):
        folder(tmp_path).put_new(key, b"x")
