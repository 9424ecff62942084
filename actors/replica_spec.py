"""What an owner's spec says about its replica, as storage takes it."""

from __future__ import annotations

from neverforget.actors.owner_spec import OwnerSpec
from neverforget.storage.replica import Replica
from neverforget.storage.shipping_asking import ShippingOptions


def replica_of(spec: OwnerSpec, log: str) -> Replica:
    """``log``: its name in the replica."""
    assert spec.replica is not None, "only where there is one"
    options = ShippingOptions(
        lag_bytes_max=spec.replica_lag_bytes,
        lag_us_max=int(spec.replica_lag_s * 1e6),
        write_without_store=spec.replica_writes_alone,
    )
    return Replica(spec.replica, spec.store_id, log, options, term=spec.replica_term)
