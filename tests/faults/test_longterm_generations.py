"""What is derived from the long-term log may be damaged, cut short, killed or without room: it is
reported and made anew, every answer is right, and nothing that was acknowledged is lost.
"""

from __future__ import annotations

import gc
import random
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from neverforget.storage.errors import OutOfSpace, Poisoned
from neverforget.storage.filesystem import LocalFileSystem
from neverforget.storage.manifest import examine
from tests.conftest import ROOT
from tests.fakes.removing import remove_indexes
from tests.faults.conftest import Disks
from tests.faults.disks import MIB
from tests.storage.generation_writer import Writer, text_of

FS = LocalFileSystem()
_NOT_CHECKED = ("LOCK", ".managed.json")  # nobody believes anything in them


def filled(directory: Path, rounds: int) -> Writer:
    """Two generations of rows, and a little behind them."""
    writer = Writer(directory)
    while writer.rounds < rounds:
        writer.go()
        if writer.rounds == rounds // 2 or writer.rounds == rounds - 3:
            writer.follow()
            writer.stored.publish()
    writer.follow()
    return writer


def damages(whole: bytes, rng: random.Random, flips: int) -> Iterator[tuple[str, bytes]]:
    for share in (0, 0.25, 0.5, 0.99):
        yield f"cut at {share}", whole[: int(share * len(whole))]
    places = {
        0,
        len(whole) // 2,
        len(whole) - 1,
        *(rng.randrange(len(whole)) for _ in range(flips)),
    }
    for at in sorted(places):
        yield f"byte {at} flipped", whole[:at] + bytes([whole[at] ^ 0x10]) + whole[at + 1 :]


def test_every_damage_to_every_file_is_reported_and_every_answer_is_right(
    tmp_path: Path, rng: random.Random, request: pytest.FixtureRequest
) -> None:
    writer = filled(tmp_path, 12)
    writer.stored.close()
    writer.region.close()
    whole = tmp_path / "whole"
    shutil.copytree(writer.derived, whole)
    long = request.config.getoption("--long")
    looked_at = 0
    for path in sorted(p for p in whole.rglob("*") if p.is_file()):
        name = path.relative_to(whole)
        if name.name in _NOT_CHECKED or name.name.endswith(".lock"):
            continue
        content = path.read_bytes()
        cases = [case for case in damages(content, rng, 5 if long else 1) if case[1] != content]
        for how, damaged in cases if long else rng.sample(cases, 2):
            remove_indexes(writer.derived)
            shutil.copytree(whole, writer.derived)
            (writer.derived / name).write_bytes(damaged)
            writer.region = writer.open(derived=writer.derived)
            writer.stored = writer.open_derived()
            assert writer.stored.findings, f"{name}: {how}"
            writer.check()
            writer.stored.publish()
            writer.stored.close()
            writer.stored = writer.open_derived()
            assert writer.stored.findings == [] and writer.index.view().waiting == 0
            writer.stored.close()
            writer.region.close()
            looked_at += 1
    assert looked_at >= 20


# ---- kill -9 -------------------------------------------------------------------------------------


@pytest.mark.timeout(3600)
def test_kill_9_while_generations_are_written_costs_nothing(
    tmp_path: Path, rng: random.Random, request: pytest.FixtureRequest
) -> None:
    rounds, limit = (200, 400) if request.config.getoption("--long") else (3, 400)
    acknowledged = number = 0
    for attempt in range(rounds):
        directory = tmp_path / str(number)
        command = [sys.executable, "-m", "tests.storage.generation_writer", str(directory)]
        with subprocess.Popen(
            [*command, str(rng.getrandbits(32))], stdout=subprocess.PIPE, text=True, cwd=ROOT
        ) as process:
            assert process.stdout is not None
            for _ in range(rng.randint(2, 12)):
                line = process.stdout.readline()
                assert line, "it ended by itself"
                acknowledged = int(line)
            try:  # then a random moment, which is over before the writer would be
                process.wait(rng.random() * 0.2)
            except subprocess.TimeoutExpired:
                process.send_signal(signal.SIGKILL)
            rest = process.stdout.read().splitlines()
        assert process.returncode == -signal.SIGKILL
        acknowledged = max([acknowledged, *(int(line) for line in rest[:-1])])
        writer = Writer(directory)
        assert writer.rounds >= acknowledged, attempt
        assert writer.stored.findings == [], attempt
        writer.mend()
        writer.check()
        writer.stored.close()
        writer.region.close()
        if writer.rounds > limit:  # begin anew, or each look at it takes longer
            remove_indexes(directory)
            number, acknowledged = number + 1, 0


# ---- a full disk ---------------------------------------------------------------------------------


@pytest.mark.root
@pytest.mark.parametrize(
    ("free_kib", "anew"),
    [
        (0, False),
        (12, True),
        (48, False),
        pytest.param(0, True, marks=pytest.mark.long),
        pytest.param(12, False, marks=pytest.mark.long),
        pytest.param(48, True, marks=pytest.mark.long),
    ],
)
def test_a_full_disk_at_the_second_save_keeps_the_first_generation(
    disks: Disks, tmp_path: Path, free_kib: int, anew: bool
) -> None:
    """The log stands on another disk: what is derived runs out of room by itself."""
    disk = disks.tmpfs(4 * MIB)
    writer = OnTwoDisks(tmp_path, disk.root)
    for _ in range(40):
        writer.go()
    writer.follow()
    writer.stored.publish()
    for _ in range(40):
        writer.go()
    writer.follow()
    ballast = disk.fill()
    with ballast.open("r+b") as file:
        file.truncate(ballast.stat().st_size - free_kib * 1024)
    refused = 0
    for _ in range(2):
        try:
            writer.stored.publish(anew=anew)
        except (OutOfSpace, Poisoned):
            refused += 1
    assert refused or free_kib > 16
    found = examine(FS, writer.derived, writer.region.state.log_id, depth="sha")
    assert found.manifest is not None and not found.damaged
    writer.go()
    writer.check()
    writer.stored.close()
    writer.stored = writer.open_derived()
    writer.check()
    ballast.unlink()
    writer.stored.publish(anew=anew)
    writer.stored.close()
    writer.stored = writer.open_derived()
    assert writer.stored.findings == [] and writer.index.view().waiting == 0
    writer.check()
    assert writer.words(text_of(80).split()[0]) == [text_of(80)]
    writer.stored.close()
    writer.region.close()
    del writer
    gc.collect()  # what is in a cycle holds maps of the disk


class OnTwoDisks(Writer):
    def __init__(self, directory: Path, derived: Path) -> None:
        super().__init__(directory)
        self.stored.close()
        self.derived = derived / "derived"
        self.stored = self.open_derived()
