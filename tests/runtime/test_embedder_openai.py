"""Embeddings over HTTP, against a real server on loopback that behaves and misbehaves."""

from __future__ import annotations

import logging
import pickle
from collections.abc import Callable, Iterator

import numpy as np
import pytest

from neverforget.actors.embedder_checked import CheckedEmbedder
from neverforget.actors.embedder_contract import NotEmbedded
from neverforget.actors.tokenizers import estimate
from neverforget.runtime.embedder_hash import HashEmbedder
from neverforget.runtime.embedder_openai import (
    BATCH_BYTES_MAX,
    OpenAIEmbedder,
    batches,
)
from neverforget.runtime.openai_endpoint import ANSWER_BYTES_MAX, OPENAI_KEY, retry_after
from neverforget.runtime.openai_names import EMBEDDER_KEY as OUR_KEY
from neverforget.storage.errors import Unavailable
from tests.fakes import embedding_server as served
from tests.fakes.embedding_server import EmbeddingServer, serving

KEY = "sk-very-secret-0123456789"


class StepClock:
    """Time passes only in ``sleep``."""

    def __init__(self) -> None:
        self.now, self.slept = 1000.0, list[float]()

    def now_us(self) -> int:
        return int(self.now * 1e6)

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv(OUR_KEY, KEY)
    monkeypatch.delenv(OPENAI_KEY, raising=False)


@pytest.fixture
def server() -> Iterator[EmbeddingServer]:
    with serving() as running:
        yield running


@pytest.fixture
def clock() -> StepClock:
    return StepClock()


@pytest.fixture
def embedder(server: EmbeddingServer, clock: StepClock) -> Iterator[OpenAIEmbedder]:
    made = OpenAIEmbedder(server.name, clock=clock, sleep=clock.sleep, chance=lambda: 1.0)
    yield made
    made.close()


def test_texts_become_rows_in_their_order(
    server: EmbeddingServer, embedder: OpenAIEmbedder
) -> None:
    rows = embedder.embed(["one", "two", "\x00 漢字 \ud83d"])
    assert rows.dtype == np.float32
    assert np.allclose(rows[:2], HashEmbedder(16).embed(["one", "two"]))
    ((path, headers, asked),) = server.requests
    assert path == "/v1/embeddings"
    assert headers["authorization"] == f"Bearer {KEY}"
    assert asked == {
        "model": "test-model",
        "input": ["one", "two", "\x00 漢字 \ufffd"],
        "encoding_format": "float",
    }
    assert embedder.dimension == 16 and len(server.requests) == 1


def test_the_dimension_is_asked_for_where_nobody_knows_it(
    server: EmbeddingServer, embedder: OpenAIEmbedder
) -> None:
    assert embedder.dimension == 16
    assert server.asked == [["neverforget"]]
    assert OpenAIEmbedder("openai:text-embedding-3-small@https://host/v1").dimension == 1536


def test_a_large_call_is_cut_by_count_and_by_bytes(
    server: EmbeddingServer, embedder: OpenAIEmbedder
) -> None:
    texts = [f"text {n}" for n in range(150)]
    assert np.allclose(embedder.embed(texts), HashEmbedder(16).embed(texts))
    assert [len(asked) for asked in server.asked] == [64, 64, 22]
    large = ["漢" * 40_000] * 5  # 120,000 bytes each
    assert [len(batch) for batch in batches(large)] == [2, 2, 1]
    assert [len(batch) for batch in batches(["a", "x" * BATCH_BYTES_MAX * 2, "b"])] == [1, 1, 1]
    assert list(batches([])) == []


# ---- what may pass -------------------------------------------------------------------------------

PASSING: dict[str, served.Behaviour] = {
    "429": served.status(429),
    "500": served.status(500),
    "502 page": served.raw(b"<html>Bad gateway</html>", 502, Content_Type="text/html"),
    "503": served.status(503),
    "408": served.status(408),
    "closed": served.close,
    "cut": served.cut,
}


@pytest.mark.parametrize("name", PASSING)
def test_what_may_pass_is_tried_again_with_growing_pauses(
    server: EmbeddingServer, embedder: OpenAIEmbedder, clock: StepClock, name: str
) -> None:
    server.script.extend([PASSING[name]] * 3)
    assert embedder.embed(["a"]).shape == (1, 16)
    assert clock.slept == [0.5, 1.0, 2.0]


def test_the_endpoint_says_how_long_to_wait(
    server: EmbeddingServer, embedder: OpenAIEmbedder, clock: StepClock
) -> None:
    server.script.append(served.status(429, Retry_After="7"))
    server.script.append(served.status(503, Retry_After="Thu, 01 Jan 1970 00:16:50 GMT"))
    embedder.embed(["a"])
    assert clock.slept == [7.0, 3.0]  # the clock stood at 1000 + 7 s, the date says 1010 s


def test_a_wait_beyond_the_deadline_is_not_begun(
    server: EmbeddingServer, embedder: OpenAIEmbedder, clock: StepClock
) -> None:
    server.script.append(served.status(429, Retry_After="3600"))
    with pytest.raises(Unavailable, match=r"status 429 .*tried 1 times"):
        embedder.embed(["a"])
    assert clock.slept == []


@pytest.mark.parametrize("name", [n for n in PASSING if n != "500"])
def test_what_does_not_pass_is_unavailable(
    server: EmbeddingServer, embedder: OpenAIEmbedder, name: str
) -> None:
    server.usual = PASSING[name]
    with pytest.raises(Unavailable, match="tried 4 times") as caught:
        embedder.embed(["a"])
    assert caught.value.outcome == "not_applied"
    assert len(server.requests) == 4


def test_nobody_listens(server: EmbeddingServer, clock: StepClock) -> None:
    name = server.name
    server.server_close()
    embedder = OpenAIEmbedder(name, clock=clock, sleep=clock.sleep)
    with pytest.raises(Unavailable, match="ConnectError"):
        _ = embedder.dimension
    embedder.close()


@pytest.mark.parametrize("behaviour", [served.hang, served.drip], ids=["hang", "drip"])
def test_a_request_that_hangs_or_drips_is_given_up(
    server: EmbeddingServer, behaviour: served.Behaviour
) -> None:
    server.usual = behaviour
    embedder = OpenAIEmbedder(server.name, request_s=0.2, sleep=lambda seconds: None)
    with pytest.raises(Unavailable, match=r"Timeout|too slow"):
        embedder.embed(["a"])
    assert 1 <= len(server.requests) <= 4
    embedder.close()


# ---- what does not pass --------------------------------------------------------------------------


@pytest.mark.parametrize("number", [401, 403, 404, 301, 402])
def test_a_refused_key_or_an_unknown_model_is_not_tried_again(
    server: EmbeddingServer, embedder: OpenAIEmbedder, number: int
) -> None:
    server.usual = served.status(number, "some_code", Location="http://127.0.0.1:1/")
    with pytest.raises(Unavailable, match=rf"status {number} \(some_code\)"):
        embedder.embed(["a"])
    assert len(server.requests) == 1


WRONG: dict[str, served.Behaviour] = {
    "garbage": served.raw(b"\xff\x00garbage"),
    "a page": served.raw(b"<html>Welcome</html>"),
    "empty": served.raw(b""),
    "other JSON": served.raw(b'{"hello": 1}'),
    "an error with status 200": served.raw(b'{"error": {"message": "no"}}'),
    "NaN": served.embeddings(lambda rows: [[float("nan")] * 16 for _ in rows]),
    "null": served.embeddings(lambda rows: [[None] * 16 for _ in rows]),
    "infinity": served.embeddings(lambda rows: [[float("inf")] * 16 for _ in rows]),
    "too large": served.raw(b'{"data": [{"index": 0, "embedding": [1e999]}]}'),
    "words": served.embeddings(lambda rows: ["AAAA" for _ in rows]),
    "a row too few": served.embeddings(lambda rows: rows[1:]),
    "a row too many": served.embeddings(lambda rows: [*rows, rows[0]]),
    "different lengths": served.embeddings(lambda rows: [rows[0], rows[1][:8], *rows[2:]]),
    "another dimension": served.embeddings(lambda rows: [row[:8] for row in rows]),
    "no dimension": served.embeddings(lambda rows: [[] for _ in rows]),
    "a number twice": served.numbered(lambda count: [0] * count),
    "numbers from 1": served.numbered(lambda count: [n + 1 for n in range(count)]),
    "one number": served.numbered(lambda count: [0] + [None] * (count - 1)),
    "400": served.status(400),
    "413": served.status(413),
    "422": served.status(422),
}
RIGHT_ALONE = ("a number twice", "one number")  # numbered 0, as a single row should be


@pytest.mark.parametrize("name", WRONG)
def test_an_answer_that_is_not_right_is_none(
    server: EmbeddingServer, embedder: OpenAIEmbedder, name: str
) -> None:
    assert embedder.dimension == 16
    server.usual = WRONG[name]
    with pytest.raises(NotEmbedded) as caught:
        embedder.embed(["private one", "private two"])
    assert "private" not in str(caught.value)
    assert len(server.requests) == 2
    checked = CheckedEmbedder(embedder)
    if name in RIGHT_ALONE:
        assert checked.embed_all(["private one", "private two"]).failed == {}
        return
    with pytest.raises(Unavailable):  # it fails with every text: none is blamed
        checked.embed_all(["private one", "private two"])


def test_an_endless_answer_is_cut(server: EmbeddingServer, embedder: OpenAIEmbedder) -> None:
    server.script.append(served.raw(b" " * (ANSWER_BYTES_MAX + 1)))
    with pytest.raises(NotEmbedded, match="more than"):
        embedder.embed(["a"])


@pytest.mark.parametrize(
    "order",
    [lambda n: list(range(n))[::-1], lambda n: [None] * n],
    ids=["reversed", "without numbers"],
)
def test_rows_are_put_in_order_by_their_numbers(
    server: EmbeddingServer,
    embedder: OpenAIEmbedder,
    order: Callable[[int], list[int | None]],
) -> None:
    server.usual = served.numbered(order)
    assert np.allclose(embedder.embed(["a", "b", "c"]), HashEmbedder(16).embed(["a", "b", "c"]))


POISONING: dict[str, served.Behaviour] = {
    "400": served.status(400, "content_filter"),
    "500": served.status(500),
    "null": served.embeddings(lambda rows: [[None] * 16 for _ in rows]),
}


@pytest.mark.parametrize("name", POISONING)
def test_one_poisoned_text_is_found_and_the_others_embedded(
    server: EmbeddingServer, embedder: OpenAIEmbedder, name: str
) -> None:
    server.usual = served.poisoned("poison", POISONING[name])
    texts = [f"text {n}" for n in range(100)]
    texts[41] = "poison"
    found = CheckedEmbedder(embedder).embed_all(texts)
    assert list(found.failed) == [41]
    assert "poison" not in found.failed[41]
    assert found.owners.tolist() == [n for n in range(100) if n != 41]


# ---- the key -------------------------------------------------------------------------------------


def test_the_key_is_never_shown(
    server: EmbeddingServer,
    embedder: OpenAIEmbedder,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:
    caplog.set_level(logging.DEBUG)
    embedder.embed(["a"])
    shown = [repr(embedder), str(vars(embedder)), str(pickle.dumps(embedder))]
    for behaviour in (served.status(401), served.status(400), served.hang, served.cut):
        server.release.set()
        server.usual = behaviour
        with pytest.raises((Unavailable, NotEmbedded)) as caught:
            embedder.embed(["a"])
        error: BaseException | None = caught.value
        while error is not None:
            shown += [repr(error), str(error), str(vars(error))]
            error = error.__cause__
        assert caught.value.__cause__ is None  # it would carry the request
    shown += [caplog.text, *capfd.readouterr()]
    assert not [text for text in shown if KEY in text or "very-secret" in text]


def test_openais_key_goes_to_openai_only(
    server: EmbeddingServer, embedder: OpenAIEmbedder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A store that somebody else made names the host; opening it must not give the key away."""
    monkeypatch.delenv(OUR_KEY)
    monkeypatch.setenv(OPENAI_KEY, KEY)
    embedder.embed(["a"])
    assert "authorization" not in {name.lower() for name in server.requests[0][1]}
    to_openai = OpenAIEmbedder("openai:text-embedding-3-small@https://api.openai.com/v1")
    assert to_openai._endpoint.key() == KEY
    assert OpenAIEmbedder("openai:m@http://api.openai.com/v1")._endpoint.key() is None
    assert OpenAIEmbedder("openai:m@https://api.openai.com.example.org/v1")._endpoint.key() is None
    server.usual = served.status(401)
    with pytest.raises(Unavailable, match=OUR_KEY):
        embedder.embed(["a"])


@pytest.mark.parametrize("key", [f"{KEY}\n{KEY}", f"{KEY}é", f"{KEY}\x01"])
def test_a_key_that_no_header_may_hold_is_refused_without_showing_it(
    embedder: OpenAIEmbedder, monkeypatch: pytest.MonkeyPatch, key: str
) -> None:
    monkeypatch.setenv(OUR_KEY, key)
    with pytest.raises(Unavailable, match=OUR_KEY) as caught:
        embedder.embed(["a"])
    assert "secret" not in str(caught.value)


def test_a_line_end_after_the_key_does_no_harm(
    server: EmbeddingServer, embedder: OpenAIEmbedder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(OUR_KEY, f"{KEY}\n")
    embedder.embed(["a"])
    assert server.requests[0][1]["authorization"] == f"Bearer {KEY}"


def test_without_a_key_none_is_sent(
    server: EmbeddingServer, embedder: OpenAIEmbedder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(OUR_KEY)
    assert embedder.embed(["a"]).shape == (1, 16)
    assert "authorization" not in server.requests[0][1]


# ---- the rest ------------------------------------------------------------------------------------


def test_it_pickles_as_its_name(server: EmbeddingServer, embedder: OpenAIEmbedder) -> None:
    assert embedder.dimension == 16
    copy: OpenAIEmbedder = pickle.loads(pickle.dumps(embedder))
    assert copy.dimension == 16 and len(server.requests) == 1
    assert copy.model_id == embedder.model_id == server.name
    assert np.array_equal(copy.embed(["a"]), embedder.embed(["a"]))
    copy.close()


def test_a_closed_one_opens_new_connections(
    server: EmbeddingServer, embedder: OpenAIEmbedder
) -> None:
    embedder.close()
    assert embedder.embed(["a"]).shape == (1, 16)
    embedder.close()
    embedder.close()


def test_windows_are_as_long_as_the_model_surely_reads() -> None:
    text = " ".join(f"word{n}" for n in range(5000))
    other = OpenAIEmbedder("openai:unknown@https://host/v1").windows(text)
    assert len(other) > 50 and max(map(estimate, other)) <= 384
    known = OpenAIEmbedder("openai:text-embedding-3-small@https://host/v1").windows(text)
    assert 1 < len(known) < 10 and max(map(estimate, known)) <= 6000


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        (None, None),
        ("5", 5.0),
        ("0.25", 0.25),
        ("-3", 0.0),
        ("inf", float("inf")),
        ("nan", None),
        ("soon", None),
        ("Thu, 01 Jan 1970 00:01:00 GMT", 50.0),
        ("Thu, 01 Jan 1970 00:00:01 GMT", 0.0),
    ],
)
def test_retry_after_is_seconds_or_a_date(header: str | None, seconds: float | None) -> None:
    assert retry_after(header, 10.0) == seconds
