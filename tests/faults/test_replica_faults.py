"""Disks that are lost and object stores that misbehave, under writers in processes of their own.

What was acknowledged at "replica" is there, once, in order, with its bytes.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest

from tests.faults import replica_scenarios as scenarios
from tests.faults.writing import NotRun, Row


def proven(scenario: Callable[..., Row], *arguments: str) -> Row:
    """The row of a scenario in which nothing went wrong; a test that cannot run says so."""
    try:
        row = scenario(*arguments)
    except NotRun as reason:
        pytest.skip(str(reason))
    print(row)
    assert row.ok, row.why()
    assert row.verdict.acknowledged > 200
    return row


def test_a_store_whose_disk_is_lost_mid_write_comes_back_from_a_folder() -> None:
    proven(scenarios.disk_lost, "folder")


@pytest.mark.long
def test_an_object_store_that_fails_loses_answers_and_delays_puts_costs_nothing() -> None:
    """Ten rounds. The default run has the parts: every fault in a simulated world
    (``storage/test_shipping_simulated.py``), and a server that answers well.
    """
    row = proven(partial(scenarios.objects_misbehave, 10))
    assert all(f"x {fault}" in row.notes[0] for fault in ("fail", "cut", "slow", "lose", "late"))


def test_an_owner_whose_store_is_taken_over_acknowledges_nothing_at_replica_any_more() -> None:
    row = proven(scenarios.fenced_while_writing, "folder")
    assert row.verdict.errors["OwnerFenced"]


@pytest.mark.long
def test_of_two_that_take_over_at_once_each_log_is_left_to_one() -> None:
    proven(scenarios.create_only_race)


@pytest.mark.long
@pytest.mark.parametrize("scenario", [scenarios.disk_lost, scenarios.fenced_while_writing])
def test_the_same_on_an_s3_server(scenario: Callable[[str], Row]) -> None:
    proven(scenario, "s3")
