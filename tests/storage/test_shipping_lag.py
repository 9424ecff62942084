"""How far the objects are behind, by bytes and by time."""

from __future__ import annotations

from neverforget.storage.shipping_lag import MARKS_MAX, Lag

SECOND_US = 1_000_000


def test_the_age_of_the_lag_is_that_of_its_oldest_byte() -> None:
    lag = Lag()
    assert lag.since_us is None and lag.age_us(99) == 0
    lag.synced(100, 1 * SECOND_US)
    lag.synced(200, 1 * SECOND_US + 50_000)
    lag.synced(300, 3 * SECOND_US)
    assert (lag.bytes, lag.age_us(4 * SECOND_US)) == (300, 3 * SECOND_US)
    lag.ship(150)
    assert (lag.bytes, lag.age_us(4 * SECOND_US)) == (150, 3 * SECOND_US)
    lag.ship(200)
    assert (lag.bytes, lag.age_us(4 * SECOND_US)) == (100, 1 * SECOND_US)
    lag.ship(300)
    assert (lag.bytes, lag.since_us) == (0, None)


def test_a_day_without_the_store_costs_no_more_than_an_hour() -> None:
    """Where appends go on without it each tenth of a second left a mark, for as long as it was
    away."""
    lag = Lag()
    for second in range(1, 86_401):
        lag.synced(second * 100, second * SECOND_US)
        assert len(lag._marks) <= MARKS_MAX
    now_us = 86_401 * SECOND_US
    assert (lag.bytes, lag.age_us(now_us)) == (8_640_000, 86_400 * SECOND_US)
    for shipped_s in (1, 40_000, 86_399):
        lag.ship(shipped_s * 100)
        behind_s = 86_401 - (shipped_s + 1)
        over_us = lag.age_us(now_us) - behind_s * SECOND_US
        assert over_us >= 0, "what is old may be overstated"
    assert over_us <= SECOND_US, "what is new is not"
    lag.ship(86_400 * 100)
    assert (lag.bytes, lag.since_us) == (0, None)
