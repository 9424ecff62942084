"""What ``failover`` asks before it moves anything. No Ray."""

from __future__ import annotations

import pytest

import neverforget as nf
from neverforget.runtime.cli import run


def test_without_the_word_nothing_is_moved() -> None:
    """And no cluster is looked for."""
    with pytest.raises(nf.ConfirmationRequired, match=r"partition 2.*CONFIRMED"):
        nf.failover("memory", 2)
    with pytest.raises(nf.ConfirmationRequired, match="the memories"):
        nf.failover("memory", "memories", confirm="confirmed")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["memory", "2"], 5),
        (["ray:memory", "memories", "--confirm", "yes"], 5),
        (["memory", "p2"], 2),
        (["memory", "-1"], 2),
        (["memory"], 2),
    ],
)
def test_the_command_asks_for_the_word(words: list[str], code: int) -> None:
    assert run(["failover", *words]) == code


def test_names_and_parts_are_checked_first() -> None:
    for name, partition in (("no/name", 0), ("memory", "p0"), ("memory", -1)):
        with pytest.raises(nf.InvalidArgument):
            nf.failover(name, partition, confirm=nf.CONFIRMED)


def test_a_name_with_an_address_is_taken_as_everywhere(capsys: pytest.CaptureFixture[str]) -> None:
    """ray:NAME@ADDRESS, with which every other command had worked, was "no name"."""
    nobody = "127.0.0.1:9"
    assert run(["undeploy", f"ray:memory@{nobody}"]) == 4
    assert run(["failover", f"ray:memory@{nobody}", "0", "--confirm", "confirmed"]) == 4
    assert capsys.readouterr().err.count(f"no Ray cluster at '{nobody}'") == 2
    assert run(["undeploy", f"ray:memory@{nobody}", "--address", "127.0.0.1:10"]) == 2
    assert "two clusters" in capsys.readouterr().err


@pytest.mark.parametrize("address", ["127.0.0.1", "127.0.0.1:99999", "127.0.0.1:x", "worker-1:"])
def test_an_address_that_is_none_is_told_how_one_is_written(
    address: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """ "Start one", it said where only the port was missing; a port too high was a traceback."""
    assert run(["status", f"ray:memory@{address}"]) == 2
    assert "give HOST:PORT" in capsys.readouterr().err


def test_names_that_no_host_can_have_are_nobodys(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["status", f"ray:memory@{'a' * 70}.example:6379"]) == 4
    assert "no Ray cluster at" in capsys.readouterr().err


def test_ray_client_is_refused_before_it_is_joined(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["status", "ray:memory@ray://127.0.0.1:9"]) == 2
    assert "Ray Client" in capsys.readouterr().err
