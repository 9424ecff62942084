"""A block device that writes down everything asked of it: a plugin for ``nbdkit python``.

Run by nbdkit under the system's Python, so it imports nothing of this project. Parameters:
``image`` (the file behind the device) and ``journal``. The journal's grammar is in
block_recording.py.
"""

# mypy: ignore-errors
# pyright: basic
import os
import struct
import time

import nbdkit  # pyright: ignore[reportMissingImports]  # given by nbdkit to its plugins

API_VERSION = 2
WRITE, FLUSH = 1, 2
_ENTRY = struct.Struct("<BxxxIQQ")

_parameters = {}
_files = {}


def config(name, value):
    _parameters[name] = value


def config_complete():
    if set(_parameters) != {"image", "journal"}:
        raise RuntimeError("parameters: image=FILE journal=FILE")


def thread_model():
    return nbdkit.THREAD_MODEL_SERIALIZE_ALL_REQUESTS


def after_fork():
    _files["image"] = os.open(_parameters["image"], os.O_RDWR)
    _files["journal"] = os.open(
        _parameters["journal"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600
    )


def open(readonly):  # the hook's name
    return 1


def get_size(handle):
    return os.fstat(_files["image"]).st_size


def can_write(handle):
    return True


def can_flush(handle):
    return True


def can_fua(handle):
    return nbdkit.FUA_EMULATE  # a write and a flush


def can_trim(handle):
    return False


def can_zero(handle):
    return False


def pread(handle, buffer, offset, flags):
    buffer[:] = os.pread(_files["image"], len(buffer), offset)


def pwrite(handle, buffer, offset, flags):
    data = bytes(buffer)
    _note(WRITE, offset, data)
    os.pwrite(_files["image"], data, offset)


def flush(handle, flags):
    _note(FLUSH, 0, b"")


def _note(kind, offset, data):
    entry = _ENTRY.pack(kind, len(data), offset, time.monotonic_ns())
    os.write(_files["journal"], entry + data)
