"""`penstock journals create|delete`: one journal, by flags."""

import asyncio
import sys
from typing import Annotated, TextIO

from cyclopts import Parameter

from penstock.cli.journals.journal_targets import AtBrokers, Name, journals_of
from penstock.cli.noun import InSession
from penstock.journals.client.named_journal import safe_copies
from penstock.journals.records.labels import Label, LabelSelector, LabelSet
from penstock.journals.records.protocol import Change
from penstock.journals.records.spec import JournalSpec
from penstock.kernel.errors import InvalidArgument, PreconditionFailed
from penstock.server.targets import CLUSTER_FOLDER, AtFolder

__all__ = ["confirms", "create", "delete"]


async def create(
    name: Name,
    /,
    *,
    replication: Annotated[
        int | None, Parameter(help="Number of brokers that hold each append; 3 by default.", metavar="N")
    ] = None,
    least: Annotated[int, Parameter(help="Appends need N brokers; the others may be away.", metavar="N")] = 0,
    label: Annotated[tuple[str, ...], Parameter(help="Label; may be repeated.", metavar="NAME=VALUE")] = (),
    fsync: Annotated[bool, Parameter(help="Acknowledge appends only after they are on disk.")] = False,
    exists_ok: Annotated[bool, Parameter(help="Succeed if the journal exists.")] = False,
    broker: AtBrokers = (),
    cluster: AtFolder = CLUSTER_FOLDER,
    session: InSession,
) -> None:
    """Create a journal.

    By default three brokers hold each append. Where fewer brokers run, all of
    them hold it on disk before it is acknowledged. Use `penstock journals apply`
    for every other setting of a journal.
    """
    labels = LabelSet.of([_label(text) for text in label])
    async with journals_of(session, broker, cluster) as journals:
        if replication is None:
            replication, on_disk = safe_copies(await journals.count_brokers())
            fsync = fsync or on_disk
        spec = JournalSpec(name=name, replication=replication, least=least, labels=labels, fsync=fsync)
        try:
            await journals.create(spec)
            made = True
        except PreconditionFailed:
            made = False
            if not exists_ok or not await journals.list(LabelSelector(LabelSet.of({"name": name}))):
                raise
    session.emit({"journal": name, "created": made}, f"{name} {'created' if made else 'exists'}")


async def delete(
    name: Name,
    /,
    *,
    yes: Annotated[bool, Parameter(help="Delete without a question.")] = False,
    broker: AtBrokers = (),
    cluster: AtFolder = CLUSTER_FOLDER,
    session: InSession,
) -> None:
    """Delete a journal. Its stored fragments stay in the store.

    Asks for the name again on a terminal; --yes skips the question.
    """
    if not yes:
        if not sys.stdin.isatty():
            raise InvalidArgument(
                "journals delete: no terminal to ask on; expected --yes",
                next_step=f"penstock journals delete {name} --yes",
            )
        session.say(f"Type the name {name} again to delete it:")
        if not await asyncio.to_thread(confirms, name, sys.stdin):
            raise InvalidArgument(f"the name differs from {name}")
    async with journals_of(session, broker, cluster) as journals:
        await journals.apply([Change(delete=name)])
    session.emit({"journal": name, "deleted": True}, f"{name} deleted")


def confirms(name: str, answer: TextIO) -> bool:
    """Return whether the next line of the answer is the name."""
    return answer.readline().strip() == name


def _label(text: str) -> Label:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise InvalidArgument(f"--label {text}: expected NAME=VALUE")
    return Label(name, value)
