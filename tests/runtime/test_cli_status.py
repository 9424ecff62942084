"""How a store stands, at the command line: the whole of it, again and again, and for a probe."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest
from rich.console import Console

import neverforget as nf
from neverforget.runtime.cli_owners import (
    WIDE,
    WIDER,
    duration,
    last_errors,
    owners_table,
    short_size,
)
from neverforget.runtime.cli_watch import Watching
from neverforget.runtime.config import Config
from neverforget.runtime.status_values import OwnerInfo, ReplicaInfo, Status
from tests.fakes.plain_host import PlainHost
from tests.runtime.cli_calls import Cli


@pytest.fixture
def host(short_path: Path) -> Iterator[PlainHost]:
    made = PlainHost(short_path / "store", Config(partitions=2, embedder="none"))
    with nf.open(short_path / "store", host="never") as store:
        for n in range(3):
            store.session(f"s{n}").append("user", f"turn {n}")
        store.remember("Oslo is wet")
    yield made
    made.close()


@pytest.fixture
def found(host: PlainHost) -> Status:
    with nf.open(host.store.path, host="never") as store:
        return store.status()


def shown(value: Any, width: int) -> list[str]:
    console = Console(width=width, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    with console.file:
        console.print(value)
    return console.export_text().splitlines()


def busy(found: Status) -> Status:
    """The same with big figures, long names and a replica that is behind."""
    replica = ReplicaInfo("s3://b", "everything", "down", 9, 10**9, 10**8, 75.0)
    owners = tuple(
        msgspec.structs.replace(
            owner, node="ip-10-0-12-134.eu-central-1", epoch=123, turns=12_345_678, pid=1_234_567,
            log_bytes=789 * 2**20, queue=4096, restarts=17, replica=replica, sync_p50_s=0.0123,
            sync_p99_s=1.5, through="socket",
        )
        for owner in found.owners
    )  # fmt: skip
    return msgspec.structs.replace(found, owners=owners)


# ---- tables --------------------------------------------------------------------------------------


def test_the_table_fits_a_terminal_of_eighty_columns(found: Status) -> None:
    lines = shown(owners_table(busy(found), 80), 80)
    assert len(lines) == 1 + 2 + 1, "a heading, two partitions, the memories; nothing is folded"
    assert not any("…" in line.replace("…", "", 1) for line in lines), "only the node is cut"
    words = "owner state node epoch turns bytes sync queue lag"
    assert lines[0].split() == words.split()
    assert lines[1].split() == [
        "0", "serving", "…-0-12-134", "123", "12,345,678", "789M",
        "12.3", "ms", "4,096", "1", "min",
    ]  # fmt: skip


def test_a_wide_terminal_shows_more(found: Status) -> None:
    lines = shown(owners_table(busy(found), WIDE), WIDE)
    assert len(lines) == 4
    for word in ("pid", "via", "restarts", "p99"):
        assert word in lines[0]
    assert "1234567" in lines[1] and "socket" in lines[1] and "1.5 s" in lines[1]
    assert " ip-10-0-12-134 " in lines[1]
    assert "opened" in shown(owners_table(busy(found), WIDER), WIDER)[0]


def test_last_errors_are_shown_newest_first_with_their_age(found: Status) -> None:
    assert last_errors(found) is None
    now = datetime.now(UTC)
    before = now - timedelta(hours=3)
    first, second = found.owners
    told = msgspec.structs.replace(
        found,
        owners=(
            msgspec.structs.replace(first, last_error="old", last_error_at=before),
            msgspec.structs.replace(second, last_error="new", last_error_at=now),
        ),
    )
    lines = shown(last_errors(told), 100)
    assert [line.split()[1] for line in lines[1:]] == ["new", "old"]
    assert "3 h ago" in lines[2]


def test_durations_and_sizes_are_short() -> None:
    seconds = (0.0, 0.00004, 0.0009, 0.012, 0.9, 3.4, 90, 5400, 90_000)
    assert [duration(s) for s in seconds] == [
        "-", "0.04 ms", "0.90 ms", "12 ms", "900 ms", "3.4 s", "2 min", "2 h", "25 h",
    ]  # fmt: skip
    sizes = (0, 1023, 1024, 1500 * 1024, 64 * 2**20, 1010 * 2**20, 2**41)
    assert [short_size(n) for n in sizes] == ["0", "1,023", "1K", "1.46M", "64M", "1010M", "2.0T"]


def test_problems_name_who_does_not_serve_and_why(found: Status) -> None:
    assert found.healthy and found.problems == ()
    first: OwnerInfo = msgspec.structs.replace(found.owners[0], state="away", reason="no node")
    longterm = msgspec.structs.replace(found.longterm, state="recovering")
    told = msgspec.structs.replace(found, owners=(first, found.owners[1]), longterm=longterm)
    assert not told.healthy
    assert told.problems == ("partition 0: away (no node)", "the memories: recovering")


# ---- the command ---------------------------------------------------------------------------------


def test_status_shows_the_owners_of_a_hosted_store(cli: Cli, host: PlainHost) -> None:
    ran = cli("status", host.store.path)
    assert ran.code == 0
    assert re.search(r"^memories +serving", ran.out, re.MULTILINE)
    assert "last error" not in ran.out
    told = cli("status", host.store.path, "--json").json
    assert told["problems"] == [] and told["owners"][0]["sync_p99_s"] > 0
    assert told["owners"][0]["last_error"] is None


def test_an_owner_that_does_not_answer_is_shown_beside_the_others(host: PlainHost) -> None:
    """The whole status failed, and said nothing of those that serve."""
    with nf.open(host.store.path, host="never", deadline_s=3.0) as store:
        store.status()
        host.stop_owner(1)
        found = store.status()
        host.start_owner(1)
    assert [owner.state for owner in found.owners] == ["serving", "away"]
    assert found.owners[1].reason


def test_a_check_says_yes_in_one_line(cli: Cli, host: PlainHost) -> None:
    ran = cli("status", host.store.path, "--check")
    assert (ran.code, ran.out) == (0, "serving: 2 partitions and the memories\n")
    assert cli("status", host.store.path, "--check", "--json").json == {
        "healthy": True, "problems": [],
    }  # fmt: skip


def test_a_check_names_who_does_not_serve(cli: Cli, host: PlainHost) -> None:
    host.stop_owner(1)
    ran = cli("status", host.store.path, "--check", "--timeout", "0.5")
    host.start_owner(1)
    assert ran.code == 1 and ran.err.startswith("partition 1: away")


def test_a_check_opens_no_store_and_makes_none(cli: Cli, tmp_path: Path) -> None:
    """A probe that held the lock would keep the host from starting."""
    with nf.open(tmp_path / "store", inline=True, embedder="none"):
        pass
    ran = cli("status", tmp_path / "store", "--check")
    assert ran.code == 4 and "neverforget serve" in ran.err
    assert cli("status", tmp_path / "none", "--check").code == 3
    assert not (tmp_path / "none").exists()


def test_watching_prints_a_block_or_a_line_of_json_each_time(cli: Cli, host: PlainHost) -> None:
    where = (host.store.path, "--watch", "--every", "0.1", "-n", "3")
    ran = cli("status", *where)
    assert ran.code == 0 and ran.out.count("memories  serving") == 3
    lines = cli("status", *where, "--json").out.splitlines()
    assert len(lines) == 3
    assert all(json.loads(line)["healthy"] is True for line in lines)


def test_watching_waits_for_a_host_and_goes_on_over_the_next(cli: Cli, short_path: Path) -> None:
    path = short_path / "store"
    watching = Watching(str(path))
    with pytest.raises(nf.NotFound):
        watching.look()
    first = PlainHost(path, Config(partitions=1, embedder="none"))
    watching.look()
    assert watching.gone is None and watching.found is not None
    first.close()
    watching.look()
    assert watching.gone is not None and watching.found.owners, "the last that is known"
    assert watching.as_json()["unavailable"] == watching.gone
    assert "owners" not in watching.as_json()
    text = "\n".join(shown(watching.view(80), 80))
    assert "does not answer" in text and "no host for" in text
    second = PlainHost(path, Config(partitions=1, embedder="none"))
    watching.look()
    assert watching.gone is None
    watching.close()
    second.close()


def test_what_grows_is_told_by_the_second(host: PlainHost) -> None:
    watching = Watching(str(host.store.path))
    watching.look()
    assert watching.rate(lambda each: each.turns) is None
    with nf.open(host.store.path, host="never") as store:
        store.session("s0").append_many([{"role": "user", "content": "x"}] * 1000)
    watching.look()
    rate = watching.rate(lambda each: each.turns)
    assert rate is not None and rate > 0
    assert re.search(r"turns 1,003 \(\+", "\n".join(shown(watching.view(100), 100)))
    watching.close()


def test_looking_once_and_again_and_again_do_not_go_together(cli: Cli, host: PlainHost) -> None:
    assert cli("status", host.store.path, "--check", "--watch").code == 2
