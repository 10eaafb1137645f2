"""`penstock.open`: a server of its own on a folder, whose data stays."""

from pathlib import Path

import pytest

import penstock
from penstock.base.errors import PreconditionFailed


@pytest.mark.timeout(300)
def test_what_was_written_is_there_when_it_is_opened_again(tmp_path: Path) -> None:
    with penstock.open(tmp_path / "data") as stock:
        orders = stock.journal("shop/orders").create()
        with orders.publisher() as publish:
            publish({"sku": "kettle"})
        stock.lake("shop").create()
        stock.lake("shop").branch("main")["prices.csv"] = b"kettle,39.90"
        with pytest.raises(PreconditionFailed, match="another process runs"):
            penstock.open(tmp_path / "data")
    with penstock.open(tmp_path / "data") as stock:
        assert [message.value for message in stock.journal("shop/orders").read()] == [{"sku": "kettle"}]
        assert stock.lake("shop").branch("main")["prices.csv"] == b"kettle,39.90"
