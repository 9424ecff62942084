"""Time in words: what ``timeframe`` means, and which part of a query is a time phrase.

Pure: the clock and the zone are passed in. Ranges are half-open and past-biased, days run from
local midnight to local midnight, and what is not understood raises; it never means all time.

    resolving   what a caller passes -> Range; query: a query -> Range, the words taken, the rest
    table       the phrases, row by row; grammar reads by it, from the tokens of words
    names       March, Monday, 8 May; clocks: morning, 3pm, ISO 8601, the day before
    phrases     since, before, between ...
    periods     the span of time that words stand for; reckoning: zones and calendar
"""

from neverforget.runtime.timeframe.query import take
from neverforget.runtime.timeframe.resolving import Range, resolve

__all__ = ["Range", "resolve", "take"]
