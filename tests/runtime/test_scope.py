"""Namespaces, names and views: what a handle sees, and what it cannot reach."""

from __future__ import annotations

from typing import Any

import pytest

import neverforget as nf
from neverforget.runtime.scope import Scope
from neverforget.runtime.values import Namespace
from tests.runtime.conftest import Opener, seqs

NAMES = [
    "..",
    ".",
    "a/b",
    "a\\b",
    "CON",
    "nul\x00inside",
    "x" * 300,
    "Chat",
    "chat",
    "caf\u00e9",
    "cafe\u0301",
    " ",
    "🙂",
    "-rf",
    "%2e%2e",
]


def test_names_are_kept_apart_whatever_they_look_like(store: nf.Store) -> None:
    for n, name in enumerate(NAMES):
        store.session(name).append("user", n)
        store.session("in", namespace=name).append("user", n)
    for n, name in enumerate(NAMES):
        assert [turn.content for turn in store.session(name)] == [n]
        assert [turn.content for turn in store.session("in", namespace=(name,))] == [n]
    assert {info.session for info in store.sessions() if not info.namespace} == set(NAMES)
    assert set(store.namespaces()) == {(), *((name,) for name in NAMES)}


@pytest.mark.parametrize("name", ["", None, 5, b"x", "lone \ud83d", "x" * 4097])
def test_what_cannot_be_a_name_is_refused(store: nf.Store, name: Any) -> None:
    with pytest.raises(nf.InvalidArgument):
        store.session(name)
    with pytest.raises(nf.InvalidArgument):
        store.session("x", namespace=(name,))
    with pytest.raises(nf.InvalidArgument):
        store.scoped(namespace=("a", name))
    if name is not None:
        with pytest.raises(nf.InvalidArgument):
            store.session("x", agent=name)


@pytest.mark.parametrize("namespace", [5, {"a"}, [1], ("a",) * 65])
def test_what_cannot_be_a_namespace_is_refused(store: nf.Store, namespace: Any) -> None:
    with pytest.raises(nf.InvalidArgument):
        store.session("x", namespace=namespace)


def test_a_bare_string_is_a_tuple_of_one(store: nf.Store) -> None:
    turn = store.session("x", namespace="team/ada").append("user", "hi")
    assert turn.namespace == ("team/ada",)
    assert len(store.sessions(namespace="team")) == 0
    assert len(store.sessions(namespace=["team/ada"])) == 1


def planted(store: nf.Store) -> None:
    for namespace in ((), ("acme",), ("acme", "eu"), ("acme", "us"), ("acme-corp",), ("zeta",)):
        for name in ("alpha", "beta"):
            store.session(name, namespace=namespace).append("user", "/".join((*namespace, name)))


def listed(page: nf.Page[nf.SessionInfo]) -> list[str]:
    return ["/".join((*info.namespace, info.session)) for info in page]


def test_a_filter_means_the_namespace_and_all_below_it_element_by_element(store: nf.Store) -> None:
    planted(store)
    assert listed(store.sessions(namespace="acme")) == [
        "acme/alpha", "acme/beta", "acme/eu/alpha", "acme/eu/beta", "acme/us/alpha", "acme/us/beta",
    ]  # fmt: skip
    assert listed(store.sessions(namespace=("acme", "eu"))) == ["acme/eu/alpha", "acme/eu/beta"]
    assert listed(store.sessions(namespace="acme", prefix="b")) == [
        "acme/beta",
        "acme/eu/beta",
        "acme/us/beta",
    ]
    assert len(store.sessions()) == 12
    assert store.namespaces().items == (
        (),
        ("acme",),
        ("acme", "eu"),
        ("acme", "us"),
        ("acme-corp",),
        ("zeta",),
    )
    assert store.namespaces("acme").items == (("acme",), ("acme", "eu"), ("acme", "us"))
    assert store.namespaces(max_depth=1).items == ((), ("acme",), ("acme-corp",), ("zeta",))


@pytest.mark.parametrize("limit", [1, 5, 100])
def test_listings_page_over_partitions_without_gaps(store: nf.Store, limit: int) -> None:
    planted(store)
    page = store.sessions(limit=limit)
    walked = listed(page)
    while page.has_more:
        page = store.sessions(after=page.next, limit=limit)
        walked += listed(page)
    assert walked == listed(store.sessions())
    spaces = store.namespaces(limit=limit)
    found = list(spaces)
    while spaces.has_more:
        spaces = store.namespaces(after=spaces.next, limit=limit)
        found += spaces
    assert found == list(store.namespaces())
    store.session("new", namespace="zz").append("user", "x")
    assert listed(store.sessions(after=page.next)) == ["zz/new"]


def test_a_listing_of_long_names_that_needs_several_replies_is_sorted(opener: Opener) -> None:
    """One partition's reply is cut short where the other's is not: nothing in between is lost."""
    store = opener()
    names = [f"{n:03}" + "x" * 4000 for n in range(40)]
    for name in names:
        store.session(name, namespace="y" * 4000).append("user", "x", sync="process")
    page = store.sessions(limit=1000)
    walked = [info.session for info in page]
    while page.has_more:
        page = store.sessions(after=page.next, limit=1000)
        walked += [info.session for info in page]
    assert walked == names


# ---- views ---------------------------------------------------------------------------------------


def test_a_view_prepends_its_namespace_and_sees_nothing_outside(store: nf.Store) -> None:
    planted(store)
    view = store.scoped(namespace="acme")
    assert [turn.content for turn in view.session("alpha")] == ["acme/alpha"]
    assert [turn.content for turn in view.session("alpha", namespace="eu")] == ["acme/eu/alpha"]
    assert all(name.startswith("acme/") for name in listed(view.sessions()))
    assert len(view.sessions()) == 6 and len(view.sessions(namespace="us")) == 2
    assert view.namespaces().items == (("acme",), ("acme", "eu"), ("acme", "us"))
    assert view.namespaces(max_depth=1).items == view.namespaces().items
    inner = view.scoped(namespace="eu")
    assert listed(inner.sessions()) == ["acme/eu/alpha", "acme/eu/beta"]


def test_values_carry_absolute_namespaces_that_a_view_takes_back(store: nf.Store) -> None:
    planted(store)
    view = store.scoped(namespace="acme")
    for info in view.sessions():
        chat = view.session(info.session, namespace=info.namespace)
        assert chat[0].content == "/".join((*info.namespace, info.session))
        assert chat.namespace == info.namespace == chat[0].namespace
    for namespace in view.namespaces():
        assert len(view.sessions(namespace=namespace)) >= 2
    outside = store.session("alpha", namespace="zeta")[0].namespace
    for call in (
        lambda: view.session("alpha", namespace=outside),
        lambda: view.sessions(namespace=outside),
        lambda: view.scoped(namespace=outside),
        lambda: view.session("alpha", namespace=store.session("alpha")[0].namespace),
    ):
        with pytest.raises(nf.NotFound, match="outside"):
            call()


def test_an_absolute_namespace_stays_one_through_slices_sums_and_copies() -> None:
    import copy
    import pickle

    namespace = Namespace(("a", "b"))
    for made in (
        namespace[:1],
        namespace + ("c",),  # noqa: RUF005 - the sum is what is tested
        copy.deepcopy(namespace),
        pickle.loads(pickle.dumps(namespace)),
    ):
        assert type(made) is Namespace
    assert namespace == ("a", "b") and hash(namespace) == hash(("a", "b")) and namespace[0] == "a"
    assert Scope(Namespace(("a",))).place(("a", "b")) == ("a", "a", "b")
    assert Scope(Namespace(("a",))).place(namespace) == ("a", "b")


def test_a_views_audit_shows_only_what_lies_in_it(store: nf.Store) -> None:
    planted(store)
    store.session("alpha", namespace="acme").hide(0)
    store.session("alpha", namespace="zeta").hide(0)
    view = store.scoped(namespace="acme")
    assert [entry.target["namespace"] for entry in view.audit()] == [["acme"]]
    assert len(store.audit()) == 2


def test_a_cursor_goes_with_the_view_that_gave_it(store: nf.Store) -> None:
    planted(store)
    cursor = store.scoped(namespace="acme").sessions(limit=1).next
    with pytest.raises(nf.InvalidArgument, match="another listing"):
        store.sessions(after=cursor)
    chat = store.session("alpha", namespace="acme")
    assert seqs(chat.page(after=store.scoped(namespace="acme").session("alpha").page().next)) == []


def test_a_views_agent_and_deadline(store: nf.Store) -> None:
    view = store.scoped(agent="bob", deadline=2)
    assert view.session("x").append("user", "x").agent == "bob"
    assert view.session("x", agent="eve").append("user", "x").agent == "eve"
    assert view.config.deadline_s == 2 and view.config.sources["deadline_s"] == "argument"
    assert store.config.deadline_s == 30
    for wrong in (0, -1, "5", True, float("nan")):
        with pytest.raises(nf.InvalidArgument, match="deadline"):
            store.scoped(deadline=wrong)  # type: ignore[arg-type]
