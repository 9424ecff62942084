"""Arguments and options that several commands about memories share."""

from __future__ import annotations

from typing import Annotated

import typer

IdArgument = Annotated[str, typer.Argument(metavar="ID", help="Id of the memory.")]
FileOption = Annotated[
    str | None, typer.Option("--file", metavar="FILE", help="Take the text from a file.")
]
TagOption = Annotated[
    list[str] | None,
    typer.Option("--tag", "-t", metavar="TAG", help="ai, ai:llm, …; may be given several times."),
]
TypeOption = Annotated[str | None, typer.Option("--type", help="fact, decision, preference, …")]
ImportanceOption = Annotated[
    float | None, typer.Option(min=0, max=10, help="From 0 to 10.", show_default=False)
]
ConfidenceOption = Annotated[
    float | None, typer.Option(min=0, max=1, help="From 0 to 1.", show_default=False)
]
MetadataOption = Annotated[str | None, typer.Option(metavar="JSON", help="An object.")]
WhereOption = Annotated[
    str | None,
    typer.Option(metavar="JSON", help='Conditions: {"metadata.year": {"$gt": 2024}}.'),
]
TimeframeOption = Annotated[
    str | None,
    typer.Option(
        metavar="WHEN",
        help='"last week", "since monday", 2026-03-11, START..STOP.',
    ),
]
MomentOption = Annotated[
    str | None, typer.Option(metavar="TIME", help="ISO 8601; without a zone it is UTC.")
]
FullOption = Annotated[bool, typer.Option("--full", help="Show long texts to their end.")]
