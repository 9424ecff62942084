"""What a setting names that does work for a store: by name, at an endpoint, or an object of the
caller's own.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from neverforget.runtime.openai_names import FORM, OPENAI, parse_openai
from neverforget.storage.errors import InvalidArgument, NotFound
from neverforget.storage.type_names import a_type

OBJECT = "object:"  # what a store's settings keep of an object, before its id


class NamedKind(NamedTuple):
    """One kind of these. ``what``: "a summarizer"; ``setting``: its keyword of ``open``;
    ``names``: those that need no endpoint; ``key_variable``: of its endpoints' key; ``needs``: what
    an object must have, its id first; ``form``: the same for people.
    """

    what: str
    setting: str
    names: tuple[str, ...]
    key_variable: str
    needs: tuple[str, ...]
    form: str

    def check(self, value: object) -> None:
        """Raises InvalidArgument for what is none. No I/O; loads nothing."""
        if not isinstance(value, str):
            check_object(value, self.what, self.needs, self.form)
            check_id(getattr(value, self.needs[0]), self.needs[0])
        elif value.startswith(OPENAI):
            parse_openai(value, self.what, self.key_variable)
        elif value not in self.names and not value.startswith(OBJECT):
            shown = repr(value) if value.isidentifier() else "that"  # it may hold a password
            known = ", ".join(f'"{name}"' for name in (*self.names, FORM))
            raise InvalidArgument(
                f"no {self.setting} is called {shown}; there are {known}, or an object with "
                f"{self.form}"
            )

    def stored_name(self, value: Any) -> str:
        """What a store's settings keep of it: the name, or "object:" and its id."""
        self.check(value)
        return value if isinstance(value, str) else f"{OBJECT}{getattr(value, self.needs[0])}"

    def not_given(self, name: str) -> NotFound:
        """Only the name of an object is there: it has to be passed itself."""
        return NotFound(
            f"this store has the {self.setting} {name!r}, and its host was not given that object; "
            f"pass {self.setting}=... where the store is hosted"
        )


def check_object(value: object, what: str, names: tuple[str, ...], form: str) -> None:
    """InvalidArgument for what lacks one of ``names``, and for a class instead of an instance.
    ``what`` and ``form`` are for its message: "a summarizer", "summarizer_id and summarize(text)".
    """
    held = getattr(value, "__dict__", {})
    missing = [name for name in names if not hasattr(type(value), name) and name not in held]
    if isinstance(value, type) or missing:
        lacks = "a class" if isinstance(value, type) else f"without {', '.join(missing)}"
        raise InvalidArgument(
            f"{what} is a name or an object with {form}; this is {lacks}: {type(value).__name__}"
        )


def check_id(id: object, name: str) -> None:
    """InvalidArgument for what no object can be known by. ``name``: of its attribute."""
    if not isinstance(id, str) or not id:
        raise InvalidArgument(f"{name} is text that is not empty, not {a_type(id)}")
