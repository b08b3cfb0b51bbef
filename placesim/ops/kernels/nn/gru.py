"""GRU cells: one step, and its gradient.

One matrix product with `[x, h]` gives both gates, another with `[x, reset * h]` the candidate state.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from placesim.core.errors import InvalidArgumentError
from placesim.ops.attributes import Attrs
from placesim.ops.kernels.kernel import Kernel, Table, Tensor
from placesim.ops.kernels.linalg.products import product
from placesim.ops.kernels.math.elementwise import sigmoid
from placesim.ops.kernels.memory_rules import KernelMemory, item_size
from placesim.ops.kernels.nn.cells import STEP, build_product_flops, check_dims, infer_cell
from placesim.ops.kernels.shapes import infer_by


def run_gru_cell(inputs: Sequence[Tensor], attrs: Attrs) -> Sequence[Tensor]:
    """One step: (x `[batch, inputs]`, h `[batch, cell]`, weights) -> reset, update, candidate, new h; each `[batch, cell]`.

    Raises InvalidArgumentError if ranks or sizes do not fit.
    """
    _check_gru(inputs)
    x, h_prev, w_ru, w_c, b_ru, b_c = inputs
    r, u = np.split(sigmoid(product(np.concatenate((x, h_prev), axis=1), w_ru) + b_ru), 2, axis=1)
    c = np.tanh(product(np.concatenate((x, h_prev * r), axis=1), w_c) + b_c)
    return r, u, c, u * h_prev + (1 - u) * c


def run_gru_cell_gradient(inputs: Sequence[Tensor], attrs: Attrs) -> Sequence[Tensor]:
    """The gradients of x, of the previous h, of the candidate's argument, and of both gates' arguments `[batch, 2 * cell]`.

    Raises InvalidArgumentError if ranks or sizes do not fit.
    """
    _check_gru(inputs[:6])
    x, h_prev, w_ru, w_c, _, _, r, u, c, d_h = inputs
    for name, tensor in (("r", r), ("u", u), ("c", c), ("d_h", d_h)):
        # TensorFlow's message names w_c instead of c
        if tensor.ndim != 2:
            raise InvalidArgumentError(f"Rank of {'w_c' if name == 'c' else name} must be 2, got {tensor.ndim}")
        check_dims(name, tensor, ("batch_size", "cell_size"), h_prev.shape, "dims")
    size = x.shape[1]
    d_c_bar = d_h * (1 - u) * (1 - c * c)
    d_u_bar = d_h * (h_prev - c) * u * (1 - u)
    d_xh_c = product(d_c_bar, w_c.T)
    d_hr = d_xh_c[:, size:]
    d_gates = np.concatenate((d_hr * h_prev * r * (1 - r), d_u_bar), axis=1)
    d_xh = product(d_gates, w_ru.T)
    return d_xh[:, :size] + d_xh_c[:, :size], d_xh[:, size:] + d_hr * r + d_h * u, d_c_bar, d_gates


def _check_gru(inputs: Sequence[Tensor]) -> None:
    x, h_prev, w_ru, w_c, b_ru, b_c = inputs
    if x.ndim != 2:
        raise InvalidArgumentError(f"Rank of x must be 2, got {x.ndim}")
    if h_prev.ndim != 2:
        raise InvalidArgumentError(f"Rank of h_prev must be 2, got {h_prev.ndim}")
    check_dims("h_prev", h_prev, ("batch_size",), x.shape[:1], "dims")
    size, cell = x.shape[1], h_prev.shape[1]
    # TensorFlow's message about the rank says "w_ru_", the message about sizes "w_ru"
    kernels = (("w_ru", "w_ru_", w_ru, ("cell_size * 2", 2 * cell)), ("w_c", "w_c", w_c, ("cell_size", cell)))
    for name, shown, tensor, (meaning, dim) in kernels:
        if tensor.ndim != 2:
            raise InvalidArgumentError(f"Rank of {shown} must be 2, got {tensor.ndim}")
        check_dims(name, tensor, ("input_size + cell_size", meaning), (size + cell, dim), "dim_size")
    for name, tensor, meaning, dim in (("b_ru", b_ru, "cell_size * 2", 2 * cell), ("b_c", b_c, "cell_size", cell)):
        if tensor.ndim != 1:
            raise InvalidArgumentError(f"Rank of {name} must be 1, got {tensor.ndim}")
        check_dims(name, tensor, (meaning,), (dim,), "dim_size")


def gru_memory(memory: KernelMemory) -> None:
    """The new state reuses the old one's buffer; temporaries are two copies of `[x, h]` and both gates."""
    for output in range(3):
        memory.allocate(output)
    memory.forward(3, 1)
    (batch, inputs), states = memory.inputs[0].dims, memory.inputs[1].dims[1]
    _take_rows(memory, batch, (inputs + states, inputs + states, 2 * states))


def gru_gradient_memory(memory: KernelMemory) -> None:
    """The gradients of input and state reuse the buffers of input and state."""
    memory.forward(0, 0)
    memory.forward(1, 1)
    memory.allocate(2)
    memory.allocate(3)
    (batch, inputs), states = memory.inputs[0].dims, memory.inputs[1].dims[1]
    _take_rows(memory, batch, (states, states, states, inputs + states, inputs + states))


def _take_rows(memory: KernelMemory, batch: int, columns: Sequence[int]) -> None:
    """Allocate temporaries `[batch, count]` for each count of columns."""
    dtype = memory.inputs[0].dtype
    for count in columns:
        memory.temporary(batch * count * item_size(dtype), (batch, count), dtype)


TABLE: Table = {
    "GRUBlockCell": Kernel(
        run_gru_cell, partial(infer_cell, outputs=4), build_product_flops((2, 3), 1, STEP), memory=gru_memory
    ),
    "GRUBlockCellGrad": Kernel(
        run_gru_cell_gradient,
        infer_by("[batch, inputs], [?, cell], [?, gates] -> [batch, inputs], [batch, cell], [batch, cell], [batch, gates]"),
        build_product_flops((2, 3), 1, STEP),
        memory=gru_gradient_memory,
    ),
}
