"""The demo's shop: its products, the orders it gets, and the books an auditor keeps on the side.

Orders follow from their numbers alone, so that the books can be made without having seen any of the machinery.
"""

from decimal import Decimal
from typing import Any, Final

import msgspec

__all__ = ["PRODUCTS", "Books", "Findings", "ShopFinding", "audit", "books_of", "order"]

# sku → name, and price
PRODUCTS: Final = {
    "kettle": ("Kettle, 1.7 l", "39.90"),
    "teapot": ("Teapot, stoneware", "24.50"),
    "cup": ("Cup, 0.2 l", "6.95"),
    "sieve": ("Tea sieve", "3.49"),
    "tin": ("Tea tin, 500 g", "11.20"),
    "assam": ("Assam, 250 g", "8.75"),
    "sencha": ("Sencha, 100 g", "12.30"),
    "honey": ("Honey, 500 g", "7.99"),
}
_SKUS: Final = tuple(PRODUCTS)


def order(number: int) -> dict[str, Any]:
    """The order of a number, as it is published: money is text, for no float holds 39.90.

    >>> order(3)
    {'id': 3, 'sku': 'cup', 'quantity': 2, 'price': '6.95'}
    """
    sku = _SKUS[(number * 2_654_435_761 >> 7) % len(_SKUS)]
    return {"id": number, "sku": sku, "quantity": number * 7 % 5 + 1, "price": PRODUCTS[sku][1]}


class Books(msgspec.Struct, frozen=True):
    """What must be in the lake: how many orders, and what each product has brought in."""

    orders: int
    totals: dict[str, tuple[int, Decimal]]

    @property
    def revenue(self) -> Decimal:
        return sum((amount for _, amount in self.totals.values()), Decimal(0))


def books_of(orders: int) -> Books:
    """Return the books for the first orders."""
    totals: dict[str, tuple[int, Decimal]] = {}
    for number in range(orders):
        each = order(number)
        count, amount = totals.get(each["sku"], (0, Decimal(0)))
        totals[each["sku"]] = (count + 1, amount + each["quantity"] * Decimal(each["price"]))
    return Books(orders, totals)


class ShopFinding(msgspec.Struct, frozen=True):
    """What the lake has: its rows by order number, and its table of totals."""

    rows: list[tuple[int, str, str | None, Decimal]]  # number, sku, name, amount
    totals: dict[str, tuple[int, Decimal]]


class Findings(msgspec.Struct, frozen=True):
    """What an auditor says."""

    lost: int
    doubled: int
    strange: int  # rows which say something else than the order did
    revenue: Decimal
    totals_right: bool

    @property
    def is_clean(self) -> bool:
        return not (self.lost or self.doubled or self.strange) and self.totals_right


def audit(books: Books, found: ShopFinding) -> Findings:
    """Compare the published orders with the lake's, order by order and cent by cent."""
    numbers = [number for number, *_ in found.rows]
    seen = set(numbers)
    strange = sum(not _agrees(*row) for row in found.rows)
    revenue = sum((amount for *_, amount in found.rows), Decimal(0))
    totals_right = found.totals == books.totals and revenue == books.revenue
    lost = len(set(range(books.orders)) - seen)
    return Findings(lost, len(numbers) - len(seen), strange, revenue, totals_right)


def _agrees(number: int, sku: str, name: str | None, amount: Decimal) -> bool:
    said = order(number)
    expected = said["quantity"] * Decimal(said["price"])
    return (sku, name, amount) == (said["sku"], PRODUCTS[said["sku"]][0], expected)
