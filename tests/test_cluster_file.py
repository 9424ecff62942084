"""The files for ``ray up`` and for KubeRay are ones that these accept, and do what they say, as far
as that can be seen without a second machine.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from neverforget.runtime.deployment import read_plan

ROOT = Path(__file__).resolve().parent.parent
CLUSTER_FILES = ("cluster.yaml", "docs/cluster-aws.yaml")

# In processes of their own: the tests outside tests/cluster/ do not load Ray, and what reads YAML
# comes with it.
CHECK = """
import json, sys, yaml
from ray.autoscaler._private.util import prepare_config, validate_config
config = prepare_config(yaml.safe_load(open(sys.argv[1])))
validate_config(config)
print(json.dumps(config))
"""
MANIFEST = """
import json, sys, jsonschema, yaml
parts = list(yaml.safe_load_all(open(sys.argv[1])))
schema = json.load(open(sys.argv[2]))
jsonschema.Draft202012Validator.check_schema(schema)
checker = jsonschema.Draft202012Validator(schema)
clusters = [each for each in parts if each["kind"] == "RayCluster"]
wrong = [e.json_path + ": " + e.message for c in clusters for e in checker.iter_errors(c["spec"])]
print(json.dumps({"parts": parts, "wrong": wrong}))
"""


def printed(code: str, *files: str) -> Any:
    run = subprocess.run(
        [sys.executable, "-c", code, *(str(ROOT / file) for file in files)],
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout.splitlines()[-1])


@cache
def config_of(file: str) -> Any:
    """As Ray reads it; not to be changed."""
    return printed(CHECK, file)


def shell(command: str, home: Path) -> subprocess.CompletedProcess[str]:
    """As ``ray up`` runs it on a machine whose user's home that is."""
    environment = {**os.environ, "HOME": str(home)}
    return subprocess.run(
        ["bash", "-c", command], env=environment, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize("file", CLUSTER_FILES)
def test_ray_up_accepts_the_cluster_files(file: str, tmp_path: Path) -> None:
    """By Ray's own schema and checks; and the plan that set-up writes is one that ``deploy`` takes,
    for as many nodes as there are workers that offer what it asks for."""
    config = config_of(file)
    (write,) = (each for each in config["head_setup_commands"] if "memory.toml" in each)
    assert write in config["worker_setup_commands"], "any node may become the one that deploys"
    assert shell(write, tmp_path).returncode == 0
    name, plan = read_plan(tmp_path / "memory.toml")
    workers = [kind["min_workers"] for kind in config["available_node_types"].values()]
    assert name == "memory" and plan.nodes == sum(workers) == config["max_workers"]
    start = config["worker_start_ray_commands"][-1]
    kinds = config["available_node_types"].values()
    assert plan.resource in start or any(plan.resource in kind["resources"] for kind in kinds)
    assert any("neverforget deploy" in each for each in config["head_start_ray_commands"])


def test_the_disks_on_aws_outlive_their_machines() -> None:
    config = config_of("docs/cluster-aws.yaml")
    (worker,) = (k for k in config["available_node_types"].values() if k["min_workers"])
    *_, data = worker["node_config"]["BlockDeviceMappings"]
    assert data["Ebs"]["DeleteOnTermination"] is False
    assert config["provider"]["cache_stopped_nodes"] is True
    assert config["provider"]["security_group"]["GroupName"]
    (path,) = (each for each in config["worker_start_ray_commands"] if "mountpoint" in each)
    assert "/data" in path, "a worker whose disk is not there offers nothing"


@pytest.mark.parametrize(
    ("kind", "taken"),
    [("ext2/ext3", True), ("xfs", True), ("btrfs", True), ("nfs", False), ("tmpfs", False)],
)
def test_set_up_refuses_a_folder_that_is_on_no_disk_of_the_machine(
    tmp_path: Path, kind: str, taken: bool
) -> None:
    """``stat`` is one that tells of such a file system; the commands are those of the file."""
    stat = tmp_path / "stat"
    stat.write_text(f"#!/bin/sh\necho {kind}\n")
    stat.chmod(0o700)
    *_, make, check = config_of("cluster.yaml")["worker_setup_commands"]
    assert shell(make, tmp_path).returncode == 0
    found = shell(f"PATH={tmp_path}:$PATH; {check}", tmp_path)
    assert found.returncode == int(not taken)
    assert ("mount a disk" in found.stdout) == (not taken)


def test_the_manifest_for_kubernetes_is_one_that_kuberay_knows() -> None:
    """No operator runs here: every field is one of the RayCluster's that KubeRay defines, of its
    type; the plan is one that ``deploy`` takes; and no two pods share a disk."""
    found = printed(MANIFEST, "docs/kuberay.yaml", "tests/data/raycluster.json")
    assert found["wrong"] == []
    parts = {each["kind"]: each for each in found["parts"]}
    name, plan = read_plan(tomllib.loads(parts["ConfigMap"]["data"]["memory.toml"]))
    groups = parts["RayCluster"]["spec"]["workerGroupSpecs"]
    claims = [
        group["template"]["spec"]["volumes"][0]["persistentVolumeClaim"]["claimName"]
        for group in groups
    ]
    made = {e["metadata"]["name"] for e in found["parts"] if e["kind"] == "PersistentVolumeClaim"}
    assert name == "memory" and plan.nodes == len(groups) == len(set(claims))
    assert set(claims) == made
    assert all(group["maxReplicas"] == 1 for group in groups)
    offers = [json.loads(json.loads(g["rayStartParams"]["resources"])) for g in groups]
    assert offers == [{plan.resource: 1}] * len(groups)
    mounts = [group["template"]["spec"]["containers"][0]["volumeMounts"] for group in groups]
    assert all(plan.path.startswith(m["mountPath"] + "/") for (m, *_) in mounts)
    chosen = parts["NetworkPolicy"]["spec"]["podSelector"]["matchLabels"]["ray.io/cluster"]
    assert chosen == parts["RayCluster"]["metadata"]["name"]


def test_a_field_that_kuberay_does_not_know_is_found(tmp_path: Path) -> None:
    """The check above can fail: a manifest with two mistakes in it."""
    text = (ROOT / "docs" / "kuberay.yaml").read_text()
    text = text.replace("maxReplicas: 1", 'maxReplicas: "1"', 1).replace("volumeMounts:", "mounts:")
    (tmp_path / "wrong.yaml").write_text(text)
    found = printed(MANIFEST, str(tmp_path / "wrong.yaml"), "tests/data/raycluster.json")
    assert any("maxReplicas" in each for each in found["wrong"])
    assert any("mounts" in each for each in found["wrong"])
