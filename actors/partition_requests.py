"""How each request of ``messages.py`` is asked of a region. Two tables: what is staged, what is
read."""

from __future__ import annotations
