"""What an orderly end stores, so that the next opening has less to do."""

from __future__ import annotations

import pytest

from neverforget.actors import generation_storing
from neverforget.storage import longterm_storing
from tests.actors.conftest import Owning
from tests.actors.longterm_owners import OwnedLongTerm
from tests.actors.test_longterm_derived import publish


def remembered_and_closed(owned: OwnedLongTerm) -> int:
    """One more memory after a generation, whose number comes back."""
    owned.remember("green tea")
    number = publish(owned)
    owned.remember("black tea")
    owned.settle()
    owned.owner.close()
    return number


def test_words_are_stored_at_the_end_though_what_is_stored_is_large(
    owning: Owning, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With more than 64 MB of derived files nothing was stored, though words and rows of what is
    new take as long in a large store as in a small one.
    """
    monkeypatch.setattr(generation_storing, "QUICK_BYTES", 0)
    number = remembered_and_closed(owning())
    again = owning()
    again.settle()
    assert again.index().generation == number + 1
    assert len(again.found("tea")) == 2


def test_what_would_be_written_once_more_is_not_when_it_is_large(
    owning: Owning, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(generation_storing, "QUICK_BYTES", 0)
    monkeypatch.setattr(longterm_storing, "TABLE_LAG_BYTES", 0)
    number = remembered_and_closed(owning())
    again = owning()
    again.settle()
    assert again.index().generation == number
    assert len(again.found("tea")) == 2
