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
