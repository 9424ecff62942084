"""Conversations and memories that others wrote down, into a store.

A file becomes JSON values (``sources``, ``elements``), these become turns and memories
(``messages``, ``chatgpt``, ``locomo``, ``memories``, ``mem0``: pure parsers), and these are
appended and remembered under an identity that makes a second run harmless (``loading``,
``memory_loading``).
"""

from neverforget.runtime.importers.importing import FORMATS, import_file, load, parse_file
from neverforget.runtime.importers.report import ImportReport
from neverforget.runtime.importers.source_turn import Problem, SourceMemory, SourceTurn

__all__ = [
    "FORMATS",
    "ImportReport",
    "Problem",
    "SourceMemory",
    "SourceTurn",
    "import_file",
    "load",
    "parse_file",
]
