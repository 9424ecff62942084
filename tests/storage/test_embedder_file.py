"""EMBEDDER says which embedder a store has and where its vectors are; it is swapped as a whole."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from neverforget.storage.atomic_file import write_checked
from neverforget.storage.embedder_file import (
    EMBEDDER_FILE,
    EMBEDDER_VERSION,
    FIRST_FOLDER,
    EmbedderFile,
    check_embedder,
    check_model,
    collect_folders,
    free_folder,
    read_embedder,
    write_embedder,
)
from neverforget.storage.errors import Corrupt, EmbedderMismatch, NotFound, UnsupportedFormat
from neverforget.storage.filesystem import LocalFileSystem

FS = LocalFileSystem()
MINILM = EmbedderFile("minilm", "all-MiniLM-L6-v2", 384)


def test_it_comes_back_and_is_replaced(tmp_path: Path) -> None:
    for held in (EmbedderFile("none"), MINILM, EmbedderFile("hash", "hash-64", 64, "derived-7")):
        write_embedder(FS, tmp_path, held)
        assert read_embedder(FS, tmp_path) == held


def test_its_bytes(tmp_path: Path) -> None:
    write_embedder(FS, tmp_path, MINILM)
    assert (tmp_path / EMBEDDER_FILE).read_bytes() == (
        b'{"name":"minilm","model":"all-MiniLM-L6-v2","dimension":384,"folder":"derived-1",'
        b'"version":1}\ncrc32c 519e73c2\n'
    )


def test_every_flipped_or_missing_byte_is_noticed(tmp_path: Path) -> None:
    write_embedder(FS, tmp_path, MINILM)
    path = tmp_path / EMBEDDER_FILE
    whole = path.read_bytes()
    for at in range(len(whole)):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 0x10]) + whole[at + 1 :])
        with pytest.raises(Corrupt):
            read_embedder(FS, tmp_path)
        path.write_bytes(whole[:at])
        with pytest.raises(Corrupt):
            read_embedder(FS, tmp_path)


def test_one_that_is_missing_is_not_guessed(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="backup"):
        read_embedder(FS, tmp_path)


def test_a_newer_version_is_refused(tmp_path: Path) -> None:
    newer = msgspec.json.encode({"version": EMBEDDER_VERSION + 1, "other": 1}) + b"\n"
    write_checked(FS, tmp_path / EMBEDDER_FILE, newer)
    with pytest.raises(UnsupportedFormat):
        read_embedder(FS, tmp_path)


@pytest.mark.parametrize("folder", ["../derived-1", "derived-0", "derived-", "derived-1/x", "log"])
def test_it_names_no_folder_but_its_own(tmp_path: Path, folder: str) -> None:
    content = msgspec.json.encode(msgspec.structs.replace(MINILM, folder=folder)) + b"\n"
    write_checked(FS, tmp_path / EMBEDDER_FILE, content)
    with pytest.raises(Corrupt):
        read_embedder(FS, tmp_path)


def test_another_name_or_another_model_is_a_mismatch() -> None:
    check_embedder(MINILM, "minilm")
    with pytest.raises(EmbedderMismatch, match="reindex"):
        check_embedder(MINILM, "none")
    assert check_model(MINILM, "all-MiniLM-L6-v2", 384) is MINILM
    for model, dimension in (("all-MiniLM-L6-v2", 385), ("another", 384)):
        with pytest.raises(EmbedderMismatch, match="reindex"):
            check_model(MINILM, model, dimension)


def test_a_model_that_was_not_known_is_taken_down() -> None:
    unknown = EmbedderFile("openai:m@https://host/v1")
    assert check_model(unknown, "m", 8) == EmbedderFile(unknown.name, "m", 8)


def test_folders_get_new_names_and_all_but_one_are_collected(tmp_path: Path) -> None:
    held = EmbedderFile("none")
    assert held.folder == FIRST_FOLDER
    for name in ("derived-1", "derived-3", "log", "derived-x"):
        (tmp_path / name / "text-1").mkdir(parents=True)
        (tmp_path / name / "text-1" / "file").write_bytes(b"x")
    assert free_folder(FS, tmp_path, held) == "derived-4"
    assert collect_folders(FS, tmp_path, "derived-3") == ["derived-1"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["derived-3", "derived-x", "log"]
