"""Loads of kernels that pass over the elements of whole tensors or of rows, or that copy or gather data."""

from __future__ import annotations

from collections.abc import Callable
from math import ceil, inf, prod

from placesim.ops.kernels import has_direct_form, is_numpy_function
from placesim.ops.kernels.blocks.elementwise_blocks import PART_BYTES as ELEMENT_PART_BYTES
from placesim.ops.kernels.blocks.elementwise_blocks import part_count
from placesim.ops.kernels.cost_model import Passes
from placesim.ops.kernels.nn.activations import ROW
from placesim.ops.kernels.nn.normalization import PIXEL_BYTES
from placesim.ops.kernels.state.optimizers import PART_BYTES
from placesim.prediction.host_loads.load import IN_PLACE, TEMPORARY, Amounts, Load
from placesim.prediction.host_loads.products import product_parts
from placesim.prediction.node_work import NodeShapes

REDUCING_CALLS = 12
"""Time to begin a reduction of numpy, relative to the time to begin an elementwise function."""
COPYING_CALLS = 25
"""Time to begin a copy of several arrays or of parts of them, relative to the time to begin an elementwise function."""


CODE_CALLS, DIRECT_CALLS = 5, 3
"""Time of the code around the passes of a kernel, and of a kernel that the executor calls directly, in numpy calls."""


def is_direct(node: NodeShapes) -> bool:
    """Return whether the executor calls the kernel as a function of one or two small tensors."""
    return len(node.inputs) in (1, 2) and has_direct_form(node.op)


def _code_calls(op: str) -> int:
    """Return the time of the code around a kernel's passes, in numpy calls."""
    if is_numpy_function(op):
        return 0
    return DIRECT_CALLS if has_direct_form(op) else CODE_CALLS


def elementwise(node: NodeShapes) -> Load:
    """Return the load of passes over all elements; a view has no load."""
    kind, passes = node.cost.kind, node.cost.passes
    if kind == "view":
        return Load("elementwise", Amounts(call=2 + len(node.outputs)), Amounts())
    elements = max(map(prod, node.outputs), default=0) or max(map(prod, node.inputs))
    if kind == "cut":
        return _in_parts("elementwise", passes, elements, node)
    amounts = _passes(passes._replace(plain=passes.plain + passes.compared, compared=0), elements, node)
    amounts.add(run=_runs(node), call=_code_calls(node.op))
    if kind == "copy":
        amounts.add(call=COPYING_CALLS)
    if passes.compared and _has_single_number(node):
        amounts.add(compared=passes.compared * elements)
    return Load("copy" if kind == "copy" else "elementwise", amounts, Amounts())


def _has_single_number(node: NodeShapes) -> bool:
    """Return whether a kernel compares a tensor with a single number; Relu compares a large tensor with rows of zeros."""
    sizes = [prod(dims) for dims in node.inputs]
    return sizes[0] < ROW if len(sizes) == 1 else min(sizes) == 1


def _in_parts(family: str, passes: Passes, elements: int, node: NodeShapes, **counts: float) -> Load:
    """Return the load of passes that process a tensor part by part, with additional `counts` of work."""
    parts = part_count(elements * node.dtype.size)
    if parts < 2:
        counts["call"] = counts.get("call", 0) + _code_calls(node.op)
        return Load(family, _passes(passes, elements, node).add(**counts), Amounts())
    shared = _passes(passes._replace(plain=passes.plain + 1), elements, node, ELEMENT_PART_BYTES)
    return Load(family, Amounts(call=4), shared.add(call=(parts - 1) * passes.number).add(**counts), parts)


def _passes(passes: Passes, elements: int, node: NodeShapes, part_bytes: float = inf, operands: float = TEMPORARY) -> Amounts:
    """Return the work of several passes over the elements, each of which reads and writes `operands` arrays.

    All passes finish one part of `part_bytes` bytes before the next part starts.
    """
    amounts = Amounts(call=passes.number)
    amounts.add(**{name: count * elements for name, count in passes._asdict().items() if count})
    amounts.touch(node)
    if passes.number > 1:
        size = operands * elements * node.dtype.size
        amounts.stream((passes.number - 1) * size, min(part_bytes * TEMPORARY, max(size, node.accessed_bytes)))
    return amounts


def _runs(node: NodeShapes) -> float:
    """Return the number of runs of numpy's inner loop; in one run, every operand is contiguous or a single repeated element."""
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


def optimizer_update(node: NodeShapes) -> Load:
    """Return the load of an optimizer's update.

    The op's threads divide a large variable into parts; each thread computes a part in temporary arrays of its own.
    """
    elements = max(map(prod, node.inputs))
    passes = node.cost.passes
    size = elements * node.dtype.size
    calls = 10 + 5 * len(node.inputs)
    arrays = sum(prod(dims) == elements for dims in node.inputs)
    accessed = 2 * arrays - 1  # all arrays are read, and all but the gradient are written
    if size <= PART_BYTES:
        amounts = _passes(passes, elements, node, operands=IN_PLACE)
        return Load("optimizer", amounts.add(call=calls), Amounts())
    parts = ceil(size / PART_BYTES)
    shared = Amounts(call=parts * passes.number)
    shared.add(**{name: count * elements for name, count in passes._asdict().items() if count})
    shared.stream(passes.number * IN_PLACE * size, TEMPORARY * PART_BYTES).stream(
        accessed * size, max(accessed * size, node.step_bytes)
    )
    return Load("optimizer", Amounts(call=calls), shared, parts)


def softmax(node: NodeShapes) -> Load:
    """Return the load of a softmax: maximum, difference, exponential, sum and quotient of each row."""
    passes = Passes(plain=2, exponential=1)
    return _in_parts(
        "softmax", passes, prod(node.inputs[0]), node, call=6 + 2 * REDUCING_CALLS, **_rows(node, reduced=2, run=2)
    )


def cross_entropy(node: NodeShapes) -> Load:
    """Return the load of a cross-entropy with its gradient: a softmax, and a pass over labels or an index of each row.

    Rows of labels are widened, multiplied and added up; indices are checked.
    """
    has_rows = len(node.inputs[1]) > 1
    passes = Passes(plain=6 if has_rows else 2, divided=1, exponential=1)
    counts = _rows(node, reduced=3 if has_rows else 2, run=2)
    amounts = _passes(passes, prod(node.inputs[0]), node).add(call=(46 if has_rows else 38) + 2 * REDUCING_CALLS, **counts)
    return Load("softmax", amounts, Amounts())


def _rows(node: NodeShapes, reduced: int, run: int) -> dict[str, float]:
    """Return the counts of `reduced` sums or maxima of each row, and of `run` passes that each begin anew with each row."""
    elements = prod(node.inputs[0])
    rows = elements / node.inputs[0][-1]
    return {"reduced": reduced * elements, "row": reduced * rows, "run": run * rows}


def reduction(node: NodeShapes) -> Load:
    """Return the load of reducing rows to single elements, or of adding up rows."""
    dims, made = node.inputs[0], node.outputs[0]
    elements, kept = prod(dims), sum(dim > 1 for dim in made)
    amounts = Amounts(call=7 + REDUCING_CALLS, compared=node.cost.passes.compared * elements).touch(node)
    if made and made[-1] == dims[-1] and kept:
        return Load("reduction", amounts.add(plain=elements, row=elements / dims[-1]), Amounts())
    length = elements if not kept else dims[-1]
    return Load("reduction", amounts.add(reduced=elements, row=elements / length), Amounts())


def bias_gradient(node: NodeShapes) -> Load:
    """Return the load of summing columns; the kernel computes the sums as a product with ones."""
    elements = prod(node.inputs[0])
    return Load("reduction", Amounts(call=14, plain=elements).touch(node), Amounts())


def transpose(node: NodeShapes) -> Load:
    """Return the load of a transpose, which is only a view."""
    return Load("elementwise", Amounts(call=12), Amounts())


def gather(node: NodeShapes) -> Load:
    """Return the load of gathering rows: the kernel reads and writes these rows, and does not touch the rest of the table."""
    made, size = node.touched_elements, node.dtype.size
    amounts = Amounts(call=20, plain=made, gathered=made / max(1, prod(node.inputs[0][1:])))
    return Load("gather", amounts.stream(2.0 * made * size, float(prod(node.inputs[0]) * size)), Amounts())


def scatter(node: NodeShapes) -> Load:
    """Return the load of updating rows of variables: the kernel gathers these rows, computes new ones, and writes them back."""
    access, made, size = node.cost.access, node.touched_elements, node.dtype.size
    assert access is not None
    accesses = 2 * access.tensors
    amounts = _passes(node.cost.passes, made, node)
    amounts.add(call=4 * accesses, plain=accesses * made, gathered=accesses * made / max(1, prod(node.inputs[0][1:])))
    amounts.stream(float(accesses * made * size), float(access.tensors * prod(node.inputs[0]) * size))
    return Load("gather", amounts, Amounts())


def random_numbers(node: NodeShapes) -> Load:
    made = prod(node.outputs[0])
    return Load("random", Amounts(call=260, random=made * node.cost.passes.plain).touch(node), Amounts())


def batch_normalization(is_gradient: bool) -> Callable[[NodeShapes], Load]:
    """Return a rule for batch normalization: it counts passes over rows of channels, and a sum as a product with ones."""

    def load(node: NodeShapes) -> Load:
        tensor = node.inputs[0]
        elements, channels = prod(tensor), prod(node.inputs[2 if is_gradient else 1])
        passes = 3 + 4 * bool(node.attrs.get("is_training", True))
        amounts = _passes(Passes(plain=passes + 3 * is_gradient), elements, node)
        amounts.add(call=60 + 25 * (passes > 3) + 25 * is_gradient, run=3 * elements / channels)
        if channels != tensor[-1]:  # a channels-first tensor is converted to channels-last and back
            amounts.add(copied=(2 + is_gradient) * elements)
        return Load("batch normalization", amounts, Amounts())

    return load


def local_normalization(is_gradient: bool) -> Callable[[NodeShapes], Load]:
    """Return a rule for LRN: squares, sums of neighbours, and a power of each sum; the op's threads share the pixels."""

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
            shared.join(product_parts((pixels, channels), channels, node.dtype.size, is_flat=False)[0], parts)
        shared.add(call=(parts - 1) * passes.number)
        return Load("local normalization", Amounts(call=90 if is_gradient else 40), shared, parts)

    return load
