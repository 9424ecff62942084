"""Claim: what keeps strangers out of a cluster, a token or TLS or both, costs a call of an owner on
another node little, and one on the same node nothing.

Four clusters of two nodes each, open and closed in these ways, at the same time: a client on each
node appends to the partition of a store on one of them. Calls take turns.
"""

from __future__ import annotations

import secrets
import shutil
import subprocess
from contextlib import ExitStack
from pathlib import Path

from bench.measure import Options, Rounds, Row, Table, main, scratch
from bench.node_clients import Cluster, Job
from tests.cluster.cluster_nodes import QUICK, RayNodes

HERE, AWAY = Job("one", "process", "here"), Job("one", "process", "away")
CALL = Job("", "call", "away")
MODES = ("open", "token", "TLS", "token and TLS")


def run(options: Options) -> Table | None:
    if shutil.which("openssl") is None:
        print("skipped: needs openssl, to make certificates")
        return None
    rounds, calls = (1, 20) if options.quick else (8, 300)
    jobs = {"append, other node": ("a", AWAY), "append, same node": ("b", HERE)}
    jobs["Ray actor call, other node"] = ("a", CALL)
    with ExitStack() as stack:
        folder = stack.enter_context(scratch(options, "access"))
        certificate = certified(folder)
        clusters = {mode: started(stack, folder, mode, certificate) for mode in MODES}
        samples: dict[str, list[list[int]]] = {f"{w} {mode}": [] for w in jobs for mode in MODES}
        for cluster in clusters.values():
            for node, job in jobs.values():
                cluster.ask("prepare", {node: 1}, job)
        for number in range(rounds):
            order = MODES if number % 2 == 0 else tuple(reversed(MODES))
            for what, (node, job) in jobs.items():
                for mode in order:
                    samples[f"{what} {mode}"].append(clusters[mode].ask("calls", node, job, calls))
        for cluster in clusters.values():
            cluster.close()
    m = Rounds(samples)
    rows = [
        Row(f"{what}, {mode}, p50", "us", m.us(f"{what} {mode}"), "open", m.us(f"{what} open"),
            ratio=m.ratio(f"{what} {mode}", f"{what} open"))
        for what in jobs
        for mode in MODES[1:]
    ]  # fmt: skip
    return Table(
        "access",
        "Clusters with a token, TLS, or both",
        [
            f"{rounds} interleaved rounds of {calls} calls, sync=process; 300 characters",
            "same node: through the owner's socket, which neither concerns",
            "TLS: RAY_USE_TLS=1, one certificate for all; RSA with 2,048 bits",
        ],
        rows,
    )


def certified(folder: Path) -> Path:
    """A certificate and its key, CERT and KEY in a folder; it is its own authority."""
    names = ",".join([*(f"IP:127.0.1.{n}" for n in range(1, 5)), "IP:127.0.0.1", "DNS:localhost"])
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"]
    command += ["-subj", "/CN=ray", "-addext", f"subjectAltName={names}"]
    command += ["-keyout", str(folder / "KEY"), "-out", str(folder / "CERT")]
    subprocess.run(command, check=True, stderr=subprocess.DEVNULL)
    return folder


def started(stack: ExitStack, folder: Path, mode: str, certificate: Path) -> Cluster:
    """The store is on node b; the driver and one client on a."""
    environment = dict(QUICK)
    if "token" in mode:
        environment |= {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}
    if "TLS" in mode:
        environment |= {
            "RAY_USE_TLS": "1",
            "RAY_TLS_SERVER_CERT": str(certificate / "CERT"),
            "RAY_TLS_SERVER_KEY": str(certificate / "KEY"),
            "RAY_TLS_CA_CERT": str(certificate / "CERT"),
        }
    nodes = RayNodes(environment=environment)
    stack.callback(nodes.close)
    nodes.start("a", offers=False)
    nodes.start("b")
    cluster = Cluster(nodes.address, nodes.ip("a"), folder, nodes.environment("a"))
    stack.callback(cluster.close)
    settings = {"partitions": 1, "reflect_every_turns": 0, "embedder": "none"}
    cluster.ask("deploy", "one", 1, {**settings, "segment_bytes": 4 << 20})
    for node in ("a", "b"):
        cluster.ask("clients", node, 1)
    cluster.ask("echo", "echo-away", "b")
    return cluster


if __name__ == "__main__":
    main(run)
