"""A bank: transfers between accounts, whose sum never changes, whatever is killed in between.

A shard owns the accounts which are mapped to its number. It reads two journals: transfers from its accounts, whose
other halves it sends on as credits, and credits to its accounts, which some shard sent.

    bank/transfers-K ──▶ shard bank-K: debits ──▶ bank/credits-J ──▶ shard bank-J: credits

Its store is a database of SQL ($BANK_DATABASE); or, for shards with a recovery log, a SQLite file of its own. Nothing
else differs. Every half of a transfer leaves an entry, so that an audit can see that each happened once.
"""

import os
from typing import Any

from sqlalchemy import Connection, text

import penstock
from penstock.spi import ShardContext, SqlStore, Store, modulo, sqlite_store

SHARDS = 4
OPENING = 1_000  # of every account
credits_of = modulo([f"bank/credits-{number}" for number in range(SHARDS)])
transfers_of = modulo([f"bank/transfers-{number}" for number in range(SHARDS)])


def run(store: Any, statement: str, **values: Any) -> None:
    """One statement, on whichever database it is."""
    store.execute(text(statement) if isinstance(store, Connection) else statement, values)


def make_tables(store: Any) -> None:
    run(store, "CREATE TABLE IF NOT EXISTS accounts (account VARCHAR(40) PRIMARY KEY, balance BIGINT NOT NULL)")
    run(store, "CREATE TABLE IF NOT EXISTS entries (transfer VARCHAR(40), account VARCHAR(40), amount BIGINT)")


def book(store: Any, transfer: str, account: str, amount: int) -> None:
    """Change an account, and note why."""
    run(
        store,
        "INSERT INTO accounts (account, balance) VALUES (:account, :opening + :amount)"
        " ON CONFLICT (account) DO UPDATE SET balance = accounts.balance + :amount",
        account=account,
        opening=OPENING,
        amount=amount,
    )
    run(
        store,
        "INSERT INTO entries (transfer, account, amount) VALUES (:transfer, :account, :amount)",
        transfer=transfer,
        account=account,
        amount=amount,
    )


class Bank(penstock.Application[Any]):
    """Debits and credits."""

    def open_store(self, context: ShardContext) -> Store[Any]:
        if not context.recovery_log:
            return SqlStore(os.environ["BANK_DATABASE"], context.shard, setup=make_tables)
        assert context.keyspace is not None
        assert context.folder is not None
        return sqlite_store(context.keyspace, context.folder, root=context.root, setup=make_tables)(context)

    def consume(self, message: penstock.Message, store: Any, publish: penstock.Publish) -> None:
        order = message.value
        if message.journal.startswith("bank/transfers-"):
            book(store, order["id"], order["from"], -order["amount"])
            publish(credits_of, {"id": order["id"], "to": order["to"], "amount": order["amount"]}, key=order["to"])
        else:
            book(store, order["id"], order["to"], order["amount"])
