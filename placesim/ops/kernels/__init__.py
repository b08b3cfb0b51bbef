"""Table of all kernels, joined from the families' tables.  A family is imported at the first use of one of its ops."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import TYPE_CHECKING

from placesim.ops.kernels.cost_model import ELEMENTWISE, CostModel
from placesim.ops.kernels.op_families import FAMILIES as FAMILIES
from placesim.ops.kernels.op_families import OP_FAMILIES

if TYPE_CHECKING:
    from placesim.ops.kernels.kernel import Kernel, Table, Trait


class KernelTable(Mapping[str, "Kernel"]):
    """Every kernel by op type.

    `OP_FAMILIES` says where an op's row is; for an op that it does not know, or for all ops, all families are read.
    """

    def __init__(self) -> None:
        self._found: Table = {}
        self._is_whole = False

    def __getitem__(self, op: str) -> Kernel:
        found = self._found.get(op)
        if found is None:
            found = self._found[op] = self._look_up(op)
        return found

    def _look_up(self, op: str) -> Kernel:
        family = OP_FAMILIES.get(op)
        row = import_module(f"{__name__}.{family}").TABLE.get(op) if family else None
        return row or self._all()[op]

    def _all(self) -> Table:
        if not self._is_whole:
            self._found, self._is_whole = join_tables(), True
        return self._found

    def __iter__(self) -> Iterator[str]:
        return iter(self._all())

    def __len__(self) -> int:
        return len(self._all())


def join_tables() -> Table:
    """The tables of all families, each imported."""
    table: Table = {}
    for family in FAMILIES:
        table |= import_module(f"{__name__}.{family}").TABLE
    return table


_KERNELS = KernelTable()


def load_kernels() -> Mapping[str, Kernel]:
    """Every kernel by op type."""
    return _KERNELS


def has_trait(op: str, trait: Trait) -> bool:
    """Whether an op has a kernel with a trait."""
    return op in OP_FAMILIES and trait in _KERNELS[op].traits


def cost_of(op: str) -> CostModel:
    """The cost model of an op's kernel; a function that is called by its name has none, and counts as elementwise."""
    return _KERNELS[op].cost if op in OP_FAMILIES else ELEMENTWISE
