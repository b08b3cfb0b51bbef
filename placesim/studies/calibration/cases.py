"""Cases of a calibration: steps that run one op repeatedly, grouped by the figures that they determine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any, NamedTuple

Dims = tuple[int, ...]


class Case(NamedTuple):
    """Nodes of one op. An input is the shape of a tensor (a tuple), or the value of a constant (a list or a number).

    `work` is the approximate number of multiplications of a node, given if it is large compared with the number of elements.
    The tensors of all copies together have about `num_bytes` bytes, unless one copy has more.
    """

    op: str
    inputs: tuple[Dims | list[Any] | int, ...]
    attrs: Mapping[str, Any] = {}
    work: float = 0.0
    num_bytes: int = 2 << 20

    @property
    def name(self) -> str:
        """Return the op and its shapes as a text."""
        return f"{self.op} " + " ".join("x".join(map(str, dims)) for dims in self.inputs if isinstance(dims, tuple))

    @property
    def elements(self) -> int:
        """Return the number of elements of all input tensors."""
        return sum(prod(dims) for dims in self.inputs if isinstance(dims, tuple))

    @property
    def copies(self) -> int:
        """Return the number of nodes timed together."""
        by_bytes = self.num_bytes // (4 * self.elements or 1)
        return int(max(1, min(_MOST_COPIES, by_bytes, _CASE_WORK / max(1.0, self.work))))

    @property
    def is_small(self) -> bool:
        """Whether a node takes at most about a millisecond."""
        return self.elements <= _SMALL


class CaseGroup(NamedTuple):
    """Cases from which `figures` are fitted, given the figures of earlier groups."""

    figures: tuple[str, ...]
    cases: tuple[Case, ...]

    def of_small_cases(self) -> CaseGroup:
        """Return the group without slow cases, but with at least one case."""
        small = tuple(case for case in self.cases if case.is_small)
        return self._replace(cases=small or (min(self.cases, key=lambda case: case.elements),))


_SMALL = 60_000
_MANY_BYTES = 64 << 20
"""Total bytes of the tensors of all copies of a case that no cache holds."""
_SOME_BYTES = 20 << 20
"""Total bytes of several matrices that the last cache of most processors holds."""
_CASE_WORK = 300_000_000
"""Approximate number of multiplications of all copies of a case."""
_MOST_COPIES = 200
_FORKED = (64, 160)
"""Rows and depth of products that one thread computes, but with inputs large enough for a pool."""


def _flat(op: str, *sizes: int, inputs: int = 1) -> tuple[Case, ...]:
    return tuple(Case(op, ((size,),) * inputs) for size in sizes)


def _product(rows: int, columns: int, depth: int) -> Case:
    return Case("MatMul", ((rows, depth), (depth, columns)), work=rows * columns * depth)


def _uncached(*cases: Case) -> tuple[Case, ...]:
    """Return the cases with so many copies that no cache holds their tensors."""
    return tuple(case._replace(num_bytes=_MANY_BYTES) for case in cases)


def _windows(sizes: Dims, stride: int, padding: str, images: Dims) -> tuple[dict[str, Any], Dims]:
    """Return the attrs of a window op, and the rows and columns of its result."""
    pairs = zip(images[1:3], sizes, strict=True)
    made = tuple((n + stride - 1) // stride if padding == "SAME" else (n - k) // stride + 1 for n, k in pairs)
    return {"strides": [1, stride, stride, 1], "padding": padding}, made


def _convolutions(images: Dims, filters: Dims, stride: int = 1, padding: str = "SAME") -> tuple[Case, Case, Case]:
    """Return the cases of a convolution and of its input and filter gradients."""
    attrs, made = _windows(filters[:2], stride, padding, images)
    results = (images[0], *made, filters[-1])
    work = prod(results) * prod(filters[:-1])
    return (
        Case("Conv2D", (images, filters), attrs, work),
        Case("Conv2DBackpropInput", (list(images), filters, results), attrs, work),
        Case("Conv2DBackpropFilter", (images, list(filters), results), attrs, work),
    )


def _depthwise(*images: Dims) -> tuple[Case, ...]:
    attrs = {"strides": [1, 1, 1, 1], "padding": "SAME"}
    return tuple(Case("DepthwiseConv2dNative", (dims, (3, 3, dims[-1], 1)), attrs) for dims in images)


def _pooling(images: Dims, size: int) -> tuple[Case, Case, Case]:
    attrs, made = _windows((size, size), 2, "VALID", images)
    attrs["ksize"] = [1, size, size, 1]
    results = (images[0], *made, images[-1])
    return (
        Case("MaxPool", (images,), attrs),
        Case("AvgPool", (images,), attrs),
        Case("MaxPoolGrad", (images, results, results), attrs),
    )


def _normalized(rows: int, channels: int, *, is_training: bool) -> Case:
    attrs = {"is_training": is_training, "epsilon": 0.001}
    return Case("FusedBatchNormV3", ((1, rows, 1, channels), *((channels,),) * 4), attrs)


_LRN = {"depth_radius": 2, "alpha": 1e-4, "beta": 0.75, "bias": 1.0}
_FORWARD, _BACK_INPUT, _BACK_FILTER = zip(
    *(
        _convolutions((8, 14, 14, 256), (3, 3, 256, 256)),
        _convolutions((4, 111, 111, 3), (7, 7, 3, 64), 2, "VALID"),
        _convolutions((4, 28, 28, 96), (5, 5, 96, 128)),
        _convolutions((1, 56, 56, 64), (3, 3, 64, 64)),
        _convolutions((1, 28, 28, 128), (3, 3, 128, 128)),
        _convolutions((16, 32, 32, 3), (5, 5, 3, 64)),
    ),
    strict=True,
)
_POINTWISE = zip(
    *(_convolutions((1, 56, 56, 64), (1, 1, 64, 256)), _convolutions((8, 14, 14, 512), (1, 1, 512, 128))), strict=True
)
_POOLED = (_pooling((8, 55, 55, 96), 3), _pooling((8, 13, 13, 256), 3), _pooling((8, 32, 32, 64), 2))

GROUPS = (
    CaseGroup(
        ("call", "plain", "far", "distant", "new", "checked"),
        (
            Case("Neg", ((64,),)),
            Case("AddV2", ((64,), (64,))),
            *_flat("Square", 5_000, 20_000, 65_536, 150_000, 300_000, 1_000_000, 4_000_000, 12_000_000),
            *_flat("AddV2", 5_000, 16_384, 50_000, 150_000, 300_000, 1_000_000, 4_000_000, 12_000_000, inputs=2),
            *_uncached(*_flat("Square", 20_000, 65_536, 300_000, 1_000_000)),
            *_uncached(*_flat("AddV2", 16_384, 50_000, 300_000, 1_000_000, inputs=2)),
        ),
    ),
    CaseGroup(("compared",), tuple(Case("Maximum", ((size,), ())) for size in (5_000, 20_000, 65_536, 300_000))),
    CaseGroup(("divided",), _flat("RealDiv", 20_000, 300_000, inputs=2)),
    CaseGroup(("rooted",), _flat("Sqrt", 20_000, 300_000)),
    CaseGroup(("exponential",), tuple(case for op in ("Exp", "Log", "Tanh") for case in _flat(op, 20_000, 300_000))),
    CaseGroup(("special",), _flat("Erf", 20_000, 300_000)),
    CaseGroup(("chosen",), _flat("Sigmoid", 20_000, 65_536, 300_000)),
    CaseGroup(
        ("run",),
        tuple(Case("AddV2", (dims, dims[-1:])) for dims in ((1000, 32), (3136, 64), (196, 1024))),
    ),
    CaseGroup(("reduced", "row"), tuple(Case("Sum", (dims, [axis])) for dims in ((1000, 128), (64, 1000)) for axis in (0, 1))),
    CaseGroup(("random",), (Case("RandomUniform", ([64, 1000],), {"dtype": "float32"}),)),
    CaseGroup(("gathered",), (Case("GatherV2", ((20_000, 64), [number * 7919 % 20_000 for number in range(4000)], 0)),)),
    CaseGroup(
        ("multiplied", "packed", "accumulated", "awaited"),
        (
            # the number of products bound by multiplication is that of the other kinds, so that no kind outweighs another
            *(_product(size, size, size) for size in (500, 700, 1000)),
            *(_product(rows, 1000, 1500) for rows in (300, 500)),
            _product(700, 400, 1600),
            _product(600, 1800, 500),
            _product(1400, 600, 300),
            *(_product(rows, 256, 256) for rows in (8, 64)),
            *(_product(rows, 512, 512) for rows in (8, 32, 128)),
            *(_product(rows, 2000, 1000) for rows in (8, 32, 128)),
            *(_product(rows, 1000, 4096) for rows in (1, 16, 64)),
            *_uncached(_product(16, 512, 500), _product(64, 300, 800), _product(8, 1000, 300)),
            _product(1000, 512, 512),
            _product(2000, 64, 64),
            Case("BatchMatMulV2", ((64, 128, 64), (64, 64, 128)), work=64 * 128 * 64 * 128),
            Case("BatchMatMulV2", ((64, 128, 128), (64, 128, 64)), work=64 * 128 * 64 * 128),
        ),
    ),
    CaseGroup(
        ("aliased",),
        (
            # where the system places a matrix decides about its cost, so that one matrix says little
            *(_product(rows, 2048, 1024)._replace(num_bytes=_SOME_BYTES) for rows in (8, 32, 128)),
            *(_product(rows, 1024, 512)._replace(num_bytes=_SOME_BYTES) for rows in (16, 64)),
            _product(16, 4096, 4096),
            _product(1024, 2048, 64),
        ),
    ),
    CaseGroup(("copied", "piece"), _FORWARD),
    CaseGroup(("added", "added_piece"), _BACK_INPUT),
)
"""Groups of cases, in the order in which their figures are determined."""
CHECKED: tuple[Case, ...] = (
    *_BACK_FILTER,
    *(case for cases in _POINTWISE for case in cases),
    *_depthwise((1, 56, 56, 144), (1, 14, 14, 576), (1, 7, 7, 960), (4, 28, 28, 192)),
    *(case for cases in _POOLED for case in cases),
    *(Case("Softmax", (dims,)) for dims in ((1024, 128), (64, 1000), (4096, 128))),
    *(Case("BiasAddGrad", (dims,)) for dims in ((1000, 128), (64, 1000))),
    *(_normalized(rows, 64, is_training=is_training) for rows in (784, 12544) for is_training in (False, True)),
    Case("LRN", ((4, 27, 27, 96),), _LRN),
    Case("LRNGrad", ((4, 27, 27, 96),) * 3, _LRN),
    Case("ConcatV2", ((32, 500), (32, 500), 1)),
    Case("ConcatV2", ((256, 1000), (256, 1000), 0)),
    Case("Pad", ((1, 56, 56, 144), [[0, 0], [0, 1], [0, 1], [0, 0]])),
    Case("ResourceApplyMomentum", ((1_000_000,),)),
)
"""Kernels whose times are predicted from known figures. They show how far each family deviates from the prediction."""


def build_case_graph(case: Case, copies: int) -> dict[str, Any]:
    """Return a graph with `copies` nodes of the op, and the node `all`, which waits for them.

    Each copy has its own tensors, because in a network, the inputs of a node are usually not in the cache.
    """
    nodes: list[dict[str, Any]] = []
    if case.op.startswith("ResourceApply"):
        return _training_graph(case, copies)
    for i, dims in enumerate(case.inputs):
        if isinstance(dims, tuple):
            nodes.append({"op": "Placeholder", "name": f"x{i}", "dtype": "float32", "shape": [copies, *dims]})
            nodes.append({"op": "Unpack", "name": f"u{i}", "inputs": [f"x{i}"], "attrs": {"num": copies, "axis": 0}})
        else:
            nodes.append({"op": "Const", "name": f"x{i}", "value": dims, "dtype": "int32"})
    for number in range(copies):
        inputs = [f"u{i}:{number}" if isinstance(dims, tuple) else f"x{i}" for i, dims in enumerate(case.inputs)]
        nodes.append({"op": case.op, "name": f"n{number}", "inputs": inputs, "attrs": dict(case.attrs)})
    return _waited_for(nodes, [f"n{number}" for number in range(copies)])


def chain_graph(count: int, op: str = "Identity") -> dict[str, Any]:
    """Return a graph of a chain of `count` nodes, and two matrix products, which a threaded session runs in a pool."""
    nodes: list[dict[str, Any]] = [{"op": "Placeholder", "name": "x0", "dtype": "float32", "shape": [4, 4]}]
    nodes += [{"op": "MatMul", "name": f"m{number}", "inputs": ["x0", "x0"]} for number in range(2)]
    nodes += [{"op": op, "name": f"n{number}", "inputs": [f"n{number - 1}" if number else "m0"]} for number in range(count)]
    return _waited_for(nodes, ["m1", f"n{count - 1}"])


def forked_graph(stages: int, width: int) -> dict[str, Any]:
    """Return a graph of `stages` stages, in each of which `width` (1 or 2) equal products follow and precede a sum."""
    rows, depth = _FORKED
    nodes: list[dict[str, Any]] = [
        {"op": "Placeholder", "name": "s0", "dtype": "float32", "shape": [rows, depth]},
        {"op": "Placeholder", "name": "w", "dtype": "float32", "shape": [depth, depth]},
    ]
    for stage in range(1, stages + 1):
        names = [f"m{stage}_{number}" for number in range(width)]
        nodes += [{"op": "MatMul", "name": name, "inputs": [f"s{stage - 1}", "w"]} for name in names]
        nodes.append({"op": "AddV2", "name": f"s{stage}", "inputs": [names[0], names[-1]]})
    return _waited_for(nodes, [f"s{stages}"])


def placeholders_graph(count: int) -> dict[str, Any]:
    """Return a graph of `count` placeholders, named from `n0`."""
    names = [f"n{number}" for number in range(count)]
    return _waited_for([{"op": "Placeholder", "name": name, "dtype": "float32", "shape": [4]} for name in names], names)


def variables_graph(count: int) -> dict[str, Any]:
    """Return a graph that reads `count` variables."""
    attrs = {"dtype": "float32", "shape": [4]}
    nodes: list[dict[str, Any]] = [{"op": "Fill", "name": "zeros", "inputs": [[4], 0.0]}]
    for number in range(count):
        nodes.append({"op": "VariableV2", "name": f"n{number}", "attrs": attrs})
        nodes.append({"op": "Assign", "name": f"set{number}", "inputs": [f"n{number}", "zeros"]})
    nodes.append({"op": "NoOp", "name": "init", "inputs": [f"^set{number}" for number in range(count)]})
    return _waited_for(nodes, [f"n{number}" for number in range(count)])


def _training_graph(case: Case, copies: int) -> dict[str, Any]:
    """Return a graph of momentum updates of `copies` variables with the shape of the case's input."""
    (dims,) = case.inputs
    assert isinstance(dims, tuple)
    nodes: list[dict[str, Any]] = [{"op": "Placeholder", "name": "x0", "dtype": "float32", "shape": list(dims)}]
    attrs = {"dtype": "float32", "shape": list(dims)}
    made = []
    for number in range(copies):
        names = [f"v{number}", f"m{number}"]
        nodes += [{"op": "VarHandleOp", "name": name, "attrs": {**attrs, "shared_name": name}} for name in names]
        nodes += [{"op": "AssignVariableOp", "name": f"set_{name}", "inputs": [name, "x0"]} for name in names]
        made += [f"set_{name}" for name in names]
        nodes.append({"op": case.op, "name": f"n{number}", "inputs": [*names, 0.1, "x0", 0.9]})
    nodes.append({"op": "NoOp", "name": "init", "inputs": [f"^{name}" for name in made]})
    return _waited_for(nodes, [f"n{number}" for number in range(copies)])


def _waited_for(nodes: list[dict[str, Any]], names: Sequence[str]) -> dict[str, Any]:
    nodes.append({"op": "NoOp", "name": "all", "inputs": [f"^{name}" for name in names]})
    return {"devices": {"cpu": 1}, "nodes": nodes}
