"""cluster.yaml is a configuration that this Ray accepts."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from pathlib import Path

from neverforget.runtime.deployment import read_plan

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


def test_the_manifest_for_kubernetes_gives_each_worker_a_volume_of_its_own() -> None:
    """No operator runs here: that it is YAML with a plan that ``deploy`` takes, and that no two
    pods share a disk."""
    code = "import json, sys, yaml; print(json.dumps(list(yaml.safe_load_all(open(sys.argv[1])))))"
    run = subprocess.run(
        [sys.executable, "-c", code, str(ROOT / "docs" / "kuberay.yaml")],
        capture_output=True,
        text=True,
    )
    parts = {each["kind"]: each for each in json.loads(run.stdout)}
    name, plan = read_plan(tomllib.loads(parts["ConfigMap"]["data"]["memory.toml"]))
    groups = parts["RayCluster"]["spec"]["workerGroupSpecs"]
    claims = [
        group["template"]["spec"]["volumes"][0]["persistentVolumeClaim"]["claimName"]
        for group in groups
    ]
    assert name == "memory" and plan.nodes == len(groups) == len(set(claims))
    assert all(group["maxReplicas"] == 1 for group in groups)
    assert all(plan.resource in group["rayStartParams"]["resources"] for group in groups)
