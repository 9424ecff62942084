"""What a value of the wrong type is called in an error: "an int", "a list", "None"."""

from __future__ import annotations


def a_type(value: object) -> str:
    """The type of ``value`` with its article, as it follows "is"."""
    if value is None:
        return "None"
    name = type(value).__name__
    # By the letter, which for "UUID" or "ufunc" is no vowel to the ear.
    return f"{'an' if name[:1].lower() in 'aeio' else 'a'} {name}"
