"""cluster.yaml is a configuration that this Ray accepts."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

# In a process of its own: the tests outside tests/cluster/ do not load Ray.
CHECK = """
import sys, yaml
from ray.autoscaler._private.util import prepare_config, validate_config
config = prepare_config(yaml.safe_load(open(sys.argv[1])))
validate_config(config)
print(len(config["head_start_ray_commands"]), config["provider"]["type"])
"""


def test_ray_up_accepts_cluster_yaml() -> None:
    run = subprocess.run(
        [sys.executable, "-c", CHECK, str(ROOT / "cluster.yaml")], capture_output=True, text=True
    )
    assert run.returncode == 0, run.stderr
    assert run.stdout.split() == ["3", "local"]
