"""Paths that cannot be meant, and places that the system keeps from us: errors of ours, each with
what to do, and nothing made on the way.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import neverforget as nf
from neverforget.runtime.cli import run
from neverforget.runtime.store_path import is_refusal, real_path, refusal, typed_errors
from tests.runtime.conftest import SMALL

NOBODY = 65534
WAYS: dict[str, dict[str, Any]] = {
    "inline": {"inline": True}, "auto": {"wait": 5.0}, "never": {"host": "never", "wait": 0.1},
}  # fmt: skip


# ---- paths ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("a\0b", "NUL"),
        ("", "empty"),
        (b"bytes", "is a bytes"),
        (7, "is an int"),
        ("ray:no/name", "a store's name"),
        ("http://x/y", "URL"),
        (Path("http://x/y"), "URL"),
        ("file:///tmp/x", "URL"),
        ("s3://bucket/x", "URL"),
        ("~nobody-of-that-name/mem", "home of a user"),
    ],
)
def test_what_is_no_path_is_refused_and_nothing_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: Any, why: str
) -> None:
    """`nf.open("http://x/y")` made a folder called "http:", and a NUL came back as a ValueError
    from the depths."""
    monkeypatch.chdir(tmp_path)
    for arguments in WAYS.values():
        with pytest.raises(nf.InvalidArgument, match=why):
            nf.open(path, **arguments)
    assert list(tmp_path.iterdir()) == []


def test_a_tilde_is_the_home_of_the_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    for path in ("~/mem", Path("~/mem")):
        with nf.open(path, inline=True, **SMALL) as store:
            assert store.address == str(tmp_path / "home" / "mem")
    assert run(["sessions", "~/mem"]) == 0
    assert sorted(p.name for p in tmp_path.iterdir()) == ["home"]
    assert real_path("./~") == tmp_path / "~"


# ---- places --------------------------------------------------------------------------------------


@contextmanager
def closed_to_us(folder: Path) -> Iterator[None]:
    """``folder`` is another user's, or at least not to be entered."""
    if os.geteuid() == 0:
        folder.parent.chmod(0o755)
        os.seteuid(NOBODY)
        try:
            yield
        finally:
            os.seteuid(0)
    else:
        folder.chmod(0)
        try:
            yield
        finally:
            folder.chmod(0o700)


@pytest.mark.parametrize("way", WAYS)
def test_another_users_store_is_unavailable_and_says_whose_it_is(
    short_path: Path, way: str
) -> None:
    """It was a bare PermissionError, in every way to open it."""
    path = short_path / "store"
    with nf.open(path, inline=True, **SMALL) as store:
        store.session("chat").append("user", "private")
    with closed_to_us(path), pytest.raises(nf.Unavailable) as caught:
        nf.open(path, **WAYS[way])
    assert caught.value.outcome == "not_applied"
    assert str(path) in str(caught.value)
    if os.geteuid() == 0:
        assert f"belongs to user 0, and this process runs as user {NOBODY}" in str(caught.value)
    else:
        assert "give yourself the rights" in str(caught.value)
    assert isinstance(caught.value.__cause__, PermissionError)


@pytest.mark.parametrize("way", ["inline", "auto"])
def test_a_store_is_not_made_where_nothing_can_be_made(short_path: Path, way: str) -> None:
    place = short_path / "theirs"
    place.mkdir(mode=0o755)
    with closed_to_us(place), pytest.raises(nf.Unavailable, match="cannot be used"):
        nf.open(place / "store", **WAYS[way])
    assert list(place.iterdir()) == []


@pytest.mark.parametrize(
    "command", ["status", "sessions", "append", "tail", "import", "export", "verify", "serve"]
)
def test_the_command_line_says_so_at_once_and_exits_with_four(
    short_path: Path, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    """The exit code was 1; and waiting for another to let go of the store is no use."""
    path = short_path / "store"
    nf.open(path, inline=True, **SMALL).close()
    more = {"append": ["s", "user", "hi"], "tail": ["s"], "import": [os.devnull]}
    with closed_to_us(path):
        assert run([command, str(path), *more.get(command, [])]) == 4
    shown = " ".join(capsys.readouterr().err.split())
    assert shown.startswith("error: ")
    assert "cannot be used" in shown


@pytest.mark.parametrize(
    ("number", "error", "remedy"),
    [
        (errno.ENOSPC, nf.OutOfSpace, "free disk space"),
        (errno.EDQUOT, nf.OutOfSpace, "free disk space"),
        (errno.ENAMETOOLONG, nf.InvalidArgument, "another path"),
        (errno.ELOOP, nf.InvalidArgument, "another path"),
        (errno.EROFS, nf.Unavailable, "writable"),
        (errno.EIO, nf.Unavailable, "put that right"),
        (errno.EMFILE, nf.Unavailable, "put that right"),
    ],
)
def test_whatever_the_system_says_is_an_error_of_ours(
    tmp_path: Path, number: int, error: type[nf.NeverforgetError], remedy: str
) -> None:
    with pytest.raises(error, match=remedy) as caught, typed_errors(tmp_path):
        raise OSError(number, os.strerror(number), str(tmp_path / "LOCK"))
    assert os.strerror(number) in str(caught.value)
    assert is_refusal(caught.value) == (number == errno.EROFS)


def test_errors_of_ours_pass_as_they_are(tmp_path: Path) -> None:
    ours = nf.OutOfSpace("ours")
    with pytest.raises(nf.OutOfSpace) as caught, typed_errors(tmp_path):
        raise ours
    assert caught.value is ours


def test_a_path_that_is_too_long_is_an_argument_that_cannot_be_meant(tmp_path: Path) -> None:
    for arguments in (WAYS["inline"], WAYS["auto"]):
        with pytest.raises(nf.InvalidArgument, match="another path"):
            nf.open(tmp_path / ("x" * 300), **arguments)
    assert "another path" in str(refusal(tmp_path, OSError(errno.ELOOP, "loop")))
