"""Where a handle stands: the namespace it sees, the agent it speaks for, and how it waits.

A plain tuple is relative: a view prepends its own namespace. A ``Namespace``, as values carry it,
is absolute: a view takes it as it is, if it lies inside. What lies outside does not exist for it.
"""

from __future__ import annotations

import dataclasses
import getpass
import os
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from neverforget.runtime.values import ROOT, Namespace
from neverforget.storage.errors import InvalidArgument, NotFound
from neverforget.storage.type_names import a_type

if TYPE_CHECKING:
    from neverforget.runtime.config import Config, SyncLevel

NAME_CHARACTERS_MAX = 4096
NAMESPACE_ELEMENTS_MAX = 64

NamespaceLike = str | Sequence[str]


@dataclass(frozen=True, slots=True)
class Scope:
    """A view of a store. ``deadline_s``: seconds one call may take; ``sync``: the default level;
    ``timezone``: whose days and weeks time phrases mean.
    """

    root: Namespace = ROOT
    agent: str | None = None
    deadline_s: float = 30.0
    sync: SyncLevel = "disk"
    timezone: str = "UTC"

    def configured(self, config: Config) -> Scope:
        """With the settings of ``config`` that a handle follows."""
        return dataclasses.replace(
            self, deadline_s=config.deadline_s, sync=config.sync, timezone=config.timezone
        )

    def place(self, namespace: NamespaceLike) -> Namespace:
        """The absolute namespace meant by ``namespace`` where something is to be put or found."""
        given = elements(namespace)
        if isinstance(given, Namespace):
            if given[: len(self.root)] != self.root:
                raise NotFound(
                    f"namespace {tuple(given)!r} lies outside this view of {tuple(self.root)!r}; "
                    "use a store or view that reaches it"
                )
            return given
        return self.root + given if given else self.root

    def filter(self, namespace: NamespaceLike | None) -> Namespace:
        """The absolute namespace at or below which to look. None: all that this view sees."""
        return self.root if namespace is None else self.place(namespace)

    def narrowed(self, namespace: NamespaceLike | None, **changes: Any) -> Scope:
        """A view inside this one."""
        return dataclasses.replace(self, root=self.filter(namespace), **changes)


def elements(namespace: NamespaceLike) -> tuple[str, ...]:
    """``namespace`` as a tuple of names; a bare string is a tuple of one. A Namespace stays one."""
    if isinstance(namespace, Namespace):
        return namespace
    if isinstance(namespace, str):
        given: tuple[Any, ...] = (namespace,)
    elif isinstance(namespace, Sequence):
        given = tuple(namespace)
    else:
        raise InvalidArgument(
            f"namespace is {a_type(namespace)}; pass a tuple of names, or one name"
        )
    if len(given) > NAMESPACE_ELEMENTS_MAX:
        raise InvalidArgument(
            f"namespace has {len(given)} elements, above the limit of {NAMESPACE_ELEMENTS_MAX}"
        )
    return tuple(checked_name(element, "an element of namespace") for element in given)


def checked_name(value: object, what: str) -> str:
    """``value`` as a name: text of 1 to 4,096 characters, all of them Unicode scalar values."""
    if not isinstance(value, str):
        raise InvalidArgument(f"{what} is {a_type(value)}; pass text")
    if not value:
        raise InvalidArgument(f"{what} is empty; give it a name")
    if len(value) > NAME_CHARACTERS_MAX:
        raise InvalidArgument(
            f"{what} has {len(value):,} characters, above the limit of {NAME_CHARACTERS_MAX:,}"
        )
    return checked_text(value, what)


def checked_text(value: object, what: str) -> str:
    """``value`` as text that has a UTF-8 form, a plain ``str`` whatever subclass it came as."""
    if not isinstance(value, str):
        raise InvalidArgument(f"{what} is {a_type(value)}; pass text")
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            raise InvalidArgument(
                f"{what} is {value[:60]!r}, with half a surrogate pair; only content, metadata, "
                "name, call_id and key may hold such text"
            ) from None
    return str.__str__(value)


def doer(by: str | None, agent: str | None) -> str:
    """Who goes on the record for a change: ``by``, else the agent, else ``user@host:pid``."""
    if by is not None:
        return checked_name(by, "by")
    return agent if agent is not None else f"{_user()}@{socket.gethostname()}:{os.getpid()}"


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a uid without a name, as in containers
        return str(os.getuid())
