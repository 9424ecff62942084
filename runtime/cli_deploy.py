"""Commands about named stores on a Ray cluster: deploy, failover, undeploy."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from neverforget.runtime.cli_forgetting import WORD, ConfirmOption, confirmation
from neverforget.runtime.cli_render import console, errors, print_json
from neverforget.runtime.cli_store import RAY_PREFIX, THE_STORE, JsonOption, command
from neverforget.runtime.deployment import read_plan, split_address
from neverforget.runtime.moving import checked_place, named
from neverforget.storage.errors import ConfirmationRequired, InvalidArgument

AddressOption = Annotated[
    str, typer.Option(metavar="HOST:PORT", help="The Ray cluster; auto: the one of this machine.")
]


def register(app: typer.Typer) -> None:
    command(app, "deploy", deploy, DEPLOY_EXAMPLES, THE_STORE)
    command(app, "failover", failover, FAILOVER_EXAMPLES, THE_STORE)
    command(app, "undeploy", undeploy, UNDEPLOY_EXAMPLES, THE_STORE)


DEPLOY_EXAMPLES = """
neverforget deploy memory.toml
neverforget deploy memory.toml --address 192.0.2.1:6379
"""


def deploy(
    config: Annotated[
        Path,
        typer.Argument(
            metavar="CONFIG",
            help="A TOML file: name, path, resource or label, nodes, failover, \\[settings].",
        ),
    ],
    address: AddressOption = "auto",
    wait: Annotated[
        float, typer.Option(metavar="SECONDS", min=1, help="How long its owners may take to start.")
    ] = 120.0,
    as_json: JsonOption = False,
) -> None:
    """Create a named store on a Ray cluster, or change its host settings.

    Its partitions are spread over the nodes that offer what CONFIG names, and stay with the disks
    they are on. Repeated, it changes nothing; another number of partitions is refused.
    """
    import neverforget as nf

    name, _ = read_plan(config)
    if name is None:
        raise InvalidArgument(f'{config} does not name the store; add: name = "memory"')
    with errors().status("starting the owners") as _shown:
        nf.deploy(None, config, address=address, wait=wait)
    with nf.connect(name, address=address) as store:
        status = store.status()
    if as_json:
        owners = [{"name": o.name, "node": o.node, "state": o.state} for o in status.owners]
        print_json({"name": name, "store_id": status.store_id, "owners": owners})
    else:
        nodes = len({owner.node for owner in status.owners})
        text = f"{RAY_PREFIX}{name}: {len(status.owners)} partitions on machines: {nodes}"
        console().print(text, markup=False, highlight=False)


FAILOVER_EXAMPLES = """
neverforget failover memory 2
neverforget failover memory memories --to worker-3 --confirm confirmed
"""


def failover(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Of the deployed store.")],
    partition: Annotated[
        str, typer.Argument(metavar="PARTITION", help="Its number, or: memories.")
    ],
    to: Annotated[
        str | None, typer.Option(metavar="NODE", help="By its name or id in Ray; else any other.")
    ] = None,
    confirm: ConfirmOption = None,
    address: AddressOption = "auto",
    wait: Annotated[
        float, typer.Option(metavar="SECONDS", min=1, help="How long its owner may take to start.")
    ] = 120.0,
) -> None:
    """Have a partition, or the memories, served from another disk, out of the store's replica.

    For a node that will not come back, or not soon. If its disk comes back later, what was
    acknowledged there and not shipped is appended again.
    """
    import neverforget as nf

    (store, address), place = _split(name, address), checked_place(partition)
    word = confirmation(confirm, f"{named(place)} of {store} will be served from another disk")
    if word is None:
        raise ConfirmationRequired(f"nothing was moved; give --confirm {WORD} if it is meant")
    with errors().status("moving it") as _shown:
        nf.failover(store, partition, confirm=word, to=to, address=address, wait=wait)
    console().print(f"{named(place)} of {store} serves", markup=False, highlight=False)


UNDEPLOY_EXAMPLES = """
neverforget undeploy memory
"""


def undeploy(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Of the deployed store.")],
    address: AddressOption = "auto",
) -> None:
    """End the actors of a named store, in order. Its data stays: deploy it again to have it
    back."""
    import neverforget as nf

    store, address = _split(name, address)
    nf.undeploy(store, address=address)


def _split(name: str, address: str) -> tuple[str, str]:
    """Name and address of what may be ray:NAME[@ADDRESS], as for all other commands."""
    if not name.startswith(RAY_PREFIX):
        return name, address
    store, at = split_address(name)
    if "auto" not in (at, address) and at != address:
        raise InvalidArgument(f"{name} and --address {address} are two clusters; give one of them")
    return store, address if at == "auto" else at
