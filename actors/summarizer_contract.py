"""What every summarizer must keep to."""

from __future__ import annotations

from typing import Protocol, runtime_checkable


class NotSummarized(Exception):
    """There is no summary of this text; the message says why. It is logged, and shown to whoever
    asks for the status: it holds nothing of the text, and no key. What else a summarizer raises
    shows its type alone.
    """


@runtime_checkable
class Summarizer(Protocol):
    """Says in a few sentences what a long text says.

    A summarizer is picklable: it runs in the processes of the chunkers, one call at a time in each.
    Whatever it raises, and an answer that comes too late, costs the summary and nothing else.
    """

    @property
    def summarizer_id(self) -> str:
        """Names it, with its version: "extractive-1", "openai:MODEL"."""
        ...

    def summarize(self, text: str, /) -> str:
        """Plain text, not longer than ``text``; "" where there is nothing to say: then there is no
        summary. May raise anything; NotSummarized to say why.
        """
        ...
