"""What other processes of ours, and Ray's, need in their environment. Imports no Ray."""

from __future__ import annotations

import os
import secrets
import sys
from pathlib import Path

import neverforget

# What a surrounding Ray has told this process is not meant for the private one.
_SURROUNDING = ("RAY_ADDRESS", "RAY_NAMESPACE", "RAY_RUNTIME_ENV_HOOK", "RAY_JOB_ID")


def python_path() -> str:
    """A PYTHONPATH that begins with the folder this package was imported from, for processes with
    other working directories."""
    assert neverforget.__file__ is not None
    root = str(Path(neverforget.__file__).parent.parent.absolute())
    named = [os.path.abspath(p) for p in os.environ.get("PYTHONPATH", "").split(os.pathsep) if p]
    others = [path for path in named if path != root]
    return os.pathsep.join([root, *others])


def prepare_for_ray() -> None:
    """Set the environment of this process, from which a private Ray and its workers inherit."""
    environment = os.environ
    environment["PYTHONPATH"] = python_path()
    environment["RAY_USAGE_STATS_ENABLED"] = "0"
    # A node that others cannot join listens on the loopback address only. Ray has it for desktop
    # systems; nobody elsewhere has business with ours either, and a laptop's address may change.
    environment["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"
    # Ray lowers the priority of its workers, for batch work on a desktop: owners would come after
    # every client that computes. Our own background work gives way by itself (``background.py``).
    environment["RAY_worker_niceness"] = "0"
    for name in _SURROUNDING:
        environment.pop(name, None)
    # Ray would make a token in HOME, for all clusters of this user, and HOME may be read-only. It
    # decides about tokens when it is imported; later, half of it would not know. (A Ray in the
    # process that started this one may have set the mode, so the mode alone tells nothing.)
    told = {"RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"} & set(environment)
    refused = environment.get("RAY_AUTH_MODE") == "disabled"
    if not told and not refused and "ray" not in sys.modules:
        environment["RAY_AUTH_MODE"] = "token"
        environment["RAY_AUTH_TOKEN"] = secrets.token_hex(32)
