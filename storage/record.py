"""One record: a 64-byte header and a CBOR body. Making one (client), stamping it (owner), reading it back.

The client makes the record complete but for what only the owner knows; the owner stamps session_id, sequence_id,
epoch, durable_back and the header's CRC in place. Bytes: ``FORMAT.md``.
"""
