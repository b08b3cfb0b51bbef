"""The table of all kernels, joined from the families' tables; a family is imported when one of its ops is first used."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import TYPE_CHECKING

from placesim.ops.kernels.cost_model import ELEMENTWISE, CostModel
from placesim.ops.kernels.op_families import FAMILIES as FAMILIES
from placesim.ops.kernels.op_families import OP_FAMILIES

if TYPE_CHECKING:
    from placesim.ops.kernels.kernel import Kernel, MixedDims, Table, Trait


class KernelTable(Mapping[str, "Kernel"]):
    """Every kernel by op.

    `OP_FAMILIES` has the family of each op, and looking up an op imports only this family. Iterating, or looking up an op
    without a family, imports all families.
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
    """Import all families, and return their tables joined into one."""
    table: Table = {}
    for family in FAMILIES:
        table |= import_module(f"{__name__}.{family}").TABLE
    return table


_KERNELS = KernelTable()


def load_kernels() -> Mapping[str, Kernel]:
    """Return every kernel by op."""
    return _KERNELS


def has_trait(op: str, trait: Trait) -> bool:
    """Whether an op has a kernel with a trait."""
    return op in OP_FAMILIES and trait in _KERNELS[op].traits


def has_direct_form(op: str) -> bool:
    """Whether an op has a kernel that may be called as a function of its tensors."""
    return op in OP_FAMILIES and _KERNELS[op].direct is not None


def is_numpy_function(op: str) -> bool:
    """Whether this function is one of numpy's own."""
    return op in OP_FAMILIES and _KERNELS[op].is_numpy_function


def cost_of(op: str) -> CostModel:
    """Return the cost model of an op's kernel; an op without a kernel, such as a function's name, counts as elementwise."""
    return _KERNELS[op].cost if op in OP_FAMILIES else ELEMENTWISE


def mixing_of(op: str) -> MixedDims | None:
    """Return the function that tells along which dimensions an op mixes elements; None if it mixes none."""
    return _KERNELS[op].mixes if op in OP_FAMILIES else None
