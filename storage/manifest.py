"""``MANIFEST``: which files are the derived store, paired. Swapped as a whole, or not at all.

The log is the truth. Arrow generations, the vector index and the text index are derived from it,
and belong together: each *part* says which range of log positions it covers, and the manifest's
``watermark`` is the position from which the log has to be read again on opening. A part that is
missing, cut short, replaced or damaged is rebuilt from the log; the others are used.

    parts are written under names that no manifest has used -> publish(new manifest) -> collect()

Until ``publish`` the old manifest holds and the new files are nobody's; from then on the old ones
are. A process that dies in between leaves unreferenced files, which the next ``collect`` removes.

A text index changes after it was published (it has its own watermark, and checks itself by its
STATE): the manifest knows its directory and incarnation, and that it never goes back.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

import msgspec

from neverforget.storage.atomic_file import TEMPORARY_SUFFIX, write_checked
from neverforget.storage.errors import Corrupt, NeverforgetError, NotFound
from neverforget.storage.filesystem import FileSystem
from neverforget.storage.results import Finding
from neverforget.storage.sealed_file import Depth, Seal, check_seal
from neverforget.storage.text_state import check_files, check_names, read_state
from neverforget.storage.versioned_file import read_versioned

MANIFEST_FILE: Final = "MANIFEST"
MANIFEST_VERSION: Final = 1
_LOOKS_MAX: Final = 5  # at what may be replaced meanwhile

Role = Literal["rows", "vectors", "text", "table"]

# Without these nothing is found; without a table opening takes longer.
_ROLES: tuple[Role, ...] = ("rows", "vectors", "text")
_SUFFIX: dict[Role, str] = {"rows": ".arrow", "vectors": ".faiss", "text": "", "table": ".nft"}
_PART_NAME = re.compile(
    rf"(?:rows-[0-9a-f]{{16}}\.arrow|vectors-[0-9a-f]{{16}}\.faiss|table-[0-9a-f]{{16}}\.nft|"
    rf"text-[0-9a-f]{{16}})"
    rf"(?:{re.escape(TEMPORARY_SUFFIX)})?|{MANIFEST_FILE}{re.escape(TEMPORARY_SUFFIX)}"
)


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """One file, or the directory of a text index (``seal`` None). It holds what the log says
    between the positions ``start`` and ``stop``. ``details`` are its owner's: ``file_id`` of a
    generation, model and dimension of vectors, ``incarnation`` of a text index.
    """

    role: Role
    name: str
    start: int
    stop: int
    seal: Seal | None = None
    details: dict[str, str | int] = {}


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """``log_id`` is that of the log all of it is derived from; ``number`` grows by one with each
    manifest, and names of parts are made of such numbers.
    """

    log_id: int
    number: int
    watermark: int
    parts: tuple[Part, ...] = ()
    version: int = MANIFEST_VERSION

    def of(self, role: Role) -> list[Part]:
        """The parts of one role, in log order."""
        return sorted((p for p in self.parts if p.role == role), key=lambda part: part.start)


@dataclass(frozen=True)
class Damage:
    """A part that must be rebuilt, and why."""

    part: Part
    finding: Finding


@dataclass(frozen=True)
class Examined:
    """What stands on disk. ``manifest`` None: there was none, or none that can be trusted, and
    everything is rebuilt. ``rebuild`` names the roles of which something has to be.
    """

    manifest: Manifest | None
    usable: tuple[Part, ...]
    damaged: tuple[Damage, ...]
    findings: tuple[Finding, ...]

    @property
    def rebuild(self) -> frozenset[Role]:
        if self.manifest is None:
            return frozenset(_ROLES)
        damaged = {damage.part.role for damage in self.damaged}
        there = {part.role for part in self.usable}
        return frozenset(role for role in _ROLES if role in damaged or role not in there)


def part_name(role: Role, number: int) -> str:
    """A name for a part of the manifest ``number``. One number may name several generations: see
    ``free_name``.
    """
    return f"{role}-{number:016x}{_SUFFIX[role]}"


def free_name(fs: FileSystem, directory: Path, role: Role, number: int) -> str:
    """The first name from ``number`` on that nothing in ``directory`` has."""
    while fs.exists(directory / part_name(role, number)):
        number += 1
    return part_name(role, number)


def publish(fs: FileSystem, directory: Path, manifest: Manifest) -> None:
    """Swap the manifest. Its parts are on disk and synced already. Durable when it returns; the old
    one holds when it raises (OutOfSpace, OSError).
    """
    assert len({part.name for part in manifest.parts}) == len(manifest.parts), "a name twice"
    for part in manifest.parts:
        assert _PART_NAME.fullmatch(part.name), part.name
        assert (part.seal is None) == (part.role == "text"), part
        assert part.start <= part.stop <= manifest.watermark or part.role != "rows", part
    write_checked(fs, directory / MANIFEST_FILE, msgspec.json.encode(manifest) + b"\n")


def read_manifest(fs: FileSystem, directory: Path, log_id: int) -> Manifest:
    """NotFound; Corrupt, also when it is of another log; UnsupportedFormat of a newer version."""
    path = directory / MANIFEST_FILE
    manifest = read_versioned(fs, path, Manifest, MANIFEST_VERSION, "is no manifest")
    if manifest.log_id != log_id:
        raise Corrupt(
            f"{path} belongs to another log; everything derived is rebuilt", file=str(path)
        )
    return manifest


def examine(fs: FileSystem, directory: Path, log_id: int, *, depth: Depth = "size") -> Examined:
    """Read the manifest and look at every part: at "size" as fast as opening needs, deeper in the
    background. UnsupportedFormat of a newer version is raised: that is nothing to rebuild over.
    """
    try:
        manifest = read_manifest(fs, directory, log_id)
    except NotFound:
        return Examined(None, (), (), ())
    except Corrupt as error:
        return Examined(None, (), (), (_finding(error, directory / MANIFEST_FILE, 0),))
    usable, damaged = [], []
    for part in manifest.parts:
        try:
            check_part(fs, directory, part, depth)
            usable.append(part)
        except (NeverforgetError, OSError) as error:
            size = part.seal.size if part.seal else 0
            damaged.append(Damage(part, _finding(error, directory / part.name, size)))
    findings = tuple(damage.finding for damage in damaged)
    return Examined(manifest, tuple(usable), tuple(damaged), findings)


def examine_in_use(
    fs: FileSystem,
    directory: Callable[[], Path],
    log_id: int,
    go_on: Callable[[], None] = lambda: None,
) -> Examined:
    """Every byte, while others may store: ``findings`` are of damage that lasts. A file that was
    replaced under the look at it is another one by now, as ``directory`` may be.
    """
    go_on()
    found = examine(fs, directory(), log_id, depth="sha")
    lasting = found.findings
    for _ in range(_LOOKS_MAX - 1):
        if not lasting:
            break
        go_on()
        found = examine(fs, directory(), log_id, depth="sha")
        lasting = tuple(one for one in lasting if one in found.findings)
    return Examined(found.manifest, found.usable, found.damaged, lasting)


def check_part(fs: FileSystem, directory: Path, part: Part, depth: Depth) -> None:
    """Corrupt, NotFound or UnsupportedFormat when this part must be rebuilt; OSError when the disk
    fails to read it.
    """
    path = directory / part.name
    if part.seal is not None:
        check_seal(fs, path, part.seal, depth)
        return
    state = read_state(fs, path)
    if state.incarnation != part.details.get("incarnation") or state.watermark < part.stop:
        raise Corrupt(f"{path} was replaced by another or an older index", file=str(path))
    if depth == "size":
        check_names(fs, path, state)
    else:
        check_files(fs, path, state)


def collect(
    fs: FileSystem, directory: Path, manifest: Manifest | None, *, keep: Iterable[str] = ()
) -> list[str]:
    """Remove every part, whole or half written, that ``manifest`` does not name, but ``keep``.
    Returns their names. Files that are none of ours stay. Readers that have one open go on.
    """
    named = {part.name for part in manifest.parts} if manifest else set()
    named.update(keep)
    gone = [
        name
        for name in fs.list_directory(directory)
        if _PART_NAME.fullmatch(name) and name not in named
    ]
    for name in gone:
        path = directory / name
        if fs.is_directory(path):
            for file_name in fs.list_directory(path):
                fs.unlink(path / file_name)
            fs.remove_directory(path)
        else:
            fs.unlink(path)
    if gone:
        fs.sync_directory(directory)
    return gone


def _finding(error: NeverforgetError | OSError, path: Path, size: int) -> Finding:
    kind = "bad_manifest" if path.name == MANIFEST_FILE else "bad_derived_file"
    return Finding(kind, "repaired", str(path), 0, size, str(error))
