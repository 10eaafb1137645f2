"""A point: a boundary that a Spool adopted, with everything needed to return to it."""

import msgspec

from penstock.journals.records.fragment import EMPTY_SUM, CompressionCodec, Sum
from penstock.journals.records.registers import NO_REGISTERS, Registers
from penstock.kernel.ids import Offset

__all__ = ["Point"]


class Point(msgspec.Struct, frozen=True, array_like=True):
    """The Fragment up to here, and the registers here. An empty one is a roll: a Fragment which begins."""

    begin: Offset
    end: Offset
    sum: Sum = EMPTY_SUM
    registers: Registers = NO_REGISTERS
    codec: CompressionCodec = CompressionCodec.NONE
    path_postfix: str = ""

    @property
    def is_empty(self) -> bool:
        return self.begin == self.end

    def rolled(self, codec: CompressionCodec | None = None, path_postfix: str | None = None) -> "Point":
        """The empty Fragment which begins here."""
        return Point(
            self.end,
            self.end,
            EMPTY_SUM,
            self.registers,
            self.codec if codec is None else codec,
            self.path_postfix if path_postfix is None else path_postfix,
        )

    def extended(self, end: Offset, sum_: Sum, registers: Registers) -> "Point":
        """The same Fragment with more content."""
        return Point(self.begin, end, sum_, registers, self.codec, self.path_postfix)

    def __str__(self) -> str:
        return f"[{self.begin}, {self.end})"
