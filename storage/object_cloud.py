"""Objects in S3, GCS or Azure, through obstore, which is an extra and is imported here alone.

    pip install neverforget[object-store]

Create-only puts are ``If-None-Match: *`` (S3, Azure) or generation 0 (GCS), replacing goes by the
tag or generation of what was read. A store that ignores these conditions is refused before anything
is shipped to it: see ``check_conditions``.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from datetime import timedelta
from typing import TYPE_CHECKING, Any, NoReturn

from neverforget.storage.errors import InvalidArgument, Unavailable
from neverforget.storage.object_store import ObjectStore, Stored

if TYPE_CHECKING:
    from obstore.store import ObjectStore as Client

_LISTED_AT_ONCE = 1_000
# A failed attempt is repeated this often within one call, and by whoever shipped after it.
_RETRIES = 2


class CloudStore:
    """An ``ObjectStore``. ``client``: any of ``obstore.store`` but LocalStore, which syncs nothing.

    A put that obstore repeats by itself may find its own first try: that answers False like any
    other object under the key, and the owner tells them apart by what stands there.
    """

    def __init__(self, client: Client, name: str) -> None:
        self.name = name
        self._client: Any = client
        self._obstore = _imported()

    def put_new(self, key: str, data: bytes, *, behind: str | None = None) -> bool:
        try:
            self._obstore.put(self._client, key, data, mode="create", use_multipart=False)
        except self._obstore.exceptions.AlreadyExistsError:
            return False
        except Exception as error:
            self._fail(error, key, "unknown")
        return True

    def get(self, key: str) -> Stored | None:
        try:
            found = self._obstore.get(self._client, key)
            return Stored(bytes(found.bytes()), _tag(found.meta))
        except FileNotFoundError as error:
            self._check_bucket(error, key)
            return None
        except Exception as error:
            self._fail(error, key, "not_applied")

    def get_start(self, key: str, n_bytes: int) -> bytes | None:
        assert n_bytes > 0, "the start of an object has bytes"
        try:
            options = {"range": (0, n_bytes)}
            return bytes(self._obstore.get(self._client, key, options=options).bytes())
        except FileNotFoundError as error:
            self._check_bucket(error, key)
            return None
        except Exception as error:
            self._fail(error, key, "not_applied")

    def head(self, key: str) -> int | None:
        # Not a HEAD: its "not found" has no body, and looks alike without a bucket.
        try:
            found = self._obstore.get(self._client, key, options={"range": (0, 1)})
            return int(found.meta["size"])
        except FileNotFoundError as error:
            self._check_bucket(error, key)
            return None
        except Exception as error:
            self._fail(error, key, "not_applied")

    def replace(self, key: str, data: bytes, tag: str) -> bool:
        e_tag, _, version = tag.partition("\n")
        state = {"e_tag": e_tag} | ({"version": version} if version else {})
        exceptions = self._obstore.exceptions
        try:
            self._obstore.put(self._client, key, data, mode=state, use_multipart=False)
        except (exceptions.PreconditionError, exceptions.AlreadyExistsError):
            return False
        except FileNotFoundError as error:
            self._check_bucket(error, key, "unknown")
            return False
        except Exception as error:
            self._fail(error, key, "unknown")
        return True

    def list(self, prefix: str) -> Iterator[tuple[str, int]]:
        assert not prefix or prefix.endswith("/"), "a prefix is whole parts of keys"
        found: list[tuple[str, int]] = []
        try:
            for page in self._obstore.list(self._client, prefix, chunk_size=_LISTED_AT_ONCE):
                found += [(meta["path"], meta["size"]) for meta in page]
        except Exception as error:
            self._fail(error, prefix, "not_applied")
        yield from sorted(found)

    # ---- inside ----------------------------------------------------------------------------------

    def _check_bucket(
        self, error: FileNotFoundError, key: str, outcome: str = "not_applied"
    ) -> None:
        """That an object is missing must not be said of a bucket that is."""
        if "NoSuchBucket" in str(error) or "ContainerNotFound" in str(error):
            self._fail(error, key, outcome)

    def _fail(self, error: Exception, key: str, outcome: str) -> NoReturn:
        first_line = str(error).partition("\n")[0][:500]
        what = f"object {key}" if key else "the objects"
        raise Unavailable(
            f"{what} in {self.name}: {first_line}; see to the store, its name and the credentials",
            outcome=outcome,
        ) from error


def check_conditions(store: ObjectStore, prefix: str) -> None:
    """Try a create-only put twice and a conditional one, on an object of 1 byte that stays below
    ``prefix``. Raises Unavailable where the store ignores conditions: it could not fence.
    """
    key = f"{prefix}condition-{secrets.token_hex(8)}"
    fits = store.put_new(key, b"1") and not store.put_new(key, b"2")
    found = store.get(key)
    fits = fits and found is not None and found.data == b"1"
    if found is None or not fits:
        raise Unavailable(
            f"{store.name} replaced an object that was to be created: it has no create-only puts, "
            "and two owners could write to one log; use another store",
            outcome="not_applied",
        )
    fits = store.replace(key, b"3", found.tag) and not store.replace(key, b"4", found.tag)
    found = store.get(key)
    if found is None or not fits or found.data != b"3":
        raise Unavailable(
            f"{store.name} has no conditional puts: what is erased could come back; use another",
            outcome="not_applied",
        )


def open_cloud_store(url: str, *, timeout_s: float, **settings: Any) -> CloudStore:
    """See ``open_object_store``. ``settings`` go to obstore as they are (endpoint, region, …)."""
    obstore = _imported()
    seconds = f"{timeout_s:g}s"
    client_options = {
        "timeout": seconds,
        "connect_timeout": seconds,
        **_plain_http(),
        **settings.pop("client_options", {}),
    }
    retry = {"max_retries": _RETRIES, "retry_timeout": timedelta(seconds=timeout_s)}
    try:
        client = obstore.store.from_url(
            url, client_options=client_options, retry_config=retry, **settings
        )
    except Exception as error:
        raise InvalidArgument(f"{url}: {str(error).partition(chr(10))[0]}") from error
    return CloudStore(client, url)


def _plain_http() -> dict[str, Any]:
    """Options of ours take the place of those that obstore would find in the environment beside
    the endpoint and the credentials; a server on a local network may have no TLS."""
    allowed = os.environ.get("AWS_ALLOW_HTTP", "").lower() in ("1", "true")
    return {"allow_http": True} if allowed else {}


def _tag(meta: Any) -> str:
    return f"{meta.get('e_tag') or ''}\n{meta.get('version') or ''}"


def _imported() -> Any:
    try:
        import obstore
        import obstore.exceptions
        import obstore.store
    except ModuleNotFoundError:
        raise Unavailable(
            "object stores need obstore; run: pip install neverforget[object-store]",
            outcome="not_applied",
        ) from None
    return obstore
