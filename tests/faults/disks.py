"""Small real file systems to break: loop-mounted ext4, tmpfs, thin disks, devices of our own.

Every one needs root; ``Unusable`` says what is missing, and the fixtures skip with that reason.
None is left mounted: not by a test that failed, whose traceback holds files of it, and with
``keep_mounts_private`` not by a process that was killed.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import shutil
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

MIB = 1024 * 1024
_EXT4_IOC_SHUTDOWN = 0x8004587D
_NO_LOG_FLUSH = 2  # the journal is not flushed: as if the current had gone
_CLONE_NEWNS = 0x20000
_MS_REC, _MS_SLAVE = 1 << 14, 1 << 19


class Unusable(Exception):
    """This machine cannot do that; the text begins with "not run:"."""


def run(*command: str | Path) -> str:
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True)
    if done.returncode != 0:
        raise OSError(errno.EIO, f"{' '.join(map(str, command))}: {done.stderr.strip()}")
    return done.stdout.strip()


def need(*programs: str) -> None:
    if os.geteuid() != 0:
        raise Unusable("not run: needs root")
    missing = [name for name in programs if shutil.which(name) is None]
    if missing:
        raise Unusable(f"not run: {', '.join(missing)} is missing")


def until(condition: Callable[[], bool], what: str, timeout_s: float = 120.0) -> None:
    """Wait for something outside this process that cannot tell us, such as a kernel or a daemon.
    Nobody waits for so long, but where a busy machine does.
    """
    deadline = time.monotonic() + timeout_s
    pause = threading.Event()
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"waited {timeout_s:g} s for {what}")
        pause.wait(0.01)


def keep_mounts_private() -> None:
    """What this thread mounts from now on nobody sees but those whom it starts, and it goes with
    the last of them, however they end. Without root nothing can be mounted, and nothing is done.
    """
    if sys.platform != "linux" or os.geteuid() != 0:
        return
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(_CLONE_NEWNS) == 0:
        # What others mount and unmount goes on to be seen here.
        libc.mount(b"none", b"/", None, ctypes.c_ulong(_MS_REC | _MS_SLAVE), None)


class MountedDisk:
    """Something mounted at ``root``. ``unmount`` waits ``patience_s`` for the last dying user of
    it; then it takes it out of sight, which is a failure, too.
    """

    patience_s = 30.0

    def __init__(self, root: Path) -> None:
        self.root = root
        self.mounted = False

    def _mount(self, *arguments: str | Path) -> None:
        self.root.mkdir(exist_ok=True)
        try:
            run("mount", *arguments, self.root)
        except OSError as error:
            raise Unusable(f"not run: cannot mount here ({error.strerror})") from error
        self.mounted = True

    def unmount(self) -> None:
        if not self.mounted:
            return

        def unmounted() -> bool:
            try:
                run("umount", self.root)
            except OSError as error:
                if "busy" not in str(error):
                    raise
                return False
            return True

        try:
            until(unmounted, f"{self.root} to be free", self.patience_s)
        except TimeoutError:
            run("umount", "--lazy", self.root)
            raise
        finally:
            self.mounted = False

    def remount(self, options: str) -> None:
        run("mount", "-o", f"remount,{options}", self.root)

    def free_bytes(self) -> int:
        left = os.statvfs(self.root)
        return left.f_bavail * left.f_frsize

    def fill(self) -> Path:
        """Take all space that is left, in one file, and return it."""
        path = self.root / "ballast"
        descriptor = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o600)
        try:
            at, step = 0, 4 * MIB
            while step >= 512:
                try:
                    written = os.pwrite(descriptor, bytes(step), at)
                    at += written
                except OSError as error:
                    if error.errno != errno.ENOSPC:
                        raise
                    step //= 2
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        return path

    def close(self) -> None:
        self.unmount()


class TmpfsDisk(MountedDisk):
    """A few MiB of memory that are full soon."""

    def __init__(self, root: Path, size_bytes: int) -> None:
        need("mount", "umount")
        super().__init__(root)
        self._mount("-t", "tmpfs", "-o", f"size={size_bytes}", "none")


class LoopDisk(MountedDisk):
    """ext4 in a file. ``power_cut`` drops whatever was not flushed to it, as losing power does."""

    def __init__(self, root: Path, image: Path) -> None:
        need("mkfs.ext4", "mount", "umount", "losetup")
        super().__init__(root)
        self.image = image
        self.mount()

    @staticmethod
    def format(image: Path, size_bytes: int, *options: str) -> None:
        need("mkfs.ext4")
        with image.open("wb") as file:
            file.truncate(size_bytes)
        run("mkfs.ext4", "-q", "-F", "-m", "0", *options, image)

    @staticmethod
    def check(image: Path) -> None:
        """What a boot does with a file system that does not mount."""
        need("e2fsck")
        done = subprocess.run(["e2fsck", "-fy", image], capture_output=True, text=True)
        assert done.returncode in (0, 1), done.stdout  # 1: mended

    def mount(self) -> None:
        self._mount("-o", "loop", self.image)

    def power_cut(self) -> int:
        """Writers go on running, get EIO from now on, and must be ended before ``boot``.

        Returns when it began (monotonic, ns). The ioctl takes milliseconds, in which an fdatasync
        may return 0 for a transaction that the shutdown has dropped: real power takes the process
        away with the disk, so what is acknowledged from then on does not count.
        """
        began_ns = time.monotonic_ns()
        descriptor = os.open(self.root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            fcntl.ioctl(descriptor, _EXT4_IOC_SHUTDOWN, struct.pack("I", _NO_LOG_FLUSH))
        except OSError as error:
            raise Unusable(f"not run: this kernel cannot shut ext4 down ({error})") from error
        finally:
            os.close(descriptor)
        return began_ns

    def boot(self) -> None:
        """What a machine finds when power is back."""
        self.unmount()
        self.mount()


class ThinDisk(LoopDisk):
    """ext4 that believes in 64 MiB, on storage that has ``backing_bytes``."""

    def __init__(self, directory: Path, backing_bytes: int) -> None:
        self._backing = TmpfsDisk(directory / "backing", backing_bytes)
        try:
            image = self._backing.root / "disk.img"
            lazy = "lazy_itable_init=1,lazy_journal_init=1,nodiscard"
            self.format(image, 64 * MIB, "-E", lazy, "-J", "size=4")
            super().__init__(directory / "thin", image)
        except BaseException:
            self._backing.close()
            raise

    def close(self) -> None:
        try:
            super().close()
        finally:
            self._backing.close()


class NbdDisk(MountedDisk):
    """ext4 on a block device that nbdkit serves: ``plugin`` is its command line without nbdkit."""

    def __init__(self, directory: Path, plugin: list[str]) -> None:
        need("nbdkit", "nbdfuse", "losetup", "mount", "umount", "fusermount3")
        if not Path("/dev/fuse").exists():
            raise Unusable("not run: /dev/fuse is missing")
        super().__init__(directory / "nbd-disk")
        self._fuse = directory / "nbd-fuse"
        self._fuse.mkdir()
        self._log = (directory / "nbdkit.log").open("wb")
        self._server = subprocess.Popen(
            ["nbdkit", "-f", *plugin, "--run", f"nbdfuse {self._fuse} $uri"],
            stdout=self._log,
            stderr=self._log,
        )
        try:
            device = self._fuse / "nbd"
            until(lambda: device.exists() or self._server.poll() is not None, "nbdfuse")
            if self._server.poll() is not None:
                raise Unusable(f"not run: nbdkit does not start ({self._server.returncode})")
            self._mount_device()
        except BaseException:
            self.close()
            raise

    def _mount_device(self) -> None:
        # Direct, or the loop device's own cache answers instead of ours.
        device = self._fuse / "nbd"
        loop = run("losetup", "--direct-io=on", "-f", "--show", device)
        try:
            self._mount(loop)
        finally:
            run("losetup", "-d", loop)  # when nobody uses it any more, which is when unmounted

    def boot(self) -> None:
        """Unmount and mount again, so that nothing is left in the page cache."""
        self.unmount()
        self._mount_device()

    def close(self) -> None:
        try:
            self.unmount()
        finally:
            try:
                if self._server.poll() is None:
                    run("fusermount3", "-u", "-z", self._fuse)
                    self._server.wait(self.patience_s)
            finally:
                self._server.kill()
                self._server.wait()
                self._log.close()
