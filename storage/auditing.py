"""The audit as read: every hide, fork, erasure and refusal, from the records themselves."""

from __future__ import annotations

from typing import Any

from neverforget.storage import control
from neverforget.storage.audit_index import AUDITED
from neverforget.storage.control import ControlField, F
from neverforget.storage.errors import Corrupt
from neverforget.storage.format import Kind
from neverforget.storage.record import Header
from neverforget.storage.region_state import RegionState
from neverforget.storage.results import AuditView
from neverforget.storage.salvage_bodies import salvage_details
from neverforget.storage.window_parts import check_limit

LIMIT_MAX = 10_000


class Auditor:
    """Reads the audit of one region."""

    def __init__(self, state: RegionState) -> None:
        self._state = state

    def audit(
        self,
        operation: str | None,
        by: str | None,
        namespace: tuple[str, ...] | None,
        session: str | None,
        start_us: int | None,
        stop_us: int | None,
        after: int | None,
        limit: int,
    ) -> tuple[list[AuditView], bool]:
        """See ``messages.Audit``: views, newest last, and whether there are more. ``namespace``
        means it and all below; with ``session``, that session of exactly this namespace.
        """
        check_limit(limit)
        limit = min(limit, LIMIT_MAX)
        found: list[AuditView] = []
        for position in self._state.audit.after(after):
            header = self._state.log.header(position)
            if start_us is not None and header.timestamp < start_us:
                continue
            if stop_us is not None and header.timestamp >= stop_us:
                continue
            body = self._body(position)
            view = self._view(position, header, body)
            if operation is not None and view.operation != operation:
                continue
            if by is not None and view.by != by:
                continue
            if not _within(view, body, namespace, session):
                continue
            if len(found) == limit:
                return found, True
            found.append(view)
        return found, False

    def _body(self, position: int) -> control.Body:
        try:
            return self._state.control(position)[1]
        except Corrupt:
            return {}  # erased with its session, or unreadable: that it happened still counts

    def _view(self, position: int, header: Header, body: control.Body) -> AuditView:
        reason = body.get(F[ControlField.REASON])
        operation = AUDITED[header.kind]
        target: dict[str, Any]
        details: dict[str, Any] = {}
        if header.kind == Kind.REFUSED:
            held = body.get(F[ControlField.TARGET])
            target = held if isinstance(held, dict) else {}
            asked = body.get(F[ControlField.OPERATION])
            details = {"operation": asked} if asked else {}
        else:
            target = self._target(header, body)
        if header.kind == Kind.FORK and F[ControlField.AT] in body:
            parent, _ = control.fork(body)
            details = {
                "parent": {"namespace": list(parent.namespace), "session": parent.session},
                "at": parent.at,
            }
        elif header.kind == Kind.SALVAGED:
            details = salvage_details(body)
        elif header.kind == Kind.ERASING:
            details = {
                "turns": body.get(F[ControlField.TURNS], 0),
                "bytes": body.get(F[ControlField.BYTES], 0),
            }
        return AuditView(
            operation,
            target,
            str(body.get(F[ControlField.BY], "")),
            header.timestamp,
            reason if isinstance(reason, str) else None,
            details,
            self._state.partition,
            position,
        )

    def _target(self, header: Header, body: control.Body) -> dict[str, Any]:
        """The session by its name, as long as it has one; of an erased one the salted digest."""
        digest, salt = body.get(F[ControlField.DIGEST]), body.get(F[ControlField.SALT])
        if isinstance(digest, bytes) and isinstance(salt, bytes):
            return {"digest": digest.hex(), "salt": salt.hex()}
        session = self._state.index.by_id.get(header.session_id)
        if not header.session_id and header.kind == Kind.SALVAGED:
            return {}
        if session is None or session.name is None:
            return {"erased": header.session_id in self._state.index.erased_ids}
        target: dict[str, Any] = {
            "namespace": list(session.namespace),
            "session": session.name,
        }
        runs = body.get(F[ControlField.RUNS])
        if isinstance(runs, list):
            target["seqs"] = runs
        return target


def _within(
    view: AuditView,
    body: control.Body,
    namespace: tuple[str, ...] | None,
    session: str | None,
) -> bool:
    if session is not None and namespace is not None and "digest" in view.target:
        digest = control.salted_digest(body[F[ControlField.SALT]], namespace, session)
        return bool(digest == body[F[ControlField.DIGEST]])
    place = view.target.get("namespace")
    if session is not None:
        if view.target.get("session") != session:
            return False
        return namespace is None or (isinstance(place, list) and tuple(place) == namespace)
    if not namespace:
        return True
    return isinstance(place, list) and tuple(place[: len(namespace)]) == namespace
