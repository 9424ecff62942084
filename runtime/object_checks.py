"""What an object that a caller brings along must have, before anything is done with it."""

from __future__ import annotations

from neverforget.storage.errors import InvalidArgument


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
