"""Reads tokens by a table of rules; knows nothing of time.

A rule is a symbol, a pattern and a function. A pattern is words apart by spaces: ``last|past`` is
one of these words, ``UNIT`` a token of that kind or another symbol, a trailing ``?`` may be left
out, and ``<in|on>`` is captured as the word that stood there. The function gets what the
upper-case and captured parts stood for, in order, None for what was left out.

No rule may begin with its own symbol, and none may be empty.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from msgspec import Struct

from neverforget.runtime.timeframe.words import Token

Row = tuple[str, str, Callable[..., Any]]


class _Part(Struct, frozen=True):
    """``words`` or ``symbol``; neither stands for a captured part that was left out."""

    words: frozenset[str] | None = None
    symbol: str | None = None
    captured: bool = False


class _Rule(Struct, frozen=True):
    parts: tuple[_Part, ...]
    make: Callable[..., Any]
    first: _Part


class Grammar:
    """A compiled table. Rules are tried in the order of the table."""

    def __init__(self, table: Sequence[Row]) -> None:
        self._rules: dict[str, list[_Rule]] = {}
        for symbol, pattern, make in table:
            for parts in _sequences([_alternatives(part) for part in pattern.split()]):
                first = next(part for part in parts if part.words or part.symbol)
                self._rules.setdefault(symbol, []).append(_Rule(parts, make, first))
        self._firsts: dict[str, frozenset[str]] = {}
        for symbol in self._rules:
            self._firsts[symbol] = self._first_of(symbol, ())
        self._indexed = {
            symbol: [(self._keys(rule.first), rule) for rule in rules]
            for symbol, rules in self._rules.items()
        }

    def may_begin(self, symbol: str, token: Token) -> bool:
        return not self._firsts[symbol].isdisjoint(token.keys)

    def rules(self, symbol: str, token: Token) -> Iterator[_Rule]:
        """Those that can begin with the token."""
        for keys, rule in self._indexed[symbol]:
            if not keys.isdisjoint(token.keys):
                yield rule

    def knows(self, symbol: str) -> bool:
        return symbol in self._rules

    def _keys(self, part: _Part) -> frozenset[str]:
        if part.words is not None:
            return part.words
        assert part.symbol is not None
        return self._firsts.get(part.symbol, frozenset({part.symbol}))

    def _first_of(self, symbol: str, above: tuple[str, ...]) -> frozenset[str]:
        assert symbol not in above, f"{symbol} begins with itself"
        if symbol not in self._rules:
            return frozenset({symbol})
        found: frozenset[str] = frozenset()
        for rule in self._rules[symbol]:
            if rule.first.words is not None:
                found |= rule.first.words
            else:
                assert rule.first.symbol is not None
                found |= self._first_of(rule.first.symbol, (*above, symbol))
        return found


class Reading:
    """One text being read. ``furthest`` is how many tokens any attempt got through: what follows
    is what was not understood.
    """

    def __init__(self, grammar: Grammar, tokens: Sequence[Token]) -> None:
        self._grammar = grammar
        self._tokens = tokens
        self._read: dict[tuple[str, int], list[tuple[int, Any]]] = {}
        self.furthest = 0

    def read(self, symbol: str, at: int) -> list[tuple[int, Any]]:
        """Every way to read the symbol from token ``at``: (the token after it, what it means)."""
        if at >= len(self._tokens):
            return []
        known = self._read.get((symbol, at))
        if known is None:
            known = [
                (end, rule.make(*values))
                for rule in self._grammar.rules(symbol, self._tokens[at])
                for end, values in self._follow(rule.parts, at)
            ]
            self._read[symbol, at] = known
        return known

    def _follow(self, parts: tuple[_Part, ...], at: int) -> Iterator[tuple[int, tuple[Any, ...]]]:
        if not parts:
            yield at, ()
            return
        for end, value in self._one(parts[0], at):
            for last, values in self._follow(parts[1:], end):
                yield last, (value, *values) if parts[0].captured else values

    def _one(self, part: _Part, at: int) -> Iterator[tuple[int, Any]]:
        if part.words is None and part.symbol is None:
            yield at, None
            return
        if at >= len(self._tokens):
            return
        token = self._tokens[at]
        if part.words is not None:
            if token.text in part.words:
                self.furthest = max(self.furthest, at + 1)
                yield at + 1, token.text
        elif part.symbol is not None and self._grammar.knows(part.symbol):
            yield from self.read(part.symbol, at)
        elif part.symbol in token.kinds:
            self.furthest = max(self.furthest, at + 1)
            yield at + 1, token.kinds[part.symbol]


def _alternatives(written: str) -> list[_Part | None]:
    """What one part of a pattern may be; None for nothing at all."""
    optional = written.endswith("?")
    name = written.removesuffix("?")
    if name.isupper():
        part, absent = _Part(symbol=name, captured=True), _Part(captured=True)
    elif name.startswith("<"):
        words = frozenset(name.strip("<>").split("|"))
        part, absent = _Part(words=words, captured=True), _Part(captured=True)
    else:
        part, absent = _Part(words=frozenset(name.split("|"))), None
    return [part, absent] if optional else [part]


def _sequences(choices: list[list[_Part | None]]) -> Iterator[tuple[_Part, ...]]:
    if not choices:
        yield ()
        return
    for part in choices[0]:
        for rest in _sequences(choices[1:]):
            yield (part, *rest) if part is not None else rest
