"""The command line as a person and a program see it: output, exit codes, errors in one sentence."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import neverforget as nf
from neverforget.runtime.cli import app
from neverforget.runtime.cli_store import STORE_VARIABLE
from tests.fakes.plain_host import PlainHost
from tests.runtime.cli_calls import Cli
from tests.runtime.conversation_files import chatgpt_conversation, message_node

COMMANDS = (
    "serve", "status", "sessions", "append", "tail", "page", "import", "export", "verify", "backup",
    "config", "demo", "remember", "recall", "get", "memories", "revise", "history", "tag", "relate",
    "forget", "undo-forget", "archive", "unarchive", "purge", "erase", "audit", "deletion-report",
    "reindex", "chunks", "context", "working-memory", "migrate-chunked", "reflect", "agents",
    "restore", "salvage", "deploy", "failover", "undeploy", "backups",
)  # fmt: skip


@pytest.fixture
def memory(tmp_path: Path) -> Path:
    """A store with one session of four turns, held by nobody."""
    path = tmp_path / "memory"
    with nf.open(path, inline=True) as store:
        chat = store.session("support", agent="desk")
        chat.append("user", "My order has not arrived", name="Ann", key="mail-1")
        chat.append("tool_call", {"name": "find", "arguments": {"order": 7}}, call_id="c1")
        chat.append("tool_result", {"status": "lost"}, call_id="c1")
        chat.append("assistant", "It was lost; a new one is on its way.")
        store.session("other", namespace=("acme", "x")).append("user", "hello")
    return path


# ---- help and usage ------------------------------------------------------------------------------


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_with_examples(cli: Cli, command: str) -> None:
    ran = cli(command, "--help")
    assert ran.code == 0
    assert f"neverforget {command}" in ran.out
    assert "Examples:" in ran.out


def test_there_is_no_command_without_help_here() -> None:
    assert {each.name for each in app.registered_commands} == set(COMMANDS)


def test_usage_errors_are_two(cli: Cli, memory: Path) -> None:
    assert cli("sessions").code == 2
    assert cli("no-such-command").code == 2
    assert cli("tail", memory, "support", "--turns", "x").code == 2
    assert cli("append", memory, "s", "user", "hi", "--metadata", "{").code == 2
    assert cli("import", memory, memory / "IDENTITY", "--format", "csv").code == 2


def test_the_version_is_printed(cli: Cli) -> None:
    assert cli("--version").out.strip().count(".") >= 2


def test_only_a_directory_can_be_served(cli: Cli) -> None:
    ran = cli("serve", "ray:prod@10.0.0.1")
    assert ran.code == 2
    assert "path of a store" in " ".join(ran.err.split())


def test_help_imports_neither_ray_nor_numpy() -> None:
    code = (
        "import sys; from neverforget.runtime.cli import run; run(['--help']);"
        "sys.exit(any(m in sys.modules for m in ('ray', 'numpy', 'faiss', 'pyarrow')))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=60)
    assert done.returncode == 0


# ---- reading -------------------------------------------------------------------------------------


def test_sessions_are_listed_for_people_and_programs(cli: Cli, memory: Path) -> None:
    table = cli("sessions", memory)
    assert table.code == 0
    assert "support" in table.out and "acme / x / other" in table.out
    found = cli("sessions", memory, "--json").json
    assert {item["session"]: item["turns"] for item in found["items"]} == {"support": 4, "other": 1}
    assert found["has_more"] is False
    only = cli("sessions", memory, "-N", "acme", "--json").json
    assert [item["session"] for item in only["items"]] == ["other"]


def test_a_listing_goes_on_from_its_cursor(cli: Cli, memory: Path) -> None:
    first = cli("sessions", memory, "--limit", "1", "--json").json
    second = cli("sessions", memory, "--after", first["next"], "--json").json
    assert len(first["items"]) == len(second["items"]) == 1
    assert first["items"] != second["items"]


def test_a_tail_reads_like_a_conversation(cli: Cli, memory: Path) -> None:
    ran = cli("tail", memory, "support")
    assert ran.code == 0
    assert "Ann" in ran.out
    assert "My order has not arrived" in ran.out
    assert "→ find(order=7)" in ran.out
    assert '← {"status": "lost"}' in ran.out
    assert "\x1b" not in ran.out


def test_a_tail_for_a_program_is_lines_of_turns_and_nothing_else(cli: Cli, memory: Path) -> None:
    ran = cli("tail", memory, "support", "--turns", "3", "--json")
    turns = [json.loads(line) for line in ran.out.splitlines()]
    assert [turn["seq"] for turn in turns] == [1, 2, 3]
    assert turns[-1]["content"].startswith("It was lost")
    assert ran.err == ""


def test_pages_go_on_from_where_the_last_one_ended(cli: Cli, memory: Path) -> None:
    first = cli("page", memory, "support", "-n", "3", "--json").json
    assert [turn["seq"] for turn in first["items"]] == [0, 1, 2]
    assert first["has_more"]
    for after in (first["next"], "2"):
        rest = cli("page", memory, "support", "--after", after, "--json").json
        assert [turn["seq"] for turn in rest["items"]] == [3]
    newest = cli("page", memory, "support", "--newest", "--turns", "1")
    assert "a new one" in newest.out
    assert "--before 3" in newest.err
    foreign = cli("page", memory, "other", "-N", "acme", "-N", "x", "--after", first["next"])
    assert foreign.code == 2


@pytest.mark.parametrize("command", ["tail", "page", "sessions"])
def test_n_is_a_number_wherever_something_is_counted(cli: Cli, memory: Path, command: str) -> None:
    """`tail STORE support -n 10` looked in the namespace "10"."""
    named = () if command == "sessions" else ("support",)
    ran = cli(command, memory, *named, "-n", "1", "--json")
    found = [json.loads(line) for line in ran.out.splitlines()]
    assert len(found if command == "tail" else found[0]["items"]) == 1
    assert cli(command, memory, *named, "-n", "acme").code == 2


def test_what_is_missing_is_named_with_its_namespace(cli: Cli, memory: Path) -> None:
    for command in ("tail", "page"):
        assert "'other' outside all namespaces" in cli(command, memory, "other").err
        there = cli(command, memory, "support", "-N", "acme", "-N", "x")
        assert there.code == 3
        assert "'support' in namespace acme / x" in there.err


def test_text_from_a_conversation_cannot_command_the_terminal(cli: Cli, memory: Path) -> None:
    cli("append", memory, "evil", "user", "\x1b]0;owned\x07 \u202egnp.exe [bold]x[/] \x9b2J")
    ran = cli("tail", memory, "evil")
    assert "\\x1b]0;owned\\x07" in ran.out
    assert "[bold]x[/]" in ran.out
    assert not {"\x1b", "\x07", "\u202e", "\x9b"} & set(ran.out)


def test_what_is_not_there_is_three(cli: Cli, memory: Path, tmp_path: Path) -> None:
    for ran in (
        cli("tail", memory, "nobody"),
        cli("page", memory, "nobody"),
        cli("sessions", tmp_path / "nowhere"),
        cli("import", memory, tmp_path / "nowhere.json"),
    ):
        assert ran.code == 3
        assert ran.out == ""
        assert ran.err.startswith("error: ")
        assert ran.err.count("\n") == 1
        assert "Traceback" not in ran.err
    assert not (tmp_path / "nowhere").exists()


# ---- writing -------------------------------------------------------------------------------------


def test_append_makes_a_store_and_repeats_safely_under_a_key(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "new"
    arguments = ("append", path, "s", "user", "hi", "--key", "k", "--name", "Ann", "--agent", "a")
    assert cli(*arguments).out == "s #0\n"
    turn = cli(*arguments, "--json").json
    assert (turn["seq"], turn["name"], turn["agent"], turn["key"]) == (0, "Ann", "a", "k")
    conflict = cli("append", path, "s", "user", "other", "--key", "k")
    assert conflict.code == 1
    assert cli("append", path, "s", "user", "x", "--expect-seq", "7").code == 1


def test_append_takes_json_and_times(cli: Cli, memory: Path) -> None:
    turn = cli(
        "append", memory, "s", "tool_result", '{"ok": [1, null]}', "--content-json",
        "--call-id", "c", "--metadata", '{"a": 1}', "--timestamp", "2026-03-02T09:04:00+01:00",
        "-N", "acme", "--json",
    ).json  # fmt: skip
    assert turn["content"] == {"ok": [1, None]}
    assert turn["timestamp"] == "2026-03-02T08:04:00Z"
    assert (turn["namespace"], turn["metadata"], turn["call_id"]) == (["acme"], {"a": 1}, "c")


def test_append_reads_standard_input(
    cli: Cli, memory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import io

    monkeypatch.setattr(sys, "stdin", io.StringIO("two\nlines"))
    assert cli("append", memory, "s", "user", "-", "--json").json["content"] == "two\nlines"


def test_the_store_may_come_from_the_environment(
    cli: Cli, memory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(STORE_VARIABLE, str(memory))
    assert cli("append", "support", "user", "hi", "--name", "Ann").code == 0
    assert "hi" in cli("tail", "support", "-n", "1").out
    assert "hi" in cli("tail", memory, "support", "--turns=1").out
    assert cli("tail", "-n", "1", "--", "support").code == 0
    assert cli("sessions", "--json").code == 0
    assert cli("sessions", memory, "--json").code == 0


# ---- moving --------------------------------------------------------------------------------------


def test_export_and_import_again(cli: Cli, memory: Path, tmp_path: Path) -> None:
    ran = cli("export", memory, "-o", tmp_path / "all.jsonl")
    assert ran.code == 0 and "5" in ran.out
    streamed = cli("export", memory)
    assert streamed.out == (tmp_path / "all.jsonl").read_text()
    assert streamed.err == ""
    first = cli("import", tmp_path / "copy", tmp_path / "all.jsonl", "--json")
    assert (first.code, first.json["appended"], first.json["ok"]) == (0, 5, True)
    second = cli("import", tmp_path / "copy", tmp_path / "all.jsonl")
    assert second.code == 0
    assert cli("export", tmp_path / "copy").out == streamed.out


def test_import_reports_what_it_could_not_read_and_goes_on(
    cli: Cli, memory: Path, tmp_path: Path
) -> None:
    path = tmp_path / "turns.jsonl"
    path.write_text(
        '{"role": "user", "content": "a"}\n{"role": \n{"role": "user", "content": "b"}\n'
    )
    ran = cli("import", memory, path)
    assert ran.code == 1
    assert f"{path}:2: not JSON" in ran.err
    assert [
        json.loads(line)["content"]
        for line in cli("tail", memory, "turns", "--json").out.splitlines()
    ] == ["a", "b"]


def test_a_file_with_nothing_in_it_is_told(cli: Cli, memory: Path, tmp_path: Path) -> None:
    """It was said to be of the format "auto"."""
    path = tmp_path / "empty.jsonl"
    path.write_text("")
    ran = cli("import", memory, path)
    assert (ran.code, ran.out, ran.err) == (0, "", f"{path}: nothing in it\n")
    assert cli("import", memory, path, "--json").json["turns"] == 0


def test_a_dry_run_makes_no_store(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "conversations.json"
    path.write_text(json.dumps([chatgpt_conversation("c", [message_node("m")])]))
    ran = cli("import", tmp_path / "new", path, "--dry-run", "--json")
    assert (ran.code, ran.json["format"], ran.json["appended"]) == (0, "chatgpt", 1)
    assert not (tmp_path / "new").exists()


def test_a_backup_is_a_store(cli: Cli, memory: Path, tmp_path: Path) -> None:
    assert cli("backup", memory, tmp_path / "backup").code == 0
    assert cli("export", tmp_path / "backup").out == cli("export", memory).out
    assert cli("verify", tmp_path / "backup", "--json").json["ok"] is True


# ---- the store itself ----------------------------------------------------------------------------


def test_status_tells_owners_and_totals(cli: Cli, memory: Path) -> None:
    found = cli("status", memory, "--json").json
    assert (found["turns"], found["sessions"], found["healthy"]) == (5, 2, True)
    assert [owner["state"] for owner in found["owners"]] == ["serving", "serving"]
    ran = cli("status", memory)
    assert "serving" in ran.out and "nobody" in ran.out


def test_verify_finds_damage_and_exits_with_one(cli: Cli, memory: Path) -> None:
    assert cli("verify", memory).code == 0
    for segment in memory.glob("regions/*/log/*.seg"):
        data = bytearray(segment.read_bytes())
        at = data.find(b"not arrived")
        if at >= 0:
            data[at] ^= 1
            segment.write_bytes(data)
    ran = cli("verify", memory)
    assert ran.code == 1
    assert "corrupt_body" in ran.out
    assert cli("verify", memory, "--json").json["ok"] is False


def test_config_names_the_source_of_every_value(cli: Cli, memory: Path) -> None:
    found = cli("config", memory, "--json").json
    assert found["partitions"] == {"value": 2, "source": "store.toml"}
    assert found["deadline_s"]["source"] == "default"
    assert "store.toml" in cli("config", memory).out


def test_a_store_that_another_process_has_open_is_four(
    cli: Cli, memory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from neverforget.runtime import cli_store

    monkeypatch.setattr(cli_store, "WAIT_S", 0.0)
    code = (
        "import sys, neverforget as nf; s = nf.open(sys.argv[1], inline=True);"
        "print('open', flush=True); sys.stdin.read()"
    )
    holder = subprocess.Popen(
        [sys.executable, "-c", code, str(memory)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    with holder:
        assert holder.stdout is not None and holder.stdout.readline() == b"open\n"
        ran = cli("sessions", memory)
    assert ran.code == 4
    assert str(holder.pid) in ran.err
    assert ran.err.count("\n") == 1


def test_a_fault_of_our_own_is_one_sentence_unless_a_traceback_is_asked_for(
    cli: Cli, memory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any, **__: Any) -> Any:
        raise RuntimeError("boom")

    monkeypatch.setattr(nf.Store, "sessions", broken)
    ran = cli("sessions", memory)
    assert ran.code == 1
    assert "RuntimeError: boom" in ran.err and "--traceback" in ran.err
    assert "Traceback" not in ran.err
    with pytest.raises(RuntimeError):
        cli("--traceback", "sessions", memory)


@pytest.mark.parametrize(
    "command",
    [
        pytest.param(["export"], id="export"),
        pytest.param(["tail", "long", "-n", "2000"], id="tail", marks=pytest.mark.long),
        pytest.param(["tail", "long", "-n", "2000", "--json"], id="json", marks=pytest.mark.long),
    ],
)
def test_a_reader_that_has_seen_enough_ends_the_command_quietly(
    memory: Path, command: list[str]
) -> None:
    """As in `neverforget export … | head -1`: nothing failed, so not with 1, which click and rich
    each make of a broken pipe. 141 is what a shell calls the end by SIGPIPE."""
    with nf.open(memory, inline=True, reflect_every_turns=0) as store:
        chat = store.session("long")
        chat.append_many([{"role": "user", "content": "x" * 1000} for _ in range(2000)])
    line = [sys.executable, "-m", "neverforget", command[0], str(memory), *command[1:]]
    process = subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None and process.stderr is not None
    process.stdout.readline()
    process.stdout.close()
    assert process.stderr.read() == b""
    process.stderr.close()
    assert process.wait(timeout=60) == 141


def test_an_interrupted_reindex_says_how_to_give_it_up(
    cli: Cli, host: PlainHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It goes on at the host, even by an embedder that never answers."""

    def interrupted(*given: Any, **how: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(nf.Store, "reindex", interrupted)
    path = host.store.path
    ran = cli("reindex", path, "--embedder", "none")
    assert ran.code == 130
    assert f"neverforget reindex {path} --embedder {host.store.config.embedder}" in " ".join(
        ran.err.split()
    )
