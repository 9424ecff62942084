"""What becomes of each kind of record that was set aside."""

from __future__ import annotations

import pytest

from neverforget.storage.errors import UnsupportedFormat
from neverforget.storage.format import Kind
from neverforget.storage.shipping_salvage import FATES, Fate, fates_of


def test_every_kind_of_record_has_a_fate() -> None:
    assert FATES.keys() == set(Kind)


def test_marks_are_dropped_and_hides_translated() -> None:
    kinds = [Kind.MARK, Kind.HIDDEN, Kind.FORK, Kind.NOOP, Kind.ERASING, Kind.ERASED, Kind.PLANNED]
    assert [fate.name for fate in fates_of(kinds)] == [
        "DROP", "TRANSLATE", "TRANSLATE", "DROP", "ERASE", "DROP", "DROP",
    ]  # fmt: skip


def test_a_chunking_is_dropped_with_its_whole_batch() -> None:
    """It is derived from its original, and is made again with the same ids."""
    assert fates_of([Kind.REMEMBERED, Kind.REMEMBERED, Kind.CHUNKED]) == [Fate.DROP] * 3
    assert fates_of([Kind.REMEMBERED, Kind.RELATED]) == [Fate.APPEND, Fate.IF_CURRENT]


def test_a_kind_of_a_newer_version_is_not_dropped_in_silence() -> None:
    with pytest.raises(UnsupportedFormat, match="install a newer one"):
        fates_of([Kind.TURN, 250])
