"""Config: what may be set, where a value came from, what the file holds."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path
from typing import Any

import pytest

import neverforget as nf
from neverforget.runtime import config as settings
from neverforget.runtime.arguments import sync_code
from neverforget.runtime.config import Config, attached, effective, host_settings, named
from neverforget.runtime.stored_settings import read_stored, store_toml


def test_a_config_is_frozen_and_travels() -> None:
    config = Config(sync="process", partitions=2)
    with pytest.raises(AttributeError):
        config.sync = "disk"  # type: ignore[misc]
    for made in (copy.deepcopy(config), pickle.loads(pickle.dumps(config))):
        assert made == config and made.sources == config.sources and hash(made) == hash(config)
    assert "sync='process'" in repr(config)


def test_a_default_that_is_named_counts_as_named() -> None:
    assert Config(partitions=2).named == {"partitions": 2}
    assert Config().named == {}
    assert Config(partitions=2) == Config()


def test_keywords_win_over_config_and_config_over_the_file_and_the_file_over_defaults() -> None:
    asked = named(Config(sync="process", deadline_s=5), {"deadline_s": 9})
    found = effective(asked, {"sync": "disk", "sync_interval_ms": 50})
    assert (found.sync, found.deadline_s, found.sync_interval_ms) == ("process", 9, 50)
    assert found.sources["sync"] == "argument"
    assert found.sources["sync_interval_ms"] == "store.toml"
    assert found.sources["partitions"] == "default"
    assert set(found.sources) == set(found.as_dict()) == set(settings.SETTINGS)


def test_what_is_fixed_cannot_become_something_else() -> None:
    stored = {"partitions": 4, "tokenizer": "estimate", "name_digest": "blake2b-64"}
    assert effective(Config(), stored).partitions == 4
    assert effective(Config(partitions=4), stored).sources["partitions"] == "argument"
    with pytest.raises(nf.InvalidArgument, match="partitions was fixed as 4"):
        effective(Config(partitions=2), stored)


def test_a_client_that_attaches_takes_the_hosts_settings() -> None:
    hosted = host_settings(effective(Config(partitions=3, segment_bytes=8192), {}))
    found = attached(Config(sync="process"), hosted, {"deadline_s": 4.0})
    assert (found.partitions, found.segment_bytes) == (3, 8192)
    assert found.sources["partitions"] == "host" and found.sources["deadline_s"] == "store.toml"
    with pytest.raises(nf.InvalidArgument, match="at the host"):
        attached(Config(segment_bytes=4096), hosted, {})
    with pytest.raises(nf.InvalidArgument, match=r"was fixed as 3.*make another store"):
        attached(Config(partitions=2), hosted, {})  # no host can be started with another value
    assert attached(Config(partitions=3), hosted, {}).partitions == 3


@pytest.mark.parametrize(
    "wrong",
    [
        {"partitions": 0},
        {"partitions": 257},
        {"partitions": 2.0},
        {"partitions": True},
        {"name_digest": "md5"},
        {"tokenizer": None},
        {"segment_bytes": 1},
        {"sync": "both"},
        {"replica": "ftp://host/x"},
        {"replica": "/a/path"},
        {"replica_unreachable": "maybe"},
        {"deadline_s": 0},
        {"deadline_s": float("nan")},
        {"deadline_s": "5"},
    ],
)
def test_values_that_cannot_be_meant_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(nf.InvalidArgument, match=next(iter(wrong))):
        Config(**wrong)


def test_an_unknown_level_is_refused_with_those_there_are() -> None:
    with pytest.raises(nf.InvalidArgument, match=r'pass "disk", "process" or "replica"$'):
        sync_code("both", "disk")  # type: ignore[arg-type]


def test_the_file_holds_what_is_fixed_and_what_the_host_was_told(tmp_path: Path) -> None:
    config = effective(Config(partitions=3, sync_interval_ms=20, sync="process"), {})
    (tmp_path / "store.toml").write_bytes(store_toml(config))
    assert read_stored(tmp_path) == {
        "partitions": 3,
        "name_digest": "blake2b-64",
        "tokenizer": "estimate",
        "sync_interval_ms": 20,
    }
    assert read_stored(tmp_path / "nowhere") == {}


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("[fixed", "not valid TOML"),
        ("[fixed]\nsync = 'disk'", "no setting sync"),
        ("[host]\nsync_interval_ms = 'often'", "sync_interval_ms must be"),
        ("[somewhere]\nx = 1", "unknown somewhere"),
        ("partitions = 2", "unknown partitions"),
    ],
)
def test_a_mistake_in_the_file_is_named_with_the_file(
    tmp_path: Path, text: str, match: str
) -> None:
    (tmp_path / "store.toml").write_text(text)
    with pytest.raises(nf.InvalidArgument, match=match) as caught:
        read_stored(tmp_path)
    assert "store.toml" in str(caught.value)
