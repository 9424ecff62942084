"""The command that shows what a long memory was cut into."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec

import neverforget as nf
from neverforget.runtime.cli_memory_render import remarks_of, unchunked_remark
from neverforget.runtime.cli_status import longterm_rows
from tests.runtime.cli_calls import Cli

HANDBOOK = "\n\n".join(
    ["# Handbook", *(f"## Part {n}\n\n" + f"Sentence {n} of the handbook. " * 30 for n in range(6))]
)


def remembered(cli: Cli, memory: Path, text: str) -> str:
    file = memory.with_suffix(".md")
    file.write_text(text)
    name = cli("remember", memory, "--file", file).out.strip()
    cli("recall", memory, "handbook", "--strategy", "text")
    return name


def test_chunks_are_shown_with_what_they_cover_and_stand_under(cli: Cli, tmp_path: Path) -> None:
    memory = tmp_path / "memory"
    name = remembered(cli, memory, HANDBOOK)
    while not (lines := cli("chunks", memory, name, "--json").out.splitlines()):
        pass  # a command that is short may end before they are made; each goes on from there
    chunks = [json.loads(line) for line in lines]
    assert "".join(each["text"] for each in chunks) == HANDBOOK
    assert [chunks[0]["start"], chunks[-1]["stop"]] == [0, len(HANDBOOK)]
    assert all(HANDBOOK[c["start"] : c["stop"]] == c["text"] for c in chunks)
    assert any("Handbook" in (each.get("context") or "") for each in chunks)
    shown = cli("chunks", memory, name).out
    assert f"characters {chunks[1]['start']:,} to {chunks[1]['stop']:,}" in shown
    assert cli("chunks", memory, chunks[1]["id"]).out == shown, "a part leads to the whole"
    assert cli("audit", memory, "--operation", "chunk").out.count("by chunker") == 1


def test_a_short_memory_has_none_and_one_that_is_not_there_is_not_found(
    cli: Cli, tmp_path: Path
) -> None:
    memory = tmp_path / "memory"
    name = remembered(cli, memory, "Short.")
    ran = cli("chunks", memory, name)
    assert (ran.code, ran.out) == (0, "")
    assert "it has 6 characters; memories of more than 2,000 are chunked" in ran.err
    assert cli("chunks", memory, "01a22bf8-907a-7697-bbb2-4b3210e6dfad").code == 3


def test_who_remembers_a_long_text_is_told_that_it_waits_for_its_chunks(
    cli: Cli, tmp_path: Path
) -> None:
    """And so is who asks for the status: it told of vectors alone."""
    memory, file = tmp_path / "memory", tmp_path / "long.md"
    file.write_text(HANDBOOK * 200)  # cutting this takes longer than to ask how much waits
    remembered = cli("remember", memory, "--file", file)
    assert "1 long memory waits to be chunked" in remembered.err
    assert len(remembered.out.split()) == 1, "the id alone"
    lines = [{"kind": "memory", "text": HANDBOOK * 200}, {"kind": "memory", "text": "short"}]
    file.write_text("\n".join(map(json.dumps, lines)))
    assert "to be chunked" in cli("import", tmp_path / "other", file).err
    with nf.open(tmp_path / "third", inline=True, embedder="none") as store:
        found = msgspec.structs.replace(
            store.status().longterm, chunks_waiting=2, chunks_running=1, chunk_error="a poison"
        )
    rows = longterm_rows(found)
    assert rows["to be chunked"] == "3" and rows["chunkers say"] == "a poison"
    assert remarks_of(found) == [unchunked_remark(3)]
