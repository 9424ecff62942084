"""Where a word is left on the disk: as bytes in any file, or as a term of a text index.

Terms are packed there, each after what it shares with the one before it: their bytes stand in none
of tantivy's files. The dictionary of terms is walked, which names what only deleted documents had,
too.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

import tantivy

from neverforget.storage.text_analysis import prepared
from neverforget.storage.text_disk import analyzer
from neverforget.storage.text_document import CONTEXT, TEXT


def left_of(root: Path, *words: str) -> list[str]:
    """Files and text indexes below ``root`` that hold any of ``words``, by their relative paths."""
    return sorted({*files_holding(root, *words), *indexes_holding(root, *words)})


def files_holding(root: Path, *words: str) -> list[str]:
    """Files that hold the bytes of any of ``words``."""
    wanted = [word.encode() for word in words]
    return [
        str(path.relative_to(root))
        for path in sorted(root.rglob("*"))
        if path.is_file() and any(word in path.read_bytes() for word in wanted)
    ]


def indexes_holding(root: Path, *words: str) -> list[str]:
    """Directories of text indexes that know all terms of any of ``words``."""
    wanted = [set(analyzer().analyze(prepared(word))) for word in words]
    assert all(wanted), "each of them is a word"
    return _indexes_where(root, lambda terms: any(each <= terms for each in wanted))


def indexes_with_part(root: Path, part: str) -> list[str]:
    """Those that know a term with ``part`` in it."""
    return _indexes_where(root, lambda terms: any(part in term for term in terms))


def _indexes_where(root: Path, holds: Callable[[set[str]], bool]) -> list[str]:
    directories = [meta.parent for meta in sorted(root.rglob("meta.json"))]
    return [str(each.relative_to(root)) for each in directories if holds(terms_of(each))]


def terms_of(directory: Path) -> set[str]:
    """All terms in the words of a text index, and the words of its labels. It may be in use."""
    # The reader has a thread that may lock the copy, by a file in it, while it is being removed.
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as aside:
        copy = Path(aside) / "text"
        shutil.copytree(directory, copy)
        index = tantivy.Index.open(str(copy))
        searcher = index.searcher()
        terms = {
            term for field in (TEXT, CONTEXT) for term, _ in searcher.terms_with_prefix(field, "")
        }
        for label, _ in searcher.terms_with_prefix("label", ""):
            terms.update(analyzer().analyze(prepared(label)))
    return terms
