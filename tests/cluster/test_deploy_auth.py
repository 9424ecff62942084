"""Deployed stores where Ray asks for a token, for certificates or for nothing, on nodes that have
to show them to each other; at the command line.
"""

from __future__ import annotations

import json
import secrets
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.cluster.cluster_nodes import QUICK, RayNodes, reason_not_to_run
from tests.conftest import ROOT

# Ray decides about tokens when it is imported: whoever calls it is a process of its own.
SCRIPT = """
import json, os, stat, sys
from pathlib import Path
from neverforget.runtime.cli import run

address, folder = sys.argv[1:3]
config = Path(folder, "memory.toml")
config.write_text('''
name = "memory"
path = "$NF_DATA/memory"
nodes = 2
[settings]
partitions = 2
embedder = "none"
segment_bytes = 1048576
''')
at = ["--address", address]
store = f"ray:memory@{address}"
codes = [run(["deploy", str(config), *at, "--wait", "450"])]
codes.append(run(["deploy", str(config), *at, "--wait", "450"]))
for n in range(4):  # both partitions, of which one is on this node
    codes.append(run(["append", store, f"chat-{n}", "user", "hello"]))
codes.append(run(["tail", store, "chat-0"]))
codes.append(run(["status", store]))
config.write_text(config.read_text().replace("partitions = 2", "partitions = 3"))
codes.append(run(["deploy", str(config), *at]))
folders = [Path(folder, "data", node, "memory") for node in ("a", "b")]
found = {
    "codes": codes,
    "regions": sorted(p.name for each in folders for p in (each / "regions").glob("p*")),
    "modes": [stat.S_IMODE(os.stat(each / "run").st_mode) for each in folders],
}
print(json.dumps(found))
"""
STRANGER = """
import sys
import neverforget as nf
try:
    nf.connect("memory", address=sys.argv[1])
except nf.NeverforgetError as error:
    print(type(error).__name__, "RAY_AUTH_MODE=token" in str(error))
"""
UNDEPLOY = """
import sys
from neverforget.runtime.cli import run
print([run(["undeploy", "memory", "--address", sys.argv[1]]),
       run(["tail", f"ray:memory@{sys.argv[1]}", "chat-0"])])
"""
Start = Callable[[dict[str, str]], RayNodes]


@pytest.fixture
def start() -> Iterator[Start]:
    """Two nodes."""
    if reason := reason_not_to_run():
        pytest.skip(reason)
    made: list[RayNodes] = []

    def nodes(environment: dict[str, str]) -> RayNodes:
        made.append(RayNodes(environment={**QUICK, **environment}))
        made[0].start("a")
        made[0].start("b")
        return made[0]

    yield nodes
    for each in made:
        each.close()


def ran(script: str, nodes: RayNodes, *arguments: str, **environment: str) -> str:
    """What it printed last."""
    run = subprocess.run(
        [sys.executable, "-c", script, nodes.address, *arguments],
        cwd=ROOT,
        env={**nodes.environment("a"), **environment},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert run.returncode == 0, run.stdout
    return run.stdout.splitlines()[-1]


def works(nodes: RayNodes) -> None:
    """All that the command line does with a deployed store, of which half is on another node."""
    found = json.loads(ran(SCRIPT, nodes, str(nodes.folder)))
    assert found["codes"] == [0, 0, 0, 0, 0, 0, 0, 0, 2], found
    assert found["regions"] == ["p0", "p1"] and found["modes"] == [0o700, 0o700]


@pytest.mark.long
def test_a_store_on_two_nodes_where_ray_asks_for_nothing(start: Start) -> None:
    nodes = start({"RAY_AUTH_MODE": "disabled"})
    works(nodes)
    assert ran(UNDEPLOY, nodes) == "[0, 3]"


def test_a_store_on_two_nodes_where_ray_asks_for_a_token(start: Start) -> None:
    nodes = start({"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)})
    works(nodes)
    assert ran(UNDEPLOY, nodes) == "[0, 3]"


@pytest.mark.long
def test_a_store_on_two_nodes_with_a_token_and_tls(start: Start, short_path: Path) -> None:
    """Whoever has another token, or none, is told so; Ray takes 20 s for that."""
    if shutil.which("openssl") is None:
        pytest.skip("not run: needs openssl, to make certificates")
    cert, key = str(short_path / "CERT"), str(short_path / "KEY")
    names = ",".join([*(f"IP:127.0.1.{n}" for n in range(1, 5)), "IP:127.0.0.1", "DNS:localhost"])
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"]
    command += ["-subj", "/CN=ray", "-addext", f"subjectAltName={names}"]
    subprocess.run([*command, "-keyout", key, "-out", cert], check=True, stderr=subprocess.DEVNULL)
    tls = {"RAY_USE_TLS": "1", "RAY_TLS_SERVER_KEY": key}
    tls |= {"RAY_TLS_SERVER_CERT": cert, "RAY_TLS_CA_CERT": cert}
    nodes = start({"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32), **tls})
    works(nodes)
    assert ran(STRANGER, nodes, RAY_AUTH_TOKEN=secrets.token_hex(32)) == "Unavailable True"
    assert ran(STRANGER, nodes, RAY_AUTH_MODE="disabled") == "Unavailable True"
    assert ran(UNDEPLOY, nodes) == "[0, 3]"
