"""A header as a numpy structured type, for whole columns of them. Apart from ``format.py`` because
attached clients use the constants and must not pay for importing numpy.
"""

from __future__ import annotations

import numpy as np

from neverforget.storage.format import HEADER_BYTES

HEAD_DTYPE = np.dtype(
    [
        ("magic", "<u4"),
        ("kind", "u1"),
        ("role", "u1"),
        ("flags", "u1"),
        ("version", "u1"),
        ("session_id", "<u8"),
        ("sequence_id", "<u4"),
        ("body_length", "<u4"),
        ("timestamp", "<i8"),
        ("token_count", "<u4"),
        ("epoch", "<u4"),
        ("producer_id", "<u8"),
        ("producer_seq", "<u4"),
        ("body_crc", "<u4"),
        ("durable_back", "<u4"),
        ("header_crc", "<u4"),
    ]
)
assert HEAD_DTYPE.itemsize == HEADER_BYTES
