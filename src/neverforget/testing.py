"""For tests of code that uses neverforget: ``store(tmp_path)`` and the pytest fixture ``nf_store``.

pytest finds the fixture by itself, as a plugin; nothing has to be imported for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from neverforget.runtime.testing import store

if TYPE_CHECKING:
    from neverforget.runtime.pytest_fixtures import nf_store

__all__ = ["nf_store", "store"]


def __getattr__(name: str) -> Any:
    if name == "nf_store":  # needs pytest, which `store` does not
        from neverforget.runtime.pytest_fixtures import nf_store

        return nf_store
    raise AttributeError(f"module 'neverforget.testing' has no attribute {name!r}")
