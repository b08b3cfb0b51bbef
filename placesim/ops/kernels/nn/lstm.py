"""LSTM: a cell (one step), whole sequences, and the gradients of both.

One matrix product with `[x, h]` gives a cell's gates, `[batch, 4 * cell]`. Their order is input, cell, forget, output (ICFO).
In the second version of the sequence ops, it is input, forget, cell, output (IFCO).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np

from placesim.core.errors import InvalidArgumentError
from placesim.ops.attributes import Attrs
from placesim.ops.kernels.cost_model import CostModel
from placesim.ops.kernels.kernel import Kernel, Table, Tensor
from placesim.ops.kernels.linalg.products import product
from placesim.ops.kernels.math.elementwise import sigmoid
from placesim.ops.kernels.memory_rules import ALIGNMENT, KernelMemory, item_size
from placesim.ops.kernels.nn.cells import SEQUENCE, STEP, build_product_flops, check_dims, infer_cell
from placesim.ops.kernels.shapes import Dims, ShapeContext, divide_dim, infer_by, multiply_dims, with_rank


class _Weights(NamedTuple):
    """Weights: `w` `[inputs + cell, 4 * cell]`, three peepholes `[cell]` and the bias `[4 * cell]`."""

    w: Tensor
    wci: Tensor
    wcf: Tensor
    wco: Tensor
    b: Tensor


class _Step(NamedTuple):
    """Results of an LSTM step, each `[batch, cell]`."""

    i: Tensor
    cs: Tensor
    f: Tensor
    o: Tensor
    ci: Tensor
    co: Tensor
    h: Tensor


class _StepGradient(NamedTuple):
    """The gradients of a step's previous cell state, gates and peepholes."""

    cs_prev: Tensor
    gates: Tensor
    wci: Tensor
    wcf: Tensor
    wco: Tensor


class _Layout(NamedTuple):
    """Positions of the cell and forget gates among the four; the input gate is first, the output gate last."""

    cell: int
    forget: int


_ICFO, _IFCO = _Layout(1, 2), _Layout(2, 1)


# --- one step -------------------------------------------------------------------------------------------------------


def _step(x: Tensor, cs_prev: Tensor, h_prev: Tensor, weights: _Weights, attrs: Attrs, layout: _Layout) -> _Step:
    gates = np.split(product(np.concatenate((x, h_prev), axis=1), weights.w) + weights.b, 4, axis=1)
    peephole = attrs["use_peephole"]
    i_gate = gates[0] + cs_prev * weights.wci if peephole else gates[0]
    # the second version of the sequence op has no attr for this
    f_gate = gates[layout.forget] + x.dtype.type(attrs.get("forget_bias", 0.0))
    f_gate = f_gate + cs_prev * weights.wcf if peephole else f_gate
    i, ci, f = sigmoid(i_gate), np.tanh(gates[layout.cell]), sigmoid(f_gate)
    cs = i * ci + f * cs_prev
    clip = attrs["cell_clip"]
    if clip > 0:
        cs = np.clip(cs, -clip, clip)
    # the output gate's peephole reads the new cell state, the other peepholes read the previous one
    o = sigmoid(gates[3] + cs * weights.wco if peephole else gates[3])
    co = np.tanh(cs)
    return _Step(i, cs, f, o, ci, co, o * co)


def _step_gradient(
    cs_prev: Tensor,
    step: _Step,
    cs_grad: Tensor,
    h_grad: Tensor,
    weights: _Weights,
    peephole: bool,
    layout: _Layout,
) -> _StepGradient:
    # as in TensorFlow, the gradient ignores the clipping of the cell state
    i, cs, f, o, ci, co, _ = step
    d_o = o * (1 - o) * h_grad * co
    d_cs = (1 - co * co) * h_grad * o + cs_grad
    if peephole:
        d_cs = d_cs + d_o * weights.wco
    d_ci, d_f, d_i = (1 - ci * ci) * d_cs * i, f * (1 - f) * d_cs * cs_prev, i * (1 - i) * d_cs * ci
    gates = [d_i, d_i, d_i, d_o]
    gates[layout.cell], gates[layout.forget] = d_ci, d_f
    # the peepholes of the input and forget gates read the previous cell state
    d_cs_prev = d_cs * f
    if not peephole:
        return _StepGradient(d_cs_prev, np.concatenate(gates, axis=1), *map(np.zeros_like, weights[1:4]))
    d_cs_prev = d_cs_prev + d_i * weights.wci + d_f * weights.wcf
    peepholes = (np.sum(d_i * cs_prev, axis=0), np.sum(d_f * cs_prev, axis=0), np.sum(d_o * cs, axis=0))
    return _StepGradient(d_cs_prev, np.concatenate(gates, axis=1), *peepholes)


def _widened(tensors: Sequence[Tensor]) -> list[Tensor]:
    """Convert half precision to float32, in which it is computed."""
    return [tensor.astype(np.float32, copy=False) for tensor in tensors]


def _narrowed(tensors: Sequence[Tensor], attrs: Attrs) -> list[Tensor]:
    return [tensor.astype(attrs["T"].numpy, copy=False) for tensor in tensors]


def run_lstm_cell(inputs: Sequence[Tensor], attrs: Attrs) -> Sequence[Tensor]:
    """One step: (x `[batch, inputs]`, cs and h `[batch, cell]`, weights) -> i, cs, f, o, ci, co and h, each `[batch, cell]`.

    Raises InvalidArgumentError if sizes or ranks do not fit, or the cell state has no elements.
    """
    x, cs_prev, h_prev, *weights = inputs
    _check_cell(x, cs_prev, h_prev, _Weights(*weights), attrs["use_peephole"])
    x, cs_prev, h_prev, *weights = _widened(inputs)
    return _narrowed(_step(x, cs_prev, h_prev, _Weights(*weights), attrs, _ICFO), attrs)


def run_lstm_cell_gradient(inputs: Sequence[Tensor], attrs: Attrs) -> Sequence[Tensor]:
    """The gradients of the previous cell state, of the gates `[batch, 4 * cell]`, and of the peepholes `[cell]`.

    Raises the errors of `run_lstm_cell`, and InvalidArgumentError for results of the step that are not `[batch, cell]`.
    """
    x, cs_prev, h_prev, *weights = inputs[:8]
    _check_cell(x, cs_prev, h_prev, _Weights(*weights), attrs["use_peephole"])
    _check_step(inputs[8:], cs_prev.shape)
    x, cs_prev, h_prev, *rest = _widened(inputs)
    i, cs, f, o, ci, co, cs_grad, h_grad = rest[5:]
    step = _Step(i, cs, f, o, ci, co, h_prev)
    gradient = _step_gradient(cs_prev, step, cs_grad, h_grad, _Weights(*rest[:5]), attrs["use_peephole"], _ICFO)
    return _narrowed(gradient, attrs)


def _check_step(tensors: Sequence[Tensor], shape: Sequence[int]) -> None:
    """Check that the step's results and their gradients have the state's shape."""
    for name, tensor in zip(("i", "cs", "f", "o", "ci", "co"), tensors[:6], strict=True):
        check_dims(name, tensor, ("batch_size",), shape[:1], "dim_size")
        # TensorFlow's message about f names i
        columns = "i" if name == "f" else name
        if tensor.ndim >= 2 and tensor.shape[1] != shape[1]:
            raise InvalidArgumentError(f"{columns}.dim_size(1) != cell_size: {tensor.shape[-1]} vs. {shape[1]}")
    for name, tensor in zip(("cs_grad", "h_grad"), tensors[6:], strict=True):
        check_dims(f"{name}_tensor", tensor, ("batch_size", "cell_size"), shape, "dims")
    for name, tensor in zip(("i", "cs", "f", "o", "ci", "co", "cs_grad", "h_grad"), tensors, strict=True):
        if tensor.ndim != 2:
            raise InvalidArgumentError(f"{name}_tensor must be rank 2 but is rank {tensor.ndim}.")


def _check_cell(x: Tensor, cs_prev: Tensor, h_prev: Tensor, weights: _Weights, peephole: bool) -> None:
    """Check sizes, then ranks; unused peepholes may have any size."""
    # TensorFlow's order: the size of an axis that a tensor lacks is not checked, but its rank is checked later
    batch, inputs, cell = *_first_dims("x", x), _first_dims("cs_prev", cs_prev)[1]
    check_dims("cs_prev", cs_prev, ("batch_size", "cell_size"), (batch, cell), "dims")
    check_dims("h_prev", h_prev, ("batch_size", "cell_size"), (batch, cell), "dims")
    check_dims("w", weights.w, ("input_size + cell_size", "cell_size * 4"), (inputs + cell, 4 * cell), "dim_size")
    check_dims("b", weights.b, ("cell_size * 4",), (4 * cell,), "dim_size")
    matrices = (("x", x, 2), ("cs_prev", cs_prev, 2), ("h_prev", h_prev, 2), ("w", weights.w, 2))
    peepholes = (("wci", weights.wci), ("wcf", weights.wcf), ("wco", weights.wco))
    for name, tensor, rank in (*matrices, *((name, tensor, 1) for name, tensor in peepholes), ("b", weights.b, 1)):
        if tensor.ndim != rank:
            raise InvalidArgumentError(f"{name}_tensor must be rank {rank} but is rank {tensor.ndim}.")
    for name, tensor in peepholes if peephole else ():
        check_dims(name, tensor, ("cell_size",), (cell,), "dim_size")
    # only the cell state must have elements; an x without elements is computed
    if cs_prev.size == 0:
        raise InvalidArgumentError(f"cs_prev_tensor is empty, has shape: ({batch},{cell}).")


def _first_dims(name: str, tensor: Tensor) -> tuple[int, int]:
    if tensor.ndim < 2:
        raise InvalidArgumentError(f"{name}_tensor must be rank 2 but is rank {tensor.ndim}.")
    return tensor.shape[0], tensor.shape[1]


# --- sequences ------------------------------------------------------------------------------------------------------


def run_lstm(inputs: Sequence[Tensor], attrs: Attrs, layout: _Layout) -> Sequence[Tensor]:
    """A whole sequence: x `[time, batch, inputs]`, initial state and weights -> all steps' outputs, each `[time, batch, cell]`.

    The outputs after the first `seq_len_max` steps are zero. Raises InvalidArgumentError for shapes that do not fit.
    """
    _check_sequence(inputs)
    x, cs, h, *weights = _widened(inputs[1:])
    outputs = np.zeros((7, *x.shape[:2], cs.shape[1]), x.dtype)
    for time in range(int(inputs[0])):
        step = _step(x[time], cs, h, _Weights(*weights), attrs, layout)
        outputs[:, time] = step
        cs, h = step.cs, step.h
    return _narrowed(list(outputs), attrs)


def run_lstm_gradient(inputs: Sequence[Tensor], attrs: Attrs, layout: _Layout) -> Sequence[Tensor]:
    """The gradients of a sequence's x, initial cs and h, w, peepholes and b. Raises InvalidArgumentError for other shapes."""
    _check_sequence_gradient(inputs, attrs["use_peephole"])
    x, cs_first, h_first, *rest = _widened(inputs[1:])
    weights = _Weights(*rest[:5])
    i, cs, f, o, ci, co, h, cs_grad, h_grad = rest[5:]
    d_x, d_weights = np.zeros_like(x), [np.zeros_like(part) for part in weights]
    d_cs, d_h = np.zeros_like(cs_first), np.zeros_like(h_first)
    for time in reversed(range(int(inputs[0]))):
        cs_prev, h_prev = (cs[time - 1], h[time - 1]) if time else (cs_first, h_first)
        step = _Step(i[time], cs[time], f[time], o[time], ci[time], co[time], h[time])
        gradient = _step_gradient(
            cs_prev, step, cs_grad[time] + d_cs, h_grad[time] + d_h, weights, attrs["use_peephole"], layout
        )
        d_xh = product(gradient.gates, weights.w.T)
        d_x[time], d_h = d_xh[:, : x.shape[2]], d_xh[:, x.shape[2] :]
        d_cs = gradient.cs_prev
        xh = np.concatenate((x[time], h_prev), axis=1)
        parts = (product(xh.T, gradient.gates), *gradient[2:], np.sum(gradient.gates, axis=0))
        for total, part in zip(d_weights, parts, strict=True):
            total += part
    return _narrowed((d_x, d_cs, d_h, *d_weights), attrs)


def _check_length(length: Tensor) -> None:
    if length.ndim != 0:
        raise InvalidArgumentError(f"`seq_len_max_tensor` must be rank 0 but is rank {length.ndim}")


def _check_sequence(inputs: Sequence[Tensor]) -> None:
    length, x, cs_prev, *rest = inputs
    _check_length(length)
    if x.ndim != 3:
        raise InvalidArgumentError("x must be 3D")
    if cs_prev.ndim != 2:
        raise InvalidArgumentError("cs_prev must be 2D")
    batch, inputs_size, cell = x.shape[1], x.shape[2], cs_prev.shape[1]
    rows: tuple[tuple[str, Sequence[str], Sequence[int], str], ...] = (
        ("cs_prev", ("batch_size", "cell_size"), (batch, cell), "dims"),
        ("h_prev", ("batch_size", "cell_size"), (batch, cell), "dims"),
        ("w", ("input_size + cell_size", "cell_size * 4"), (inputs_size + cell, 4 * cell), "dim_size"),
        ("wci", ("cell_size",), (cell,), "dim_size"),
        ("wcf", ("cell_size",), (cell,), "dim_size"),
        ("wco", ("cell_size",), (cell,), "dim_size"),
        ("b", ("cell_size * 4",), (4 * cell,), "dim_size"),
    )
    for tensor, (name, meanings, dims, word) in zip((cs_prev, *rest), rows, strict=True):
        if tensor.ndim != len(dims):
            raise InvalidArgumentError(f"{name} must be {len(dims)}D")
        check_dims(name, tensor, meanings, dims, word)
    _check_steps_in(length, x)


def _check_steps_in(length: Tensor, x: Tensor) -> None:
    if not 0 <= int(length) <= len(x):
        raise InvalidArgumentError(f"seq_len_max ({int(length)}) must be in [0, {len(x)}]")


def _check_sequence_gradient(inputs: Sequence[Tensor], peephole: bool) -> None:
    """Check ranks and the sizes of the weights, then the shapes of the steps' results and gradients."""
    length, x, cs_prev, h_prev, w, wci, wcf, wco, b, *steps = inputs
    _check_length(length)
    for name, tensor, rank in (("x", x, 3), ("cs_prev", cs_prev, 2), ("h_prev", h_prev, 2), ("w", w, 2)):
        if tensor.ndim != rank:
            raise InvalidArgumentError(f"{name} must be rank {rank} but is rank {tensor.ndim}")
    # here TensorFlow takes the cell's size from the weights, not from the cell state
    cell = w.shape[1] // 4
    rows = x.shape[2] + cell
    if rows != len(w):
        raise InvalidArgumentError(f"w matrix rows don't match: {rows} vs. {len(w)}")
    for name, tensor in (("wci", wci), ("wcf", wcf), ("wco", wco), ("b", b)):
        if tensor.ndim != 1:
            raise InvalidArgumentError(f"{name} must be rank 1 but is rank {tensor.ndim}")
    # TensorFlow does not check the columns, and reads memory beyond the weights
    check_dims("w", w, ("input_size + cell_size", "cell_size * 4"), (rows, 4 * cell), "dim_size")
    if len(b) // 4 != cell:
        raise InvalidArgumentError(f"w and b cell_size don't match: {cell} vs. {len(b)}")
    names = ("i", "cs", "f", "o", "ci", "co", "h", "cs_grad", "h_grad")
    for name, tensor in zip(names, steps, strict=True):
        if tensor.ndim != 3:
            raise InvalidArgumentError(f"{name} must be rank 3. Received: {tensor.ndim}")
    for name, tensor in zip(names, steps, strict=True):
        check_dims(name, tensor, ("timelen", "batch_size", "cell_size"), (*x.shape[:2], cell), "dim_size")
    for name, tensor in (("cs_prev", cs_prev), ("h_prev", h_prev)):
        check_dims(name, tensor, ("batch_size", "cell_size"), (x.shape[1], cell), "dims")
    for name, tensor in (("wci", wci), ("wcf", wcf), ("wco", wco)) if peephole else ():
        check_dims(name, tensor, ("cell_size",), (cell,), "dim_size")
    check_dims("b", b, ("cell_size * 4",), (4 * cell,), "dim_size")
    _check_steps_in(length, x)


# --- shape functions and memory -------------------------------------------------------------------------------------


def _infer_cell_gradient(context: ShapeContext) -> Sequence[Dims]:
    (batch, _), (_, cell) = with_rank(context.shapes[0], 2), with_rank(context.shapes[1], 2)
    return (batch, cell), (batch, multiply_dims(cell, 4)), (cell,), (cell,), (cell,)


def _infer_sequence(context: ShapeContext) -> Sequence[Dims]:
    x, b = with_rank(context.shapes[1], 3), with_rank(context.shapes[8], 1)
    return ((x[0], x[1], divide_dim(b[0], 4)),) * 7


def lstm_cell_memory(memory: KernelMemory) -> None:
    """The input gate reuses the buffer of the old h, and the output gate that of the old cell state."""
    memory.forward(0, 2)
    memory.allocate(1)
    memory.allocate(2)
    memory.forward(3, 1)
    for output in range(4, 7):
        memory.allocate(output)
    (batch, inputs), cells, dtype = memory.inputs[0].dims, memory.outputs[1].dims[1], memory.outputs[1].dtype
    for columns in (inputs + cells, 4 * cells):
        memory.temporary(batch * columns * item_size(dtype), (batch, columns), dtype)


def lstm_cell_gradient_memory(memory: KernelMemory) -> None:
    """The old cell state's gradient reuses the buffer of `cs_grad`; the peepholes' gradients reuse the peepholes' buffers."""
    memory.forward(0, 14)
    memory.allocate(1)
    for output, weights in ((2, 4), (3, 5), (4, 6)):
        memory.forward(output, weights)
    for _ in range(5):
        memory.temporary_like(memory.outputs[0])


def lstm_memory(memory: KernelMemory) -> None:
    """The outputs, temporaries, and copies of the steps' slices that are not aligned for Eigen (`_copy_slices`)."""
    for output in range(7):
        memory.allocate(output)
    _, batch, inputs = memory.inputs[1].dims
    state, row = _row_bytes(memory, memory.inputs[2].dims[1]), _row_bytes(memory, inputs)
    memory.temporary(batch * (row + state))
    memory.temporary(4 * batch * state)
    # (bytes, steps back): x, the previous cs and h, and seven outputs; the first step's previous cs and h are no slices
    slices = [(batch * row, 0), *[(batch * state, 1)] * 2, *[(batch * state, 0)] * 7]
    _copy_slices(memory, range(int(memory.value(0))), slices)


def lstm_gradient_memory(memory: KernelMemory) -> None:
    """Like the forward pass, but from the last step to the first."""
    for output in range(8):
        memory.allocate(output)
    _, batch, inputs = memory.inputs[1].dims
    state, row = batch * _row_bytes(memory, memory.inputs[2].dims[1]), batch * _row_bytes(memory, inputs)
    for size in (row + state, row + state, *[state] * 5, 4 * state, state, state):
        memory.temporary(size)
    slices = [(row, 0), *[(state, 1)] * 2, *[(state, 0)] * 8, (row, 0)]
    _copy_slices(memory, range(int(memory.value(0)) - 1, -1, -1), slices)


def _row_bytes(memory: KernelMemory, columns: int) -> int:
    return columns * item_size(memory.inputs[1].dtype)


def _copy_slices(memory: KernelMemory, steps: Iterable[int], slices: Sequence[tuple[int, int]]) -> None:
    """Allocate one temporary for each kind of slice (bytes, steps back) at the first step whose slice is unaligned."""
    waiting = [(size, back) for size, back in slices if size % ALIGNMENT]
    for step in steps:
        if not waiting:
            break
        unaligned = [(size, back) for size, back in waiting if step > back and (step - back) * size % ALIGNMENT]
        for size, back in unaligned:
            memory.temporary(size)
            waiting.remove((size, back))


_SEQUENCE = Kernel(
    partial(run_lstm, layout=_ICFO),
    _infer_sequence,
    build_product_flops((4,), 1, SEQUENCE, 1),
    memory=lstm_memory,
    cost=CostModel("recurrent"),
)
_SEQUENCE_GRADIENT = Kernel(
    partial(run_lstm_gradient, layout=_ICFO),
    infer_by("*, x:3, c:2, h:2, w:2, i:1, f:1, o:1, b:1 -> x, c, h, w, i, f, o, b"),
    build_product_flops((4,), 2, SEQUENCE, 1),
    memory=lstm_gradient_memory,
    cost=CostModel("recurrent gradient"),
)

TABLE: Table = {
    "BlockLSTM": _SEQUENCE,
    "BlockLSTMGrad": _SEQUENCE_GRADIENT,
    "BlockLSTMGradV2": _SEQUENCE_GRADIENT._replace(compute=partial(run_lstm_gradient, layout=_IFCO)),
    "BlockLSTMV2": _SEQUENCE._replace(compute=partial(run_lstm, layout=_IFCO)),
    "LSTMBlockCell": Kernel(
        run_lstm_cell, partial(infer_cell, outputs=7), build_product_flops((3,), 1, STEP), memory=lstm_cell_memory
    ),
    "LSTMBlockCellGrad": Kernel(run_lstm_cell_gradient, _infer_cell_gradient, memory=lstm_cell_gradient_memory),
}
