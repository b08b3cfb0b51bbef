"""Table of all kernels, joined from the families' tables.  A family is imported at the first use of one of its ops."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import TYPE_CHECKING

from placesim.ops.kernels.cost_model import ELEMENTWISE, CostModel
from placesim.ops.kernels.op_families import OP_FAMILIES

if TYPE_CHECKING:
    from placesim.ops.kernels.kernel import Kernel, Table, Trait

FAMILIES: tuple[str, ...] = (
    "control_flow",
    "functional",
    "state.variables",
    "state.scatters",
    "state.scatters_nd",
    "state.optimizers",
    "state.sparse_optimizers",
    "state.variable_slices",
    "random.numbers",
    "random.stateless",
    "random.samplers",
    "random.truncated_sampling",
    "random.candidate_sampling",
    "random.stateful",
    "random.sobol",
    "string.hashing",
    "string.strings",
    "string.splitting",
    "string.conversion",
    "string.matching",
    "string.byte_decoding",
    "string.tensor_serialization",
    "string.unicode",
    "string.examples",
    "math.elementwise",
    "math.arithmetic",
    "math.comparisons",
    "math.casts",
    "math.special",
    "math.oscillations",
    "math.reductions",
    "math.scans",
    "math.segments",
    "math.sequences",
    "math.histograms",
    "array.constants",
    "array.reshaping",
    "array.joining",
    "array.splitting",
    "array.slicing",
    "array.reversing",
    "array.padding",
    "array.gathering",
    "array.tensor_scatters",
    "array.stitching",
    "array.selecting",
    "array.uniqueness",
    "array.searching",
    "array.blocks",
    "array.checks",
    "linalg.matmul",
    "linalg.einsum",
    "linalg.decompositions",
    "linalg.solvers",
    "linalg.diagonals",
    "array.tensor_diagonals",
    "linalg.fourier",
    "image.resizing",
    "image.color",
    "image.boxes",
    "image.suppression",
    "image.patches",
    "image.projections",
    "image.distortion",
    "image.encoding",
    "lists.tensor_arrays",
    "lists.tensor_array_elements",
    "lists.tensor_lists",
    "lists.tensor_list_elements",
    "lists.stacks",
    "math.counts",
    "nn.ctc",
    "sparse.edit_distance",
    "quantized.fake_quantization",
    "nn.fractional_pooling",
    "quantized.quantization",
    "quantized.round_trips",
    "quantized.requantization",
    "quantized.arithmetic",
    "quantized.joining",
    "array.ragged",
    "array.ranking",
    "nn.lstm",
    "nn.gru",
    "sparse.sets",
    "sparse.arithmetic",
    "sparse.rearrangement",
    "sparse.empty_rows",
    "sparse.reductions",
    "sparse.segments",
    "sparse.serialization",
    "quantized.uniform_quantization",
    "nn.activations",
    "nn.convolution",
    "nn.convolution_gradients",
    "nn.depthwise",
    "nn.dilation",
    "nn.fused_convolution",
    "nn.losses",
    "nn.normalization",
    "nn.pooling",
    "nn.pooling_gradients",
    "resources.queues",
    "resources.staging",
    "resources.barriers",
    "resources.accumulators",
    "resources.sparse_accumulators",
    "resources.lookup_tables",
    "resources.table_initialization",
    "data.datasets",
    "data.batches",
    "data.generators",
    "data.grouping",
    "data.tables",
    "data.functions",
    "data.shuffles",
    "data.file_datasets",
    "data.iterators",
    "resources.summaries",
    "resources.files",
    "resources.readers",
    "state.save_restore",
    "resources.python_functions",
)
"""The family modules of this package; each ends in its `TABLE`."""


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
        row = import_module(f"{__name__}.{family}").TABLE.get(op) if family in FAMILIES else None
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
