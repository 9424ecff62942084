"""The embedder pool: fair to all who ask, answered in time, and passed over where it is gone.

Real sockets and threads, no Ray, no model.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from neverforget.actors import embedder_line
from neverforget.actors.embedder_checked import CheckedEmbedder, Embedded
from neverforget.actors.embedder_job import Job
from neverforget.actors.embedder_line import JOBS_MAX, EmbedderLine
from neverforget.actors.embedder_pool import EmbedderService
from neverforget.actors.embedder_spec import EmbedderSpec
from neverforget.actors.embedding import Embedding, LocalEmbedding
from neverforget.actors.embedding_client import PoolEmbedding
from neverforget.actors.greeting import ask, greet
from neverforget.actors.messages import Settle, Tail
from neverforget.actors.server import SocketServer
from neverforget.runtime.embedder_hash import HashEmbedder
from neverforget.storage.errors import InvalidArgument, NotFound, Overloaded, Unavailable
from tests.fakes.embedders import POISON, Hanging, Plain, Poisoned, raises

STORE = "00000000-0000-4000-8000-000000000000"
Make = Callable[[str], CheckedEmbedder | None]


class Pool:
    """Members with sockets in a folder, and clients of them; ``close`` ends what is left."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._stack = ExitStack()
        self.servers: list[SocketServer] = []

    def member(self, make: Make, number: int | None = None) -> str:
        number = len(self.servers) if number is None else number
        path = self._folder / f"e{number}.sock"
        spec = EmbedderSpec(directory="", store_id=STORE, role="worker", member=number)
        service = EmbedderService(spec, make)
        server = SocketServer(path, service, store_id=STORE)
        server.start(f"e{number}")
        self.servers.append(server)
        self._stack.callback(service.close)
        self._stack.callback(server.stop)
        return str(path)

    def client(self, *sockets: str) -> PoolEmbedding:
        client = PoolEmbedding(sockets, STORE)
        self._stack.callback(client.close)
        return client

    def close(self) -> None:
        self._stack.close()


@pytest.fixture
def pool(short_path: Path) -> Iterator[Pool]:
    made = Pool(short_path)
    yield made
    made.close()


@pytest.fixture(params=["local", "pool"])
def embedding_of(
    request: pytest.FixtureRequest, pool: Pool
) -> Iterator[Callable[[Any], Embedding]]:
    """Both ways of embedding: they answer alike."""
    with ExitStack() as stack:

        def made(embedder: Any, deadline_s: float = 60.0) -> Embedding:
            def make(name: str) -> CheckedEmbedder | None:
                if name != "it":
                    raise NotFound(f"nobody has passed {name}")
                return CheckedEmbedder(embedder, deadline_s=deadline_s)

            if request.param == "pool":
                return pool.client(pool.member(make))
            local = LocalEmbedding(make)
            stack.callback(local.close)
            return local

        yield made


def of(embedder: Any) -> Make:
    return lambda name: CheckedEmbedder(embedder)


def embed(embedding: Embedding, *texts: str, urgent: bool = False, s: float = 60.0) -> Embedded:
    return embedding.embed("it", texts, urgent=urgent, deadline_s=s)


class Stepwise(Plain):
    """Each call of ``embed`` waits to be let through; ``begun`` counts them."""

    def __init__(self, *, thread_safe: bool = False, batch_texts_max: int = 4) -> None:
        super().__init__()
        self.thread_safe, self.batch_texts_max = thread_safe, batch_texts_max
        self.begun, self.through = threading.Semaphore(0), threading.Semaphore(0)

    def embed(self, texts: Sequence[str]) -> Any:
        self.begun.release()
        self.through.acquire()
        return super().embed(texts)


def test_vectors_come_back_to_their_texts_and_the_embedder_is_described(
    embedding_of: Callable[[Any], Embedding],
) -> None:
    embedding = embedding_of(HashEmbedder(8, words_max=3))
    assert embedding.describe("it") == ("hash-8", 8)
    found = embed(embedding, "a b", "one two three four five", "", "c")
    assert sorted(set(found.owners.tolist())) == [0, 1, 2, 3]
    assert found.owners.tolist() == sorted(found.owners.tolist()) and len(found.owners) > 4
    assert np.array_equal(found.vectors[0], HashEmbedder(8).embed(["a b"])[0])
    assert (found.failed, found.waiting) == ({}, {})
    assert embed(embedding).vectors.shape == (0, 8)


def test_a_lone_surrogate_reaches_the_embedder(embedding_of: Callable[[Any], Embedding]) -> None:
    inner = Plain()
    embed(embedding_of(inner), "half \ud83d of it")
    assert ["half \ud83d of it"] in inner.asked


def test_one_bad_text_fails_alone(embedding_of: Callable[[Any], Embedding]) -> None:
    embedding = embedding_of(Poisoned(raises))
    found = embed(embedding, "a", f"{POISON}", "b")
    assert found.failed == {1: "ValueError"}
    assert found.owners.tolist() == [0, 2]


def test_an_embedder_that_nobody_has_passed_is_told_apart_from_one_that_fails(
    embedding_of: Callable[[Any], Embedding],
) -> None:
    embedding = embedding_of(Plain())
    with pytest.raises(NotFound, match="nobody has passed object:x"):
        embedding.describe("object:x")
    with pytest.raises(NotFound):
        embedding.embed("object:x", ["a"], urgent=True, deadline_s=30)


def test_a_hanging_model_is_answered_as_unavailable_when_the_callers_time_is_up(
    embedding_of: Callable[..., Embedding],
) -> None:
    inner = Hanging()
    embedding = embedding_of(inner)
    try:
        with pytest.raises(Unavailable, match="has not answered in time"):
            embed(embedding, "a", s=0.05)
        # Whoever comes meanwhile has a deadline of his own.
        with pytest.raises(Unavailable, match="has not answered in time"):
            embed(embedding, "b", urgent=True, s=0.05)
    finally:
        inner.release.set()
    assert embed(embedding, "c").owners.tolist() == [0]  # it has come back


def test_a_model_that_hangs_too_long_is_refused_at_once(
    embedding_of: Callable[..., Embedding],
) -> None:
    inner = Hanging()
    embedding = embedding_of(inner, 0.05)
    try:
        for _ in range(2):
            with pytest.raises(Unavailable, match=r"within 0\.05 s"):
                embed(embedding, "a")
    finally:
        inner.release.set()


def jobs(line: EmbedderLine, count: int, texts: Sequence[str], urgent: bool) -> list[Future[Any]]:
    """That many callers at once; the futures hold their answers."""
    answers: list[Future[Any]] = []
    for _ in range(count):
        future: Future[Any] = Future()
        line.submit(Job(texts, urgent=urgent, done=future.set_result))
        answers.append(future)
    return answers


@pytest.fixture
def line_of() -> Iterator[Callable[[Any], EmbedderLine]]:
    lines: list[EmbedderLine] = []

    def made(embedder: Any) -> EmbedderLine:
        lines.append(EmbedderLine("it", of(embedder)))
        return lines[-1]

    yield made
    for line in lines:
        line.close()


def test_what_was_done_when_time_is_up_is_kept_and_the_rest_waits(
    line_of: Callable[[Any], EmbedderLine],
) -> None:
    inner = Stepwise(batch_texts_max=1)
    answer: Future[Any] = Future()
    job = Job(["a", "b", "c"], urgent=False, done=answer.set_result)
    line_of(inner).submit(job)
    inner.through.release()
    for _ in range(2):  # "b" is begun, so "a" is done
        assert inner.begun.acquire(timeout=30)
    job.stop(Unavailable("time is up"))
    found = answer.result(timeout=30)
    assert found.owners.tolist() == [0]
    assert found.waiting == {1: "time is up", 2: "time is up"}
    inner.through.release(10)


def test_callers_share_batches_and_take_turns(line_of: Callable[[Any], EmbedderLine]) -> None:
    """Who brings a thousand texts holds nobody up who brings one."""
    inner = Stepwise(batch_texts_max=16)
    line = line_of(inner)
    [first] = jobs(line, 1, ["first"], False)
    assert inner.begun.acquire(timeout=30)
    [many] = jobs(line, 1, [f"many {n}" for n in range(100)], False)
    few = jobs(line, 3, ["few"], False)
    inner.through.release(2)
    for answer in [first, *few]:
        assert answer.result(timeout=30).owners.tolist() == [0]
    assert not many.done()
    assert inner.asked[1].count("few") == 3 and len(inner.asked[1]) == 16
    inner.through.release(100)
    assert many.result(timeout=30).owners.tolist() == list(range(100))


def test_urgent_texts_wait_for_no_more_than_the_batch_under_way(
    line_of: Callable[[Any], EmbedderLine],
) -> None:
    inner = Stepwise()
    line = line_of(inner)
    [slow] = jobs(line, 1, ["slow"] * 40, False)
    assert inner.begun.acquire(timeout=30)
    queries = jobs(line, 2, ["query"], True)
    inner.through.release(2)
    for query in queries:
        assert query.result(timeout=30).owners.tolist() == [0]
    assert inner.asked[1] == ["query", "query"]  # both in one call, and nothing besides
    assert not slow.done()
    inner.through.release(100)
    assert len(slow.result(timeout=30).owners) == 40


def test_urgent_texts_have_a_thread_of_their_own_where_the_embedder_allows_it(
    line_of: Callable[[Any], EmbedderLine],
) -> None:
    class Selective(Plain):
        thread_safe = True
        entered, release = threading.Event(), threading.Event()

        def embed(self, texts: Sequence[str]) -> Any:
            if "slow" in texts:
                self.entered.set()
                self.release.wait()
            return super().embed(texts)

    inner = Selective()
    line = line_of(inner)
    try:
        [slow] = jobs(line, 1, ["slow"], False)
        assert inner.entered.wait(30)
        [query] = jobs(line, 1, ["query"], True)
        assert query.result(timeout=30).owners.tolist() == [0]
        assert not slow.done()
    finally:
        inner.release.set()
    assert slow.result(timeout=30).owners.tolist() == [0]


def test_a_long_text_is_many_windows_in_many_batches(
    line_of: Callable[[Any], EmbedderLine],
) -> None:
    class Windowed(Plain):
        batch_texts_max = 4

        def windows(self, text: str) -> list[str]:
            return text.split()

    inner = Windowed()
    [found] = jobs(line_of(inner), 1, ["w " * 50, "x"], False)
    assert found.result(timeout=30).owners.tolist() == [0] * 50 + [1]
    assert max(map(len, inner.asked)) == 4


def test_too_many_callers_are_refused_and_those_who_left_make_room(
    line_of: Callable[[Any], EmbedderLine],
) -> None:
    inner = Hanging()
    line = line_of(inner)
    try:
        jobs(line, 1, ["a"], False)
        assert inner.entered.wait(30)
        there = threading.Event()
        for _ in range(JOBS_MAX):
            line.submit(
                Job(["a"], urgent=False, done=lambda _: None, alive=lambda: not there.is_set())
            )
        with pytest.raises(Overloaded):
            jobs(line, 1, ["a"], False)
        [query] = jobs(line, 1, ["a"], True)  # they have room of their own
        there.set()
        [other] = jobs(line, 1, ["a"], False)
    finally:
        inner.release.set()
    assert query.result(timeout=30).owners.tolist() == [0]
    assert other.result(timeout=30).owners.tolist() == [0]


def test_closing_answers_everybody(
    line_of: Callable[[Any], EmbedderLine], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(embedder_line, "_END_S", 0.05)  # for one that hangs it waits in vain
    inner = Hanging()
    line = line_of(inner)
    try:
        first = jobs(line, 1, ["a"], False)
        assert inner.entered.wait(30)
        answers = first + jobs(line, 3, ["a"], False)
        line.close()
        for answer in answers:
            assert isinstance(answer.result(timeout=30), Unavailable)
        with pytest.raises(Unavailable):
            jobs(line, 1, ["a"], False)
    finally:
        inner.release.set()


# ---- the pool over its sockets -------------------------------------------------------------------


def test_a_dead_member_is_passed_over_and_found_again(pool: Pool) -> None:
    alive = pool.member(of(Plain()))
    gone = pool.member(of(Plain()))
    client = pool.client(gone, alive)
    assert embed(client, "a").owners.tolist() == [0]
    pool.servers[1].stop()
    for _ in range(5):
        assert embed(client, "a").owners.tolist() == [0]
    pool.servers[0].stop()
    pool.member(of(Plain()), 1)
    assert embed(client, "a").owners.tolist() == [0]


def test_calls_wait_for_a_member_to_come(pool: Pool, short_path: Path) -> None:
    client = pool.client(str(short_path / "e0.sock"))
    with ThreadPoolExecutor(1) as threads:
        asked = threads.submit(embed, client, "a")
        pool.member(of(Plain()), 0)
        assert asked.result(timeout=30).owners.tolist() == [0]


def test_without_any_member_a_call_ends_at_its_deadline(pool: Pool, short_path: Path) -> None:
    client = pool.client(str(short_path / "nobody.sock"))
    with pytest.raises(Unavailable, match="has not answered in time"):
        embed(client, "a", s=0.1)


def test_a_member_whose_embedder_fails_leaves_it_to_another(pool: Pool) -> None:
    class Down(Plain):
        def embed(self, texts: Sequence[str]) -> Any:
            raise ConnectionRefusedError(111, "refused")

    down, well = pool.member(of(Down())), pool.member(of(Plain()))
    assert embed(pool.client(down, well), "a").owners.tolist() == [0]
    with pytest.raises(Unavailable, match="refused"):
        embed(pool.client(down), "a")


def test_a_silent_member_is_left_for_another(
    pool: Pool, short_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stopped process still takes connections; nobody answers."""
    monkeypatch.setattr("neverforget.actors.embedding_client.GREETING_S", 0.05)
    silent = short_path / "silent.sock"
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(str(silent))
        listener.listen()
        client = pool.client(str(silent), pool.member(of(Plain())))
        assert embed(client, "a").owners.tolist() == [0]


def test_calls_go_to_the_member_with_the_fewest_under_way(pool: Pool) -> None:
    hanging = Hanging()
    other = Plain()
    client = pool.client(pool.member(of(hanging)), pool.member(of(other)))
    try:
        with ThreadPoolExecutor(1) as threads:
            asked = threads.submit(embed, client, "a")
            assert hanging.entered.wait(30)
            for _ in range(3):
                embed(client, "b")
            assert [texts for texts in other.asked if texts == ["b"]] == [["b"]] * 3
            hanging.release.set()
            asked.result(timeout=30)
    finally:
        hanging.release.set()


def test_closing_a_client_ends_its_calls(pool: Pool) -> None:
    inner = Hanging()
    client = pool.client(pool.member(of(inner)))
    try:
        with ThreadPoolExecutor(1) as threads:
            asked = threads.submit(embed, client, "a")
            assert inner.entered.wait(30)
            client.close()
            with pytest.raises(Unavailable):
                asked.result(timeout=30)
    finally:
        inner.release.set()


def test_many_texts_go_in_several_requests_and_come_back_as_one(
    pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("neverforget.actors.embedding_client.BATCH_CHARACTERS", 10)
    inner = Poisoned(raises)
    found = embed(pool.client(pool.member(of(inner))), "aaaaaaaa", POISON, "bbbbbbbb", "c")
    assert found.owners.tolist() == [0, 2, 3] and list(found.failed) == [1]
    assert np.array_equal(found.vectors[2], HashEmbedder(8).embed(["c"])[0])


def test_a_member_answers_nothing_else(pool: Pool) -> None:
    path = pool.member(of(Plain()))
    connection, welcome = greet(path, STORE, 5.0)
    with connection:
        assert (welcome.partition, welcome.state) == (-3, "serving")
        ask(connection, Settle(1), 5.0)
        with pytest.raises(InvalidArgument, match="Tail is not for an embedder"):
            ask(connection, Tail(2, (), "s", None, 1, None, None, False), 5.0)


def test_no_embedder_embeds_nothing(pool: Pool) -> None:
    client = pool.client(pool.member(lambda name: None))
    with pytest.raises(InvalidArgument, match="embeds nothing"):
        embed(client, "a")
