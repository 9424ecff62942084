"""What takes long in the indexes ends with the owner, and the next one finds nothing locked."""

from __future__ import annotations

import shutil
import threading
from typing import Any

import pytest

from neverforget.actors.longterm import LongTerm
from neverforget.storage import longterm_folding
from neverforget.storage.vector_index import VectorBase, VectorIndex
from tests.actors.conftest import Owning
from tests.actors.longterm_owners import OwnedLongTerm, embedding_of, spec
from tests.actors.test_longterm_reindex import ask
from tests.fakes.embedders import Plain
from tests.fakes.held_documents import StopsAtADocument


class ForEver:
    """Stands for training a million vectors: goes on until it may not."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.entered = threading.Event()
        self.given_up = threading.Event()
        monkeypatch.setattr(VectorIndex, "fold_trains", lambda index: True)
        monkeypatch.setattr(VectorBase, "folded", lambda *given: self._train(given[-1]))

    def _train(self, go_on: Any) -> Any:
        self.entered.set()
        pause = threading.Event()
        try:
            while True:
                go_on()
                pause.wait(0.001)
        finally:
            self.given_up.set()


def is_whole(owned: OwnedLongTerm, *texts: str) -> None:
    owned.settle()
    indexing = owned.owner.indexing
    assert indexing is not None and indexing.error is None
    assert sorted(owned.found("tea", strategy="vector")) == sorted(texts)
    assert sorted(owned.found("tea", strategy="text")) == sorted(texts)


def test_vectors_in_training_do_not_keep_a_store_that_is_closed(
    owning: Owning, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The owner waited for ten seconds, let go of its region and not of the indexes: the next one
    found them locked.
    """
    monkeypatch.setattr(longterm_folding, "UNSAVED_MAX", 1)
    owned = owning()
    with monkeypatch.context() as patched:
        training = ForEver(patched)
        owned.remember("green tea", "black tea")
        owned.settle()
        owned.until(training.entered.is_set)
        owned.owner.close()
        assert training.given_up.is_set()
    is_whole(owning(), "green tea", "black tea")


def test_a_generation_without_what_was_erased_does_not_keep_it_either(
    owning: Owning, monkeypatch: pytest.MonkeyPatch
) -> None:
    owned = owning()
    secret, *_ = owned.remember("secret tea", "black tea")
    owned.settle()
    with monkeypatch.context() as patched:
        training = ForEver(patched)
        (asked,) = owned.start(owned.erase(secret))
        owned.until(training.entered.is_set)
        owned.until(lambda: not len(owned.owner.deletions))  # its bytes are out of the log
        owned.owner.close()
        assert training.given_up.is_set()
        assert len(asked.replies) == 1, "whoever erased is told that it goes on"
    is_whole(owning(), "black tea")


def test_indexes_that_are_made_anew_do_not_keep_a_store_that_is_closed(
    owning: Owning, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Nor is anybody warned of a write that "failed"."""
    owned = owning()
    owned.remember("green tea", "black tea", "white tea")
    owned.settle()
    owned.owner.close()
    shutil.rmtree(owned.directory / "derived-1")
    with monkeypatch.context() as patched:
        stops = StopsAtADocument(patched)
        owner = LongTerm(spec(owned.directory), embedding_of(Plain()), lock=False)
        owner.open()
        owned.until(stops.entered.is_set)
        indexing = owner.indexing
        assert indexing is not None
        threading.Thread(target=stops.go_on_when, args=[indexing._ending]).start()
        owner.close()
        assert stops.documents == 1
    assert not caplog.records
    is_whole(owning(), "green tea", "black tea", "white tea")


def test_a_second_folder_that_is_made_does_not_keep_it_either(
    owning: Owning, monkeypatch: pytest.MonkeyPatch
) -> None:
    owned = owning({"test": Plain(16), "other": Plain(8)})
    owned.remember("green tea", "black tea", "white tea")
    owned.settle()
    with monkeypatch.context() as patched:
        stops = StopsAtADocument(patched)
        ask(owned, "other", begin=True)
        owned.until(stops.entered.is_set)
        indexing = owned.owner.indexing
        assert indexing is not None
        threading.Thread(target=stops.go_on_when, args=[indexing._ending]).start()
        owned.owner.close()
        assert stops.documents == 1
    is_whole(owning({"test": Plain(16)}), "green tea", "black tea", "white tea")
