"""Real full disks: a typed refusal, reads go on, and freeing space is all it takes to go on."""

from __future__ import annotations

from pathlib import Path

import pytest

from neverforget.actors.messages import AppendedReply, Failure
from tests.faults.appender import append_request
from tests.faults.conftest import Disks
from tests.faults.disks import MIB, MountedDisk, until
from tests.faults.oracle import Appender, Oracle, Owner, create_region

pytestmark = pytest.mark.root


KINDS = ["loop", pytest.param("tmpfs", marks=pytest.mark.long)]  # of the first test: both


def small_disk(disks: Disks, kind: str) -> MountedDisk:
    return disks.tmpfs(20 * MIB) if kind == "tmpfs" else disks.loop(32 * MIB)


def append_until_refused(owner: Owner, oracle: Oracle, first: int) -> tuple[int, Failure]:
    """Returns the number that was refused, and how."""
    for number in range(first, first + 100_000):
        reply = owner.ask(append_request(number, turns=oracle.turns))
        if isinstance(reply, Failure):
            return number, reply
        assert isinstance(reply, AppendedReply)
        oracle.acked[number] = reply.result.first_seq
    raise AssertionError("the disk never filled")


@pytest.mark.parametrize("kind", ["tmpfs", "loop"])
def test_a_full_disk_refuses_appends_serves_reads_and_recovers(disks: Disks, kind: str) -> None:
    disk = small_disk(disks, kind)
    region = disk.root / "p0"
    create_region(region)
    oracle = Oracle(turns=40)
    ballast = disk.fill()
    with Owner(region) as owner:
        refused, failure = append_until_refused(owner, oracle, 1)
        assert failure.code == "out_of_space", failure
        assert oracle.acked, "the segment that was there took appends"
        for _ in range(3):  # again and again, and no worse for it
            reply = owner.ask(append_request(refused, turns=40))
            assert isinstance(reply, Failure) and reply.code == "out_of_space"
            owner.check(oracle)  # reads are served by the owner that refused
        ballast.unlink()
        reply = owner.ask(append_request(refused, turns=40))
        assert isinstance(reply, AppendedReply)
        oracle.acked[refused] = reply.result.first_seq
        disk.fill()
        append_until_refused(owner, oracle, refused + 1)
        owner.check(oracle)
    with Owner(region) as owner:  # opened anew on the full disk
        owner.check(oracle)
        assert owner.verify() == []


@pytest.mark.parametrize("kind", KINDS)
def test_an_owner_killed_on_a_full_disk_is_followed_by_one_that_serves_reads(
    disks: Disks, tmp_path: Path, kind: str
) -> None:
    disk = small_disk(disks, kind)
    region = disk.root / "p0"
    create_region(region)
    oracle = Oracle(turns=20)
    ballast = disk.fill()
    writer = Appender(region, tmp_path / "acks", "--turns", 20, "--persist")
    writer.wait_for("error", 3)
    assert writer.process.poll() is None
    assert {line.split()[2] for line in writer.lines() if line.startswith("error")} == {
        "out_of_space"
    }
    writer.kill()
    writer.heard_by(oracle)
    with Owner(region) as owner:
        owner.check(oracle)
    ballast.unlink()
    writer = Appender(
        region, tmp_path / "more", "--turns", 20, "--first", oracle.last + 1, "--count", 200
    )
    assert writer.wait() == 0
    writer.heard_by(oracle)
    with Owner(region) as owner:
        owner.check(oracle)


@pytest.mark.parametrize("kind", KINDS)
def test_a_full_disk_with_a_torn_tail_is_still_readable(
    disks: Disks, tmp_path: Path, kind: str
) -> None:
    """Putting the torn bytes aside needs space that is not there; reading does not."""
    disk = small_disk(disks, kind)
    region = disk.root / "p0"
    create_region(region)
    writer = Appender(region, tmp_path / "acks", "--count", 20, "--linger")
    writer.wait_for("idle")
    writer.kill()
    oracle = writer.heard_by(Oracle())
    segment = next((region / "log").glob("*.seg"))
    data = bytearray(segment.read_bytes())
    end = len(data.rstrip(b"\0")) + 8 & ~7
    with segment.open("r+b") as file:
        file.seek(end)
        file.write(b"half a record that never was acknowledged" * 5)
    ballast = disk.fill()
    with Owner(region) as owner:
        # It serves what is proven to be durable: all but the last group, which was not followed.
        assert owner.state == "readonly"
        assert len(owner.contents()) == 19
        reply = owner.ask(append_request(21))
        assert isinstance(reply, Failure) and reply.code == "out_of_space", reply
        ballast.unlink()
        until(lambda: owner.turn() == "serving", "the owner to try again")
        owner.check(oracle)
        assert len(list((region / "torn").iterdir())) == 1


def test_a_file_size_limit_is_a_full_disk(tmp_path: Path) -> None:
    """`ulimit -f`: no signal, no crash loop, the same typed refusal."""
    region = tmp_path / "p0"
    create_region(region)
    writer = Appender(
        region, tmp_path / "acks", "--turns", 40, "--persist",
        "--segment-bytes", 8 * MIB, "--file-bytes-max", 3 * MIB,
    )  # fmt: skip
    writer.wait_for("error", 3)
    assert {line.split()[2] for line in writer.lines() if line.startswith("error")} == {
        "out_of_space"
    }
    assert writer.process.poll() is None
    writer.kill()
    with Owner(region) as owner:
        owner.check(writer.heard_by(Oracle(turns=40)))
