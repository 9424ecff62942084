"""Conversations that others wrote down, into a store.

A file becomes JSON values (``sources``, ``elements``), these become turns (``messages``,
``chatgpt``, ``locomo``: pure parsers), and turns are appended under an identity that makes a second
run harmless (``loading``).
"""

from neverforget.runtime.importers.importing import FORMATS, import_file, load, parse_file
from neverforget.runtime.importers.report import ImportReport
from neverforget.runtime.importers.source_turn import Problem, SourceTurn

__all__ = ["FORMATS", "ImportReport", "Problem", "SourceTurn", "import_file", "load", "parse_file"]
