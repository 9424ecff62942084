"""Wall clocks of owner and writers that jump by hours, each in its own direction: nothing goes by
them but what is told of times."""

from __future__ import annotations

import pytest

from tests.faults import clock_scenarios
from tests.faults.clock_scenarios import clocks_jump
from tests.faults.test_replica_faults import proven


def test_clocks_that_jump_lose_nothing_and_keep_nobody_waiting() -> None:
    proven(lambda: clocks_jump(clock_scenarios.FEW))


@pytest.mark.long
def test_nor_do_ten_rounds_of_jumps() -> None:
    proven(lambda: clocks_jump(clock_scenarios.JUMPS * 10))
