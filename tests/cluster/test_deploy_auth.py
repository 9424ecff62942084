"""Deployed stores where Ray asks for a token, at the command line."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.processes import told
from tests.conftest import gone, processes_of

SCRIPT = """
import json, os, stat, sys
from pathlib import Path
from ray.cluster_utils import Cluster
from neverforget.runtime.cli import run

folder = Path(sys.argv[1])
head = {"num_cpus": 4, "include_dashboard": False, "object_store_memory": 80 << 20}
head |= {"resources": {"neverforget": 1}, "temp_dir": str(folder / "ray")}
cluster = Cluster(initialize_head=True, head_node_args=head)
config = folder / "memory.toml"
config.write_text(f'''
name = "memory"
path = "{folder}/data"
[settings]
partitions = 2
embedder = "none"
segment_bytes = 1048576
''')
at = ["--address", cluster.address]
codes = [run(["deploy", str(config), *at, "--wait", "150"])]
codes.append(run(["deploy", str(config), *at, "--wait", "150"]))
codes.append(run(["append", f"ray:memory@{cluster.address}", "chat", "user", "hello"]))
codes.append(run(["tail", f"ray:memory@{cluster.address}", "chat"]))
codes.append(run(["status", f"ray:memory@{cluster.address}"]))
mode = stat.S_IMODE(os.stat(folder / "data" / "run").st_mode)
config.write_text(config.read_text().replace("partitions = 2", "partitions = 3"))
codes.append(run(["deploy", str(config), *at]))
codes.append(run(["undeploy", "memory", *at]))
codes.append(run(["tail", f"ray:memory@{cluster.address}", "chat"]))
import ray
ray.shutdown()
cluster.shutdown()
print(json.dumps({"codes": codes, "mode": mode}))
"""


@pytest.fixture
def folder() -> Iterator[Path]:
    made = Path(tempfile.mkdtemp(prefix="nfa-"))
    yield made
    left = gone(lambda: processes_of(made))
    shutil.rmtree(made, ignore_errors=True)
    assert not left, f"Ray left processes behind: {left}"


@pytest.mark.parametrize("mode", ["token", "disabled"])
def test_the_command_line_deploys_whether_ray_asks_for_a_token_or_not(
    folder: Path, mode: str
) -> None:
    """Both in processes of their own: Ray decides about tokens when it is imported."""
    environment = {**os.environ, "RAY_AUTH_MODE": mode, "HOME": str(folder)}
    if mode == "token":
        environment["RAY_AUTH_TOKEN"] = secrets.token_hex(32)
    ran = subprocess.Popen(
        [sys.executable, "-c", SCRIPT, str(folder)],
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
    )
    found = told(ran)
    assert found == {"codes": [0, 0, 0, 0, 0, 2, 0, 3], "mode": 0o700}, json.dumps(found)
