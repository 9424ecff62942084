"""One file of the crash file system: what is in the page cache, and what is on the media."""

from __future__ import annotations

import random

PAGE_BYTES = 4096
SECTOR_BYTES = 512
_ZEROS = bytes(PAGE_BYTES)


class Inode:
    """``_pages`` is the media: absent pages are zero. ``_versions`` holds, for each dirty page,
    what it looked like after each write since it was last clean; ``_sizes`` alike for the size.
    """

    def __init__(self) -> None:
        self.size = 0
        self._cache = bytearray()
        self._mapped: list[bytearray] = []  # outgrown buffers that somebody still maps
        self._pages: dict[int, bytes] = {}
        self._media_size = 0
        self._versions: dict[int, list[bytes]] = {}
        self._sizes: list[int] = []

    def copy(self) -> Inode:
        """Without what is mapped."""
        twin = Inode()
        twin.size, twin._media_size = self.size, self._media_size
        twin._cache, twin._pages = bytearray(self._cache), dict(self._pages)
        twin._versions = {page: list(versions) for page, versions in self._versions.items()}
        twin._sizes = list(self._sizes)
        return twin

    # ---- the cache -------------------------------------------------------------------------------

    def read(self, size: int, offset: int) -> bytes:
        return bytes(self._cache[offset : min(offset + size, self.size)])

    def view(self) -> memoryview:
        if self.size == 0:
            raise ValueError("cannot mmap an empty file")
        return memoryview(self._cache)[: self.size].toreadonly()

    def grow(self, size: int) -> None:
        if size <= self.size:
            return
        if size > len(self._cache):
            larger = bytearray(-(-size // PAGE_BYTES) * PAGE_BYTES)
            larger[: len(self._cache)] = self._cache
            self._mapped.append(self._cache)
            self._cache = larger
        self.size = size
        self._sizes.append(size)

    def write(self, data: bytes, offset: int) -> None:
        if not data:
            return
        end = offset + len(data)
        self.grow(end)
        self._cache[offset:end] = data
        for outgrown in self._mapped:
            part = data[: max(0, len(outgrown) - offset)]
            outgrown[offset : offset + len(part)] = part
        for page in range(offset // PAGE_BYTES, -(-end // PAGE_BYTES)):
            self._versions.setdefault(page, []).append(self._cached(page))

    def _cached(self, page: int) -> bytes:
        return bytes(self._cache[page * PAGE_BYTES : (page + 1) * PAGE_BYTES]).ljust(
            PAGE_BYTES, b"\0"
        )

    # ---- the media -------------------------------------------------------------------------------

    def sync(self) -> None:
        for page in self._versions:
            self._pages[page] = self._cached(page)
        self._media_size = self.size
        self._clean()

    def fail_sync(self, choices: random.Random) -> None:
        """Some of it got through, and the cache forgets that the rest did not."""
        self._pages, self._media_size = self._possible(choices)
        self._clean()

    def after_power_cut(self, choices: random.Random) -> Inode:
        survivor = Inode()
        survivor._pages, survivor._media_size = self._possible(choices)
        content = survivor.media_content()
        survivor.size = len(content)
        survivor._cache = bytearray(
            content.ljust(-(-len(content) // PAGE_BYTES) * PAGE_BYTES, b"\0")
        )
        return survivor

    def media_content(self) -> bytes:
        whole = bytearray(-(-self._media_size // PAGE_BYTES) * PAGE_BYTES)
        for page, content in self._pages.items():
            if page * PAGE_BYTES < len(whole):
                whole[page * PAGE_BYTES : (page + 1) * PAGE_BYTES] = content
        return bytes(whole[: self._media_size])

    def flip_bit(self, bit: int) -> None:
        page, within = divmod(bit, PAGE_BYTES * 8)
        rotten = bytearray(self._pages.get(page, _ZEROS))
        rotten[within // 8] ^= 1 << within % 8
        self._pages[page] = bytes(rotten)
        self._cache[bit // 8] ^= 1 << bit % 8

    def _clean(self) -> None:
        self._versions = {}
        self._sizes = []

    def _possible(self, choices: random.Random) -> tuple[dict[int, bytes], int]:
        """The media as it may be if nothing more is written to it from the cache."""
        pages = dict(self._pages)
        for page, versions in sorted(self._versions.items()):
            old = pages.get(page, _ZEROS)
            kind = choices.randrange(4)
            if kind == 0:
                continue
            if kind == 1:
                pages[page] = versions[-1]
            elif kind == 2:
                pages[page] = choices.choice(versions)
            else:
                sectors = range(0, PAGE_BYTES, SECTOR_BYTES)
                pages[page] = b"".join(
                    choices.choice([old, *versions])[at : at + SECTOR_BYTES] for at in sectors
                )
        return pages, choices.choice([self._media_size, *self._sizes[-3:]])
