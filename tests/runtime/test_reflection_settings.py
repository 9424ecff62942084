"""When a store reflects, and what extracts: settings of its host."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import neverforget as nf
from neverforget.actors.extractor_contract import Fact, Window
from neverforget.runtime.config import Config, attached, effective, host_settings
from neverforget.runtime.owner_specs import OwnerSpecs
from neverforget.runtime.store_directory import make_directory, prepare
from neverforget.runtime.stored_settings import read_stored, store_toml
from neverforget.storage.filesystem import LocalFileSystem


class Silent:
    """Finds nothing worth remembering."""

    def __init__(self, extractor_id: str = "silent-1") -> None:
        self.extractor_id = extractor_id

    def extract(self, window: Window) -> list[Fact]:
        return []


@pytest.mark.parametrize(
    "wrong",
    [
        {"reflect_every_turns": -1},
        {"reflect_every_turns": 1.0},
        {"reflect_after_s": -1.0},
        {"reflect_after_s": False},
        {"reflect_after_s": float("nan")},
        {"reflector_threads": 0},
        {"extractor": "clever"},
        {"extractor": None},
        {"extractor": Silent},
        {"extractor": Silent("two\nlines")},
    ],
)
def test_what_cannot_be_meant_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(nf.InvalidArgument, match=r"reflect|extractor"):
        Config(**wrong)


def test_seconds_of_which_none_are_meant_are_told_so() -> None:
    """0 may be said here, and the message of a wrong value said that it may not."""
    with pytest.raises(nf.InvalidArgument, match=r"reflect_after_s must be .* from 0 on, not -1"):
        Config(reflect_after_s=-1)
    assert Config(reflect_after_s=0).reflect_after_s == 0


def test_the_file_keeps_the_name_of_an_extractor_that_is_an_object(tmp_path: Path) -> None:
    given = Silent()
    config = effective(Config(extractor=given, reflect_after_s=0, reflect_every_turns=0), {})
    (tmp_path / "store.toml").write_bytes(store_toml(config))
    stored = read_stored(tmp_path)
    assert stored["extractor"] == "object:silent-1" == config.extractor_name
    assert (stored["reflect_every_turns"], stored["reflect_after_s"]) == (0, 0)
    assert effective(Config(), stored).extractor_object is None
    assert effective(Config(extractor=given), stored).extractor_object is given


def test_who_attaches_names_the_extractor_of_the_host_or_none() -> None:
    hosted = host_settings(effective(Config(extractor=Silent()), {}))
    assert attached(Config(extractor=Silent()), hosted, {}).extractor_name == "object:silent-1"
    with pytest.raises(nf.InvalidArgument, match="at the host"):
        attached(Config(extractor="rules"), hosted, {})


def specs(path: Path, *, reflects: bool = True, **settings: Any) -> OwnerSpecs:
    make_directory(path, create=True)
    store = prepare(LocalFileSystem(), path, Config(partitions=1, **settings), create=True)
    return OwnerSpecs(store, reflects=reflects)


def test_owners_are_told_when_sessions_are_due(tmp_path: Path) -> None:
    made = specs(tmp_path / "a", reflect_every_turns=7, reflect_after_s=60, timezone="Asia/Tokyo")
    assert (made.partition(0).reflect_every, made.partition(0).reflect_after_s) == (7, 60)
    assert (made.reflector().extractor, made.reflector().timezone) == ("rules", "Asia/Tokyo")
    assert made.reflector().threads == 1  # of a store inside a process
    nevers: list[tuple[str, dict[str, Any]]] = [
        ("b", {"reflect_every_turns": 0}),
        ("c", {"extractor": "none"}),
        ("d", {"reflects": False}),
    ]
    for name, never in nevers:
        partition = specs(tmp_path / name, **never).partition(0)
        assert (partition.reflect_every, partition.reflect_after_s) == (0, 0.0)
