"""A node and its static shapes -> what its numpy kernel does on a host, counted in what a profile has a rate for.

A kernel is a number of numpy's passes over arrays, of products of matrices, of copies.  How work is cut into parts, and in what
runs it is copied, is asked of the kernels themselves.  What a count costs is the host's (`host_costs`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import ceil, inf, prod
from typing import NamedTuple

from placesim.dtypes import FLOAT, DType
from placesim.prediction.node_work import DISPATCHED, NodeShapes
from placesim.runtime.allocation import KEEPING
from placesim.runtime.kernels.element_parts import PART_BYTES as ELEMENT_PART_BYTES
from placesim.runtime.kernels.element_parts import part_count
from placesim.runtime.kernels.linalg.products import SUMMED, cut_of
from placesim.runtime.kernels.nn.correlation import (
    LONG_BLOCK,
    SMALL_FILTER,
    TALL_BLOCK,
    TALL_BLOCK_BYTES,
    WIDE_BLOCK_BYTES,
    blocks_of,
    mirrored,
)
from placesim.runtime.kernels.nn.depthwise import blocks_of as depthwise_blocks_of
from placesim.runtime.kernels.nn.normalization import PIXEL_BYTES
from placesim.runtime.kernels.nn.patches import is_pointwise, whole
from placesim.runtime.kernels.nn.pools import IMAGES_BYTES
from placesim.runtime.kernels.nn.windows import Window, explicit_pairs, layout_of, windows_of
from placesim.runtime.kernels.nn.winograd import blocks_of_tiles, chosen_transforms, suits
from placesim.runtime.kernels.parts import BLOCK_BYTES, shares
from placesim.runtime.kernels.state.optimizers import PART_BYTES
from placesim.runtime.process_memory import FEW_ELEMENTS

ALIASED_BYTES = 4096
"""Rows of a multiple of so many bytes lie in the same few places of a cache, and drive each other out of it."""
PRODUCT_DEPTH = 384
"""Terms of a sum that a BLAS adds before it writes the result back: between 256 and 512 in those of today."""
MAPPED_BYTES = 32 << 20
"""Arrays of more are given to the process page by page when they are made: the most that glibc's malloc keeps unasked."""
_ITEM_BYTES = 4
_COMPUTED = frozenset(("plain", "divided", "exponential", "special", "reduced", "multiplied", "packed", "accumulated"))
Dims = tuple[int, ...]


class Amounts:
    """Counts by name, and bytes that pass by, each with the bytes among which they lie: what a thread does."""

    __slots__ = ("counts", "traffic")

    def __init__(self, **counts: float) -> None:
        self.counts: dict[str, float] = counts
        self.traffic: list[tuple[float, float]] = []

    def add(self, **counts: float) -> Amounts:
        """So much more of what is named."""
        for name, count in counts.items():
            self.counts[name] = self.counts.get(name, 0.0) + count
        return self

    def stream(self, num_bytes: float, among: float | None = None) -> Amounts:
        """Bytes that are read or written once, among so many in turn (by themselves unless said)."""
        self.traffic.append((num_bytes, num_bytes if among is None else among))
        return self

    def join(self, other: Amounts, times: float = 1.0) -> Amounts:
        """What another does, so many times."""
        for name, count in other.counts.items():
            self.counts[name] = self.counts.get(name, 0.0) + count * times
        self.traffic += [(num_bytes * times, among) for num_bytes, among in other.traffic]
        return self


class Load(NamedTuple):
    """What a kernel does: `alone` in the thread that runs it, and `shared` in `parts` that an op's threads share.

    `family` is whose factor and interval it has.
    """

    family: str
    alone: Amounts
    shared: Amounts
    parts: int = 1


class Passes(NamedTuple):
    """How often a kernel goes over its elements, by what it does with them.

    `plain` is what a processor does as fast as it reads; `chosen` where each element takes one of two values, which processors
    guess; `special` what is computed one element after the other.
    """

    plain: float = 0
    divided: float = 0
    exponential: float = 0
    chosen: float = 0
    special: float = 0

    @property
    def number(self) -> float:
        return sum(self)


_ONE = Passes(plain=1)
_PASSES: Mapping[str, Passes] = {
    **dict.fromkeys(("RealDiv", "Div", "DivNoNan", "Sqrt", "Reciprocal", "Inv"), Passes(divided=1)),
    **dict.fromkeys(("FloorDiv", "FloorMod", "Mod", "TruncateDiv", "TruncateMod"), Passes(divided=3)),
    "Rsqrt": Passes(divided=2),
    **dict.fromkeys(("Exp", "Log", "Sin", "Cos", "Tanh"), Passes(exponential=1)),
    **dict.fromkeys(("Expm1", "Log1p", "Tan", "Asin", "Acos", "Atan", "Sinh", "Cosh"), Passes(exponential=2)),
    "Pow": Passes(exponential=3),
    **dict.fromkeys(("Atan2", "Asinh", "Acosh", "Atanh", "Erfc", "Erfinv", "Ndtri"), Passes(special=1)),
    **dict.fromkeys(("Lgamma", "Digamma", "Zeta", "Polygamma", "Igamma", "Igammac"), Passes(special=2)),
    "Erf": Passes(plain=24, divided=1),
    "Sigmoid": Passes(plain=2, divided=1, exponential=1),
    "TanhGrad": Passes(plain=3),
    "SigmoidGrad": Passes(plain=3),
    "SquaredDifference": Passes(plain=2),
    "ClipByValue": Passes(plain=2),
    "Relu6": Passes(plain=2),
    "ReluGrad": Passes(plain=2),
    "Relu6Grad": Passes(plain=4),
    **dict.fromkeys(("Select", "SelectV2"), Passes(chosen=1)),
    "LeakyRelu": Passes(plain=2, chosen=1),
    "LeakyReluGrad": Passes(plain=2, chosen=1),
    "Elu": Passes(plain=1, exponential=2, chosen=1),
    "EluGrad": Passes(plain=3, chosen=1),
    "Selu": Passes(plain=3, exponential=2, chosen=1),
    "SeluGrad": Passes(plain=4, chosen=1),
    "Softplus": Passes(plain=8, divided=1, exponential=2),
    "SoftplusGrad": Passes(plain=2, divided=1, exponential=1),
    "Softsign": Passes(plain=2, divided=1),
    "SoftsignGrad": Passes(plain=3, divided=1),
    "ApplyGradientDescent": Passes(plain=2),
    "ApplyMomentum": Passes(plain=4),
    "ApplyKerasMomentum": Passes(plain=4),
    "ApplyAdagrad": Passes(plain=4, divided=2),
    "ApplyAdagradV2": Passes(plain=5, divided=2),
    "ApplyRMSProp": Passes(plain=8, divided=2),
    "ApplyCenteredRMSProp": Passes(plain=12, divided=2),
    "ApplyAdadelta": Passes(plain=11, divided=4),
    "ApplyFtrl": Passes(plain=10, divided=2, special=2, chosen=1),
    "ApplyAdam": Passes(plain=9, divided=2),
    "ApplyAdaMax": Passes(plain=8, divided=1),
}
_CUT_OPS = """
    Acos Acosh Asin Asinh Atan Atanh BesselI0 BesselI0e BesselI1 BesselI1e Cosh Dawsn Digamma Elu Erf Erfc Erfinv Expint Expm1
    LeakyRelu Lgamma Log1p Ndtri Selu Sigmoid Sinh Softplus Softsign Spence Tan"""
_IN_PARTS = frozenset(_CUT_OPS.split())
"""Ops whose kernels take large tensors in parts (`element_parts`)."""
"""Passes of the kernels that take another number than one; each is counted in the kernel's own expression."""
_TEMPORARY = 3
"""Arrays that a further pass reads and writes: two operands and a result."""
_COPIES = frozenset(
    ("Pad", "PadV2", "MirrorPad", "ConcatV2", "Concat", "Pack", "Tile", "Fill", "ZerosLike", "OnesLike", "BroadcastTo", "Slice",
     "StridedSlice", "Assign", "AssignAdd", "AssignSub", "AssignVariableOp", "Cast", "Copy", "DeepCopy", "SplitV", "Split")
)  # fmt: skip
_VIEWS = frozenset(("Split", "SplitV", "Unpack", "Slice", "StridedSlice", "Assign", "AssignVariableOp"))
"""Kernels that give parts of their input's memory."""


def host_load(node: NodeShapes) -> Load | None:
    """What the node's kernel does; None where that is nothing."""
    if node.op in DISPATCHED or not node.moved_bytes:
        return None
    rule = rule_of(node.op)
    if min((prod(dims) for dims in (*node.inputs, *node.outputs)), default=0) == 0:
        return Load("elementwise", Amounts(call=1), Amounts())
    load = rule(node)
    if node.op not in _VIEWS:
        for dims in node.outputs:
            size = prod(dims) * node.dtype.size
            if size > MAPPED_BYTES:  # a page is given to the thread that first writes to it
                (load.shared if load.parts > 1 else load.alone).add(new=size)
    _take_type(node, load)
    return _with_check(node, load)


def _take_type(node: NodeShapes, load: Load) -> None:
    """What another type than float32 makes of the counts, which are those of float32.

    A processor computes half as many of twice the size at once; halves are widened first, and rounded at the end; BLAS has no
    integers, which numpy multiplies one by one.
    """
    wider = node.dtype.size / _ITEM_BYTES
    for amounts in (load.alone, load.shared):
        if node.dtype.is_floating or node.dtype.is_complex:
            for name in _COMPUTED & amounts.counts.keys():
                amounts.counts[name] *= max(1.0, wider)
        elif "multiplied" in amounts.counts:
            amounts.add(plain=amounts.counts.pop("multiplied"))
    if node.dtype.is_floating and wider < 1:
        load.alone.add(plain=sum(prod(dims) for dims in (*node.inputs, *node.outputs)))


def _with_check(node: NodeShapes, load: Load) -> Load:
    """With the executor's look at how large the outputs become, where they could be large."""
    sizes = [prod(dims) for dims in node.inputs]
    is_unary = rule_of(node.op) is _elementwise and len(sizes) == 1
    if node.op not in KEEPING and (sizes[0] if is_unary else sum(sizes) ** 2) > FEW_ELEMENTS:
        load.alone.add(checked=1)
    return load


def rule_of(op: str) -> Callable[[NodeShapes], Load]:
    """What says what an op's kernel does: of one that is not known, that of elementwise ones."""
    return _RULES.get(op, _elementwise)


# --- passes over elements ---------------------------------------------------------------------------------------------


def _elementwise(node: NodeShapes) -> Load:
    """Passes over all elements; an op that is not known makes one."""
    if node.op in _VIEWS:
        return Load("elementwise", Amounts(call=2 + len(node.outputs)), Amounts())
    passes = _PASSES.get(node.op, _ONE)
    elements = max(map(prod, node.outputs), default=0) or max(map(prod, node.inputs))
    if node.op in _IN_PARTS:
        return _in_parts("elementwise", passes, elements, node)
    amounts = _passes(passes, elements, node)
    amounts.add(run=_runs(node))
    return Load("copy" if node.op in _COPIES else "elementwise", amounts, Amounts())


def _in_parts(family: str, passes: Passes, elements: int, node: NodeShapes, **counts: float) -> Load:
    """Passes over the parts of a tensor, and so much more of what is named; the result is put in its place."""
    parts = part_count(elements * node.dtype.size)
    if parts < 2:
        return Load(family, _passes(passes, elements, node).add(**counts), Amounts())
    shared = _passes(passes._replace(plain=passes.plain + 1), elements, node, ELEMENT_PART_BYTES)
    return Load(family, Amounts(call=4), shared.add(call=(parts - 1) * passes.number).add(**counts), parts)


def _passes(passes: Passes, elements: int, node: NodeShapes, part_bytes: float = inf) -> Amounts:
    """`part_bytes`: of what the passes go over one after the other before they take the next part."""
    amounts = Amounts(call=passes.number)
    amounts.add(**{name: count * elements for name, count in passes._asdict().items() if count})
    amounts.stream(node.moved_bytes)
    if passes.number > 1:
        size = _TEMPORARY * elements * node.dtype.size
        amounts.stream((passes.number - 1) * size, min(part_bytes * _TEMPORARY, max(size, node.moved_bytes)))
    return amounts


def _runs(node: NodeShapes) -> float:
    """How many inner loops numpy makes: as many as rows, where a row is what no operand stretches along."""
    if not node.outputs:
        return 1
    out = node.outputs[0]
    length, merged = 1, [tuple(reversed(dims)) for dims in node.inputs if prod(dims) > 1 and len(dims) <= len(out)]
    for axis, dim in enumerate(reversed(out)):
        kinds = {axis < len(dims) and dims[axis] == dim for dims in merged}
        if dim != 1 and kinds == {True, False} and length > 1:
            break
        length *= dim
    return prod(out) / max(1, length)


def _applied(node: NodeShapes) -> Load:
    """An optimizer's update: large variables part by part, which the op's threads share, in their own memory."""
    elements = max(map(prod, node.inputs))
    passes = _PASSES[node.op.removeprefix("Resource")]
    size = elements * node.dtype.size
    arrays = sum(prod(dims) == elements for dims in node.inputs)
    held = 2 * arrays - 1  # all are read, and all but the gradient written
    if size <= PART_BYTES:
        amounts = _passes(passes, elements, node)
        return Load("optimizer", amounts.add(call=3 * len(node.inputs)), Amounts())
    parts = ceil(size / PART_BYTES)
    shared = Amounts(call=parts * passes.number)
    shared.add(**{name: count * elements for name, count in passes._asdict().items() if count})
    shared.stream(passes.number * _TEMPORARY * size, _TEMPORARY * PART_BYTES).stream(held * size)
    alone = Amounts(call=3 * len(node.inputs))
    return Load("optimizer", alone, shared, parts)


def _softmax(node: NodeShapes) -> Load:
    """Largest, difference, exponential, sum and quotient of each row."""
    *_, columns = node.inputs[0]
    elements = prod(node.inputs[0])
    passes = Passes(plain=2, exponential=1)
    return _in_parts("softmax", passes, elements, node, call=4, reduced=2 * elements, row=2 * elements / columns)


def _reduction(node: NodeShapes) -> Load:
    """Rows that are summed to a number each, or to each other."""
    elements, made = prod(node.inputs[0]), max(1, prod(node.outputs[0]))
    amounts = Amounts(call=3, reduced=elements).stream(node.moved_bytes)
    return Load("reduction", amounts.add(row=min(made, elements / made)), Amounts())


def _bias_gradient(node: NodeShapes) -> Load:
    """The sums of columns, as a product with ones."""
    elements = prod(node.inputs[0])
    return Load("reduction", Amounts(call=3, plain=elements / 3).stream(node.moved_bytes), Amounts())


def _transpose(node: NodeShapes) -> Load:
    """A view."""
    return Load("elementwise", Amounts(call=3), Amounts())


def _gather(node: NodeShapes) -> Load:
    """Rows that lie anywhere: what is taken is read and written, the rest of the table lies still."""
    made = prod(node.outputs[0])
    row = max(1, prod(node.inputs[0][1:]))
    amounts = Amounts(call=4, plain=made, gathered=made / row)
    return Load(
        "gather", amounts.stream(2.0 * made * node.dtype.size, float(prod(node.inputs[0]) * node.dtype.size)), Amounts()
    )


def _random(node: NodeShapes) -> Load:
    made = prod(node.outputs[0])
    return Load("random", Amounts(call=20, random=made).stream(node.moved_bytes), Amounts())


def _batch_normalization(is_gradient: bool) -> Callable[[NodeShapes], Load]:
    """Passes over rows of channels; sums are products with ones."""

    def load(node: NodeShapes) -> Load:
        tensor = node.inputs[0]
        elements, channels = prod(tensor), prod(node.inputs[2 if is_gradient else 1])
        passes = 3 + 4 * bool(node.attrs.get("is_training", True))
        amounts = _passes(Passes(plain=passes + 3 * is_gradient), elements, node)
        amounts.add(call=12, run=3 * elements / channels)
        if channels != tensor[-1]:  # channels first are moved to the end, and back
            amounts.add(copied=(2 + is_gradient) * elements)
        return Load("batch normalization", amounts, Amounts())

    return load


def _local_normalization(is_gradient: bool) -> Callable[[NodeShapes], Load]:
    """LRN: squares, sums of neighbours, a power of each; some pixels after the other, which the op's threads share."""

    def load(node: NodeShapes) -> Load:
        elements, channels = prod(node.inputs[0]), node.inputs[0][-1]
        parts = max(1, ceil(elements * node.dtype.size / PIXEL_BYTES))
        if is_gradient:
            sums = 4 * min(node.attrs["depth_radius"], channels - 1) + 2
            passes = Passes(plain=8 + sums, divided=1, exponential=3)
            shared = _passes(passes, elements, node, PIXEL_BYTES).add(run=sums * elements / channels)
        else:
            passes = Passes(plain=5, exponential=3)
            pixels = max(1, elements // channels // parts)
            shared = _passes(passes, elements, node, PIXEL_BYTES)
            shared.join(_product_parts((pixels, channels), channels, node.dtype.size, is_flat=False)[0], parts)
        shared.add(call=(parts - 1) * passes.number)
        return Load("local normalization", Amounts(call=6), shared, parts)

    return load


# --- products ---------------------------------------------------------------------------------------------------------


def _product_parts(
    shape: Sequence[int], depth: int, item: int, is_flat: bool, batch: int = 1, lengths: tuple[int, int] | None = None
) -> tuple[Amounts, int]:
    """Products `[..., rows, columns]` of so many terms a sum, in the parts that each is cut into: (all of them, their number).

    BLAS packs both operands and writes the result for each piece of depth; a part packs its share of the one that is cut, and
    all of the other.  `lengths` are those of the operands' rows as they lie in memory, where they lie transposed.
    """
    parts, axis = cut_of(shape, depth, is_flat)
    rows, columns = shape[-2], shape[-1]
    left, right = rows * depth, depth * columns
    pieces = ceil(depth / PRODUCT_DEPTH) if axis != SUMMED else parts * ceil(depth / parts / PRODUCT_DEPTH)
    is_cut = axis in (-2, -1, SUMMED)
    lefts, rights = (parts if axis == -1 else 1), (parts if axis == -2 else 1)
    amounts = Amounts(
        call=batch * (parts if is_cut else 1),
        multiplied=float(batch * rows * columns * depth),
        packed=batch * (left * lefts + right * rights),
        accumulated=batch * rows * columns * pieces,
    )
    lengths = lengths or (depth, columns)
    for elements, times, length in ((left, lefts, lengths[0]), (right, rights, lengths[1])):
        if not length * item % ALIASED_BYTES and elements > length:
            amounts.add(aliased=batch * times * elements)
    if axis == SUMMED:
        amounts.add(plain=batch * (parts - 1) * rows * columns)
    return amounts, parts


def _product_part(rows: int, columns: int, depth: int) -> Amounts:
    """A product in one thread."""
    outputs = max(1, rows) * columns
    packed = max(1, rows) * depth + depth * columns
    return Amounts(call=1, multiplied=float(outputs * depth), packed=packed, accumulated=outputs * ceil(depth / PRODUCT_DEPTH))


def _matrices(first: str, second: str) -> Callable[[NodeShapes], Load]:
    """A product of matrices; attrs of these names say which side is transposed."""

    def load(node: NodeShapes) -> Load:
        left, shape = node.inputs[0], node.outputs[0]
        depth = left[-2] if node.attrs.get(first) else left[-1]
        batch = prod(shape[:-2])
        lengths = left[-1], node.inputs[1][-1]
        shared, parts = _product_parts(shape, depth, node.dtype.size, len(shape) == 2, batch, lengths)
        shared.stream(node.moved_bytes)
        return Load("product", Amounts(call=2), shared, parts)

    return load


# --- convolutions -----------------------------------------------------------------------------------------------------


class _Convolution(NamedTuple):
    images: Dims
    filters: Dims
    results: Dims
    windows: tuple[Window, ...]
    item: int

    @property
    def length(self) -> int:
        """Elements of a patch."""
        return prod(self.filters[:-1])

    @property
    def pixels(self) -> int:
        return prod(self.results[:-1])

    @property
    def runs(self) -> int:
        """Pieces of all patches that lie side by side in the images."""
        return self.pixels * prod(self.filters[:-3])

    @property
    def is_pointwise(self) -> bool:
        return is_pointwise(self.windows)

    def patches(self, share: float = 1.0) -> Amounts:
        """Copying patches, or adding them back."""
        return Amounts(copied=share * self.pixels * self.length, piece=share * self.runs)

    def blocks(self, shape: Dims) -> int:
        return len(blocks_of(shape, self.windows, self.length, self.item))


def _convolution_of(node: NodeShapes, images: Dims, filters: Dims, results: Dims) -> _Convolution:
    """With channels last, as the kernels have it; raises InvalidArgumentError for windows that don't fit."""
    spatial = len(filters) - 2
    layout = layout_of(node.attrs.get("data_format", "NHWC"), spatial)
    attrs = node.attrs
    windows = windows_of(
        layout.pick(images),
        filters[:-2],
        layout.pick(attrs["strides"]),
        layout.pick(attrs["dilations"]) if attrs.get("dilations") else (1,) * spatial,
        attrs["padding"],
        explicit_pairs(attrs, layout) if "explicit_paddings" in attrs else (),
    )
    images, results = ((dims[0], *layout.pick(dims), dims[layout.channel]) for dims in (images, results))
    return _Convolution(images, filters, results, windows, node.dtype.size)


def _in_tiles(
    c: _Convolution, dtype: DType, windows: Sequence[Window], depth: int, channels: int, is_filter: bool = False
) -> tuple[Amounts, int] | None:
    """(transforms and products, parts) of a convolution in tiles from so many channels to so many; None if it is none.

    `is_filter`: of the gradient of its filter, for which tiles of the output are transformed as well, and not back.
    """
    batch = c.images[0]
    if dtype is not FLOAT or not suits(windows, batch, depth, channels, dtype.numpy):
        return None
    chosen = chosen_transforms(windows, batch, depth, channels)
    tile, factors, taps = chosen.tile, chosen.factors, windows[0].kernel
    covering = [window._replace(outputs=ceil(window.outputs / tile) * tile) for window in windows]
    tiles, cells, made = batch * prod(window.outputs // tile for window in covering), tile + taps - 1, factors**2
    parts = len(blocks_of_tiles(batch, covering, tile, made * (depth + channels)))
    if is_filter:
        inner, _ = _product_parts((depth, channels), tiles, c.item, is_flat=False)
        amounts = Amounts(call=40 * parts).join(inner, made)
    else:
        inner, _ = _product_parts((max(1, tiles // parts), channels), depth, c.item, is_flat=False)
        amounts = Amounts(call=40 * parts).join(inner, made * parts)
    # along rows, then along columns: from cells to factors, and from factors to outputs or the reverse
    amounts.add(
        multiplied=float(tiles * factors * (depth * cells * (tile + factors) + channels * tile * (tile + factors)))
        + float(made * taps**2 * depth * channels),
        piece=tiles * (2 * factors + tile),
    )
    numbers = 2 * made * tiles * (depth + channels) * c.item
    return amounts.stream(numbers, numbers if is_filter else numbers / parts), parts


def _forward(node: NodeShapes) -> Load:
    c = _convolution_of(node, node.inputs[0], node.inputs[1], node.outputs[0])
    groups = max(1, c.images[-1] // c.filters[-2])
    columns = c.filters[-1] // groups
    if found := _in_tiles(c, node.dtype, c.windows, c.filters[-2], columns):
        shared, parts = found
        alone = Amounts(call=20)
    elif c.is_pointwise:
        shared, parts = _product_parts((c.pixels, columns), c.length, c.item, is_flat=True)
        alone = Amounts(call=12)
        if any(window.stride > 1 for window in c.windows):
            alone.add(copied=c.pixels * c.length, piece=c.pixels)
    else:
        alone = Amounts(call=20)
        if c.pixels < columns:  # the patches are one block, whose product is cut
            shared, parts = _product_parts((c.pixels, columns), c.length, c.item, is_flat=True)
            alone.join(c.patches())
        else:
            parts = c.blocks((*c.results[:-1], columns))
            inner = _product_part(c.pixels // parts, columns, c.length)
            shared = Amounts(call=10 * parts).join(inner, parts).join(c.patches())
    shared.stream(node.moved_bytes)
    if groups > 1:
        shared = Amounts().join(shared, groups)
    return Load("convolution", alone, shared, parts)


def _filter_gradient(node: NodeShapes) -> Load:
    c = _convolution_of(node, node.inputs[0], node.outputs[0], node.inputs[2])
    columns = c.filters[-1]
    if found := _in_tiles(c, node.dtype, c.windows, c.filters[-2], columns, is_filter=True):
        shared, parts = found
        alone = Amounts(call=20)
    elif c.is_pointwise:
        shared, parts = _product_parts((c.length, columns), c.pixels, c.item, is_flat=True)
        alone = Amounts(call=12)
    elif c.length * columns <= SMALL_FILTER:
        parts = c.blocks(c.results)
        inner = _product_part(c.length, columns, max(1, c.pixels // parts))
        shared = Amounts(call=10 * parts).join(inner, parts).join(c.patches())
        alone = Amounts(call=20, plain=parts * c.length * columns)
    else:
        patches = max(TALL_BLOCK, TALL_BLOCK_BYTES // (c.length * c.item))
        blocks = len(whole(c.windows, c.images[0]).cut(ceil(c.pixels / patches)))
        inner, parts = _product_parts((c.length, columns), max(1, c.pixels // blocks), c.item, is_flat=True)
        shared = Amounts(call=20 * blocks).join(inner, blocks).join(c.patches())
        alone = Amounts(call=20, plain=blocks * c.length * columns)
        alone.stream(blocks * _TEMPORARY * c.length * columns * c.item, _TEMPORARY * c.length * columns * c.item)
    shared.stream(node.moved_bytes)
    return Load("convolution filter gradient", alone, shared, parts)


def _input_gradient(node: NodeShapes) -> Load:
    c = _convolution_of(node, node.outputs[0], node.inputs[1], node.inputs[2])
    columns = c.results[-1]
    if found := _in_tiles(c, node.dtype, mirrored(c.windows), columns, c.filters[-2]):
        shared, parts = found
        alone = Amounts(call=20)
    elif c.is_pointwise:
        shared, parts = _product_parts((c.pixels, c.length), columns, c.item, is_flat=True)
        alone = Amounts(call=12)
        if any(window.stride > 1 for window in c.windows):
            alone.add(copied=c.pixels * c.length, piece=c.pixels)
    else:
        has_short_runs = len(c.windows) > 1 and c.windows[-1].kernel * c.filters[-2] < c.windows[-1].outputs
        count = c.blocks(c.results)
        parts = len(whole(c.windows, c.images[0]).cut(min(c.images[0], count)))
        rows = c.results[0] // parts * prod(c.results[2:-1]) or 1
        block_bytes = max(WIDE_BLOCK_BYTES if has_short_runs else BLOCK_BYTES, LONG_BLOCK * c.length * c.item)
        pieces = min(c.results[1], ceil(c.results[1] * rows * c.length * c.item / block_bytes)) or 1
        inner, _ = _product_parts((max(1, rows * c.results[1] // pieces), c.length), columns, c.item, is_flat=True)
        added = prod(window.kernel for window in c.windows[:-1])
        shared = Amounts(call=parts * pieces * (10 + 3 * added)).join(inner, parts * pieces)
        # a piece is read, added to what is there, and that written: twice a copy
        shared.add(added=c.pixels * c.length)
        shared.add(added_piece=c.pixels * c.length / c.windows[-1].outputs if has_short_runs else c.runs)
        alone = Amounts(call=20)
    shared.stream(node.moved_bytes)
    return Load("convolution input gradient", alone, shared, parts)


# --- windows over channels --------------------------------------------------------------------------------------------


def _depthwise(kind: str) -> Callable[[NodeShapes], Load]:
    """Each tap is a pass that adds products to sums, in runs of a row of windows or, with a stride, of a window's channels."""

    def load(node: NodeShapes) -> Load:
        images, filters, results = (*node.inputs[:2], node.outputs[0])
        if kind == "input":
            images, results = node.outputs[0], node.inputs[2]
        elif kind == "filter":
            filters, results = node.outputs[0], node.inputs[2]
        c = _convolution_of(node, images, filters, results)
        channels = c.results[-1]
        taps, made = prod(c.filters[:2]), prod(c.results)
        widened = (*c.images[:-1], channels)
        if kind == "input":  # the cells a stride apart are a correlation of their own, of the output's gradients
            phases = prod(min(window.stride, window.kernel) for window in c.windows)
            blocks, run = phases * len(depthwise_blocks_of(c.results, c.windows, c.item)), c.results[2] * channels
        else:
            phases, blocks = 1, len(depthwise_blocks_of(widened, c.windows, c.item))
            run = channels * (c.windows[1].outputs if c.windows[1].stride == 1 else 1)
        shared = Amounts(call=blocks * 12, run=taps * made / run)
        shared.add(plain=taps * made, copied=prod(widened), piece=prod(widened[:2]))
        # cells and the filter's row are read, and a sum is read and written
        shared.stream(4 * taps * made * c.item, 2 * made * c.item / blocks)
        alone = Amounts(call=20)
        if channels != c.images[-1]:
            alone.add(copied=prod(widened), piece=prod(c.images))
        return Load("depthwise", alone, shared.stream(node.moved_bytes), max(1, blocks // phases))

    return load


def _pooling(op: str) -> Callable[[NodeShapes], Load]:
    """Each tap of the window is a pass over all windows of some images."""

    def load(node: NodeShapes) -> Load:
        is_gradient = op.endswith("Grad")
        results = node.outputs[0]
        images = node.inputs[0]
        if is_gradient:
            images, results = node.outputs[0], node.inputs[-1]
        layout = layout_of(node.attrs.get("data_format", "NHWC"), len(images) - 2)
        sizes = layout.pick(node.attrs["ksize"])
        taps, made = prod(sizes), prod(results)
        walked = results if op == "AvgPoolGrad" else images
        parts = min(walked[0], shares(ceil(prod(walked) * node.dtype.size / IMAGES_BYTES)))
        runs = prod(results[:-1]) if node.attrs["strides"][-2] > 1 else prod(results[:-2])
        # compared, spread to all bits of a number (in two), taken, left, added
        steps = {"MaxPoolGrad": 6.0, "AvgPoolGrad": 1.0}.get(op, 1.0)
        shared = Amounts(call=taps * parts * (1 + steps), plain=taps * steps * made, run=taps * steps * runs)
        image = (prod(images) + prod(results)) / parts * node.dtype.size
        shared.stream(taps * steps * _TEMPORARY * made * node.dtype.size, image)
        alone = Amounts(call=20)
        if op == "MaxPoolGrad":  # the largest cells are found again first
            shared.add(plain=taps * made, run=taps * runs).stream(taps * _TEMPORARY * made * node.dtype.size, image)
            alone.add(plain=2 * prod(images))
        return Load("pooling gradient" if is_gradient else "pooling", alone, shared.stream(node.moved_bytes), parts)

    return load


_RULES: Mapping[str, Callable[[NodeShapes], Load]] = {
    "MatMul": _matrices("transpose_a", "transpose_b"),
    **dict.fromkeys(("BatchMatMul", "BatchMatMulV2", "BatchMatMulV3"), _matrices("adj_x", "adj_y")),
    **dict.fromkeys(("Conv2D", "Conv3D"), _forward),
    **dict.fromkeys(("Conv2DBackpropInput", "Conv3DBackpropInputV2"), _input_gradient),
    **dict.fromkeys(("Conv2DBackpropFilter", "Conv3DBackpropFilterV2"), _filter_gradient),
    "DepthwiseConv2dNative": _depthwise("forward"),
    "DepthwiseConv2dNativeBackpropInput": _depthwise("input"),
    "DepthwiseConv2dNativeBackpropFilter": _depthwise("filter"),
    **{op: _pooling(op) for op in ("MaxPool", "AvgPool", "MaxPoolGrad", "AvgPoolGrad", "MaxPool3D", "AvgPool3D")},
    **dict.fromkeys(("FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3"), _batch_normalization(is_gradient=False)),
    **dict.fromkeys(
        ("FusedBatchNormGrad", "FusedBatchNormGradV2", "FusedBatchNormGradV3"), _batch_normalization(is_gradient=True)
    ),
    "LRN": _local_normalization(is_gradient=False),
    "LRNGrad": _local_normalization(is_gradient=True),
    **dict.fromkeys(("Softmax", "LogSoftmax"), _softmax),
    **dict.fromkeys(
        ("Sum", "Mean", "Prod", "Max", "Min", "All", "Any", "EuclideanNorm", "ArgMax", "ArgMin", "L2Loss"), _reduction
    ),
    "BiasAddGrad": _bias_gradient,
    **dict.fromkeys(("Transpose", "ConjugateTranspose"), _transpose),
    **dict.fromkeys(("Gather", "GatherV2", "ResourceGather", "GatherNd"), _gather),
    **dict.fromkeys(
        ("RandomUniform", "RandomStandardNormal", "TruncatedNormal", "StatelessRandomUniform", "StatelessRandomNormal"), _random
    ),
    **{name: _applied for op in _PASSES if op.startswith("Apply") for name in (op, f"Resource{op}")},
}
