"""The demo's auditor: it finds orders that are lost, doubled, or wrong by a cent."""

from decimal import Decimal

import pytest

from penstock_lab.demo.demo_shop import PRODUCTS, Findings, ShopFinding, audit, books_of, order

BOOKS = books_of(50)


def rows(count: int = 50) -> list[tuple[int, str, str | None, Decimal]]:
    orders = [order(number) for number in range(count)]
    return [
        (each["id"], each["sku"], PRODUCTS[each["sku"]][0], each["quantity"] * Decimal(each["price"]))
        for each in orders
    ]


def test_books_are_the_sum_of_the_orders() -> None:
    assert sum(count for count, _ in BOOKS.totals.values()) == 50
    assert BOOKS.revenue == sum(amount for *_, amount in rows())
    assert len(BOOKS.totals) == len(PRODUCTS)


def test_a_clean_lake_is_clean() -> None:
    findings = audit(BOOKS, ShopFinding(rows(), BOOKS.totals))
    assert findings == Findings(0, 0, 0, BOOKS.revenue, totals_right=True)
    assert findings.is_clean


@pytest.mark.parametrize("what", ["lost", "doubled", "strange", "totals_right"])
def test_each_defect_is_found(what: str) -> None:
    found, totals = rows(), dict(BOOKS.totals)
    match what:
        case "lost":
            found.pop(7)
        case "doubled":
            found.append(found[7])
        case "strange":
            number, sku, name, amount = found[7]
            found[7] = (number, sku, name, amount + Decimal("0.01"))
        case _:
            totals["cup"] = (totals["cup"][0], totals["cup"][1] - Decimal("0.01"))
    findings = audit(BOOKS, ShopFinding(found, totals))
    assert not findings.is_clean
    assert getattr(findings, what) == (False if what == "totals_right" else 1)
