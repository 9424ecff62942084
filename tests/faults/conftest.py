"""Fixtures of the fault tests: the shim and disks to break. What cannot run here says "not run"."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TypeVar

import pytest

from tests.faults import shim as shims
from tests.faults.disks import (
    LoopDisk,
    MountedDisk,
    NbdDisk,
    ThinDisk,
    TmpfsDisk,
    Unusable,
    keep_mounts_private,
)

HERE = Path(__file__).parent
D = TypeVar("D", bound=MountedDisk)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(HERE):
            item.add_marker(pytest.mark.faults)
    if any("disks" in getattr(item, "fixturenames", ()) for item in items):
        keep_mounts_private()  # before any thread is there that would go on seeing other mounts


@pytest.fixture(scope="session")
def shim_library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    reason = shims.reason_not_to_run()
    if reason:
        pytest.skip(reason)
    return shims.compile_shim(tmp_path_factory.mktemp("shim"))


@pytest.fixture
def shim(shim_library: Path, tmp_path: Path) -> Iterator[shims.Shim]:
    one = shims.Shim(shim_library, tmp_path / "fault-table")
    yield one
    one.close()


class Disks:
    """Makes disks and takes them down again, in reverse order."""

    def __init__(self, directory: Path, stack: ExitStack) -> None:
        self._directory, self._stack = directory, stack
        self._count = 0

    def loop(self, size_bytes: int = 64 * 1024 * 1024) -> LoopDisk:
        def make(directory: Path) -> LoopDisk:
            image = directory / "disk.img"
            LoopDisk.format(image, size_bytes)
            return LoopDisk(directory / "disk", image)

        return self._made(make)

    def image(self, image: Path) -> LoopDisk:
        """A disk that is there already, formatted, and may have lost power."""

        def make(directory: Path) -> LoopDisk:
            try:
                return LoopDisk(directory / "disk", image)
            except Unusable:
                # A torn superblock: ext4 wants to be checked first. It takes another copy of it.
                LoopDisk.check(image)
                return LoopDisk(directory / "disk", image)

        return self._made(make)

    def tmpfs(self, size_bytes: int) -> TmpfsDisk:
        return self._made(lambda d: TmpfsDisk(d / "disk", size_bytes))

    def thin(self, backing_bytes: int) -> ThinDisk:
        return self._made(lambda d: ThinDisk(d, backing_bytes))

    def formatted(self, image: Path, size_bytes: int, *options: str) -> Path:
        try:
            LoopDisk.format(image, size_bytes, *options)
        except Unusable as reason:
            pytest.skip(str(reason))
        return image

    def nbd(self, *plugin: str) -> NbdDisk:
        """``plugin``: nbdkit's command line; the device behind it is formatted already."""
        return self._made(lambda d: NbdDisk(d, list(plugin)))

    def _made(self, make: Callable[[Path], D]) -> D:
        self._count += 1
        directory = self._directory / f"disk{self._count}"
        directory.mkdir()
        try:
            disk = make(directory)
        except Unusable as reason:
            pytest.skip(str(reason))
        self._stack.callback(disk.close)
        return disk


@pytest.fixture
def disks(tmp_path: Path) -> Iterator[Disks]:
    with ExitStack() as stack:
        yield Disks(tmp_path, stack)
