"""That a long memory was chunked is on record, and is in nobody's way there."""

from __future__ import annotations

import pytest

import neverforget as nf

TEXT = "# Handbook\n\n## Refunds\n\n" + "A sentence of it, which is about money. " * 100


def test_a_chunking_is_on_record_for_who_asks(nf_store: nf.Store) -> None:
    told = nf_store.remember(TEXT, namespace=("n",))
    nf_store.remember("short")
    nf_store.settle(timeout=60)
    chunks = [chunk.id for chunk in nf_store.chunks(told.id)]
    (entry,) = nf_store.audit(operation="chunk")
    assert (entry.operation, entry.by, entry.reason) == ("chunk", "chunker", None)
    assert entry.target["id"] == told.id
    assert entry.details["chunks"] == chunks
    assert entry.details["count"] == len(chunks) > 1
    assert (entry.details["version"], entry.details["summary"]) == (1, None)
    assert list(nf_store.audit()) == []
    assert list(nf_store.audit(target=told)) == [entry]
    assert list(nf_store.audit(target=chunks[0])) == [entry]
    assert list(nf_store.scoped(namespace="n").audit(operation="chunk")) == [entry]
    assert list(nf_store.scoped(namespace="m").audit(operation="chunk")) == []
    nf_store.forget(told.id, confirm=nf.CONFIRMED)
    assert [e.operation for e in nf_store.audit(target=told.id)] == ["chunk", "forget"]
    assert len(nf_store.deletion_report(None).entries) == 1
    assert nf_store.verify().ok
    with pytest.raises(nf.InvalidArgument, match="chunk"):
        nf_store.audit(operation="chunked")
