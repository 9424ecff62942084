"""Which part of a long text a person is shown."""

from __future__ import annotations

from pathlib import Path

import neverforget as nf
from neverforget.runtime.cli_words import excerpt, where_most, words_of
from tests.runtime.cli_calls import Cli

FILLER = "Parcels are packed, weighed, labelled and carried to the harbour before noon. "
WANTED = "The zebra vault code is 7719."


def test_of_a_hit_in_a_chunk_the_sentence_that_was_asked_for_is_shown(
    cli: Cli, tmp_path: Path
) -> None:
    """The chunk's beginning was shown, and cut before that sentence."""
    text = FILLER * 30 + "\n\n## Vault\n\n" + FILLER * 15 + WANTED + "\n\n## Rest\n\n" + FILLER * 30
    with nf.open(tmp_path / "memory", inline=True, embedder="none") as store:
        store.remember(text)
        store.settle()
        chunk = store.recall("zebra vault code")[0].chunk
    assert chunk is not None and chunk.text.index(WANTED) > 600
    shown = cli("recall", tmp_path / "memory", "zebra vault code").out
    assert WANTED in shown


def test_the_stretch_has_most_of_the_words_and_is_shown_whole() -> None:
    text = "code " + FILLER * 20 + "the vault. " + "x" * 505 + " zebra " + FILLER * 20 + WANTED
    found = where_most(text, words_of("What is the zebra vault code?"))
    assert found is not None and WANTED in excerpt(text, found)
    assert text[found[0] :].startswith("zebra vault code")


def test_text_whose_small_letters_are_longer_is_shown_at_the_right_place() -> None:
    text = "Straße " * 400 + "İstanbul " * 100 + WANTED
    found = where_most(text, words_of("zebra"))
    assert found is not None and text[found[0] :].startswith("zebra")


def test_characters_of_east_asian_text_are_words() -> None:
    text = "港の荷物は毎日運ばれます。" * 100 + "金庫の暗証番号は七七一九です。"
    found = where_most(text, words_of("金庫の暗証番号"))
    assert found is not None and "金庫の暗証番号" in excerpt(text, found)


def test_without_any_of_the_words_there_is_no_such_stretch() -> None:
    assert where_most(FILLER * 20, words_of("zebra")) is None
