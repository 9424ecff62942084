"""A store that is shipped to S3, as far as a server on the loopback is one: the whole way."""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

import neverforget as nf
from neverforget.runtime.restoring import restore
from neverforget.storage.errors import OwnerFenced
from tests.storage.object_stores import make_bucket, s3_server

pytestmark = pytest.mark.skipif(find_spec("moto") is None, reason="not run: needs moto and flask")


@pytest.fixture
def url(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Of a place in a bucket, reached by what the environment says. The servers of one process have
    their buckets in common: each test has a prefix of its own."""
    with s3_server() as endpoint:
        make_bucket(endpoint, "bucket")
        for name, value in {
            "AWS_ENDPOINT_URL": endpoint,
            "AWS_ALLOW_HTTP": "true",
            "AWS_REGION": "us-east-1",
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "test",
            "AWS_VIRTUAL_HOSTED_STYLE_REQUEST": "false",
        }.items():
            monkeypatch.setenv(name, value)
        yield f"s3://bucket/some/prefix-{uuid.uuid4()}"


def test_appended_erased_lost_restored_and_fenced(tmp_path: Path, url: str) -> None:
    how = {"inline": True, "partitions": 1, "embedder": "none", "segment_bytes": 64 * 1024}
    with nf.open(tmp_path / "store", replica=url, **how) as store:  # type: ignore[arg-type]
        chat = store.session("chat")
        for text in ("one", "a secret", "three"):
            chat.append("user", text, sync="replica")
        chat.erase([1], confirm=nf.CONFIRMED, by="ada")
        report = restore(tmp_path / "new", url)
        assert (report.sessions, report.turns) == (1, 3)
        with pytest.raises(OwnerFenced):
            chat.append("user", "late", sync="replica")
    shutil.rmtree(tmp_path / "store")
    with nf.open(tmp_path / "new", inline=True) as store:
        turns = list(store.session("chat"))
        assert [turn.content for turn in turns if turn.state == "ok"] == ["one", "three"]
        assert turns[1].state == "erased"
        store.session("chat").append("user", "four", sync="replica")


def test_it_is_listed_and_restored_as_of_a_time_and_verified(tmp_path: Path, url: str) -> None:
    how = {"inline": True, "partitions": 1, "embedder": "none", "segment_bytes": 64 * 1024}
    with nf.open(tmp_path / "store", replica=url, **how) as store:  # type: ignore[arg-type]
        chat = store.session("chat")
        for text in ("one", "a secret"):
            chat.append("user", text, sync="replica")
        mine = store.status().store_id
        at = nf.restore_points(url, mine).points[-1].at
        chat.append("user", "later", sync="replica")
        chat.erase([1], confirm=nf.CONFIRMED, by="ada")
        found = nf.restore_points(url, mine)
        assert [log.turns for log in found.logs] == [3, 0]
        report = nf.restore(tmp_path / "then", url, store_id=mine, at=at)
        assert (report.turns, report.erasures) == (2, 1)
        assert store.verify(remote=True).objects >= 4
        chat.append("user", "not fenced", sync="replica")
    with nf.open(tmp_path / "then", inline=True) as then:
        assert [turn.content for turn in then.session("chat")] == ["one", None]
        assert [entry.by for entry in then.audit()] == ["ada"] and then.verify().ok


def test_a_bucket_that_is_not_there_is_said_at_once(tmp_path: Path, url: str) -> None:
    with pytest.raises(nf.Unavailable):
        nf.open(tmp_path / "store", inline=True, embedder="none", replica="s3://nowhere/x")
