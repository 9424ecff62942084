"""Commands as a person or a program runs them: what they print, and their exit code."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any


class Ran:
    def __init__(self, code: int, out: str, err: str) -> None:
        self.code, self.out, self.err = code, out, err

    def __repr__(self) -> str:
        return f"exit {self.code}\n{self.out}\n{self.err}"

    @property
    def json(self) -> Any:
        return json.loads(self.out)


Cli = Callable[..., Ran]
