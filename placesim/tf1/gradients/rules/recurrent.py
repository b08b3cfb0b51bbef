"""Gradients of ops that compute a step of a recurrent cell, or a sequence of steps."""

from __future__ import annotations

from typing import Any

from placesim.tf1.gradients.registry import GradientFunction, attrs_of
from placesim.tf1.graphs.tensor import Operation, Tensor
from placesim.tf1.importing.namespaces import namespace
from placesim.tf1.ops.generated_functions import gen

tf = namespace("")


def _sequence(op: Operation, *grads: object) -> list[Any]:
    """Gradient of BlockLSTM: one op, which reads all inputs and outputs of the forward op."""
    # TensorFlow uses it for BlockLSTMV2 too, although its gates have another order.
    attrs = attrs_of(op, ("use_peephole",))
    return [None, *gen("BlockLSTMGrad")(*op.inputs, *op.outputs, grads[1], grads[6], **attrs)]


def lstm_step(op: Operation, *grads: object) -> list[Any]:
    """Gradient of LSTMBlockCell, registered by TensorFlow 1's contrib."""
    x, cs_prev, h_prev, w, wci, wcf, wco, b = op.inputs
    i, cs, f, o, ci, co, _ = op.outputs
    found = gen("LSTMBlockCellGrad")(
        *(x, cs_prev, h_prev, w, wci, wcf, wco, b, i, cs, f, o, ci, co, grads[1], grads[6]),
        use_peephole=op.get_attr("use_peephole"),
    )
    width = x.shape.with_rank(2).as_list()[1]
    both = tf.matmul(found.dicfo, w, transpose_b=True)
    x_grad = tf.slice(both, (0, 0), (x.shape.as_list()[0] or -1, width))
    h_grad = tf.slice(both, (0, width), (h_prev.shape.as_list()[0] or -1, h_prev.shape.as_list()[1]))
    w_grad = tf.matmul(tf.concat([x, h_prev], 1), found.dicfo, transpose_a=True)
    b_grad = gen("BiasAddGrad")(found.dicfo)
    peepholes = (found.wci_grad, found.wcf_grad, found.wco_grad)
    return [x_grad, found.cs_prev_grad, h_grad, w_grad, *peepholes, b_grad]


def gru_step(op: Operation, *grads: object) -> list[Any]:
    """Gradient of GRUBlockCell, registered by TensorFlow 1's contrib."""
    x, h_prev, w_ru, w_c, b_ru, b_c = op.inputs
    r, u, c, _ = op.outputs
    found = gen("GRUBlockCellGrad")(x, h_prev, w_ru, w_c, b_ru, b_c, r, u, c, grads[3])

    def products(inputs: Tensor, gates: object) -> tuple[Any, Any]:
        return tf.matmul(tf.concat([x, inputs], 1), gates, transpose_a=True), gen("BiasAddGrad")(gates)

    w_ru_grad, b_ru_grad = products(h_prev, found.d_r_bar_u_bar)
    w_c_grad, b_c_grad = products(h_prev * r, found.d_c_bar)
    return [found.d_x, found.d_h_prev, w_ru_grad, w_c_grad, b_ru_grad, b_c_grad]


GRADIENTS: dict[str, GradientFunction] = {"BlockLSTM": _sequence, "BlockLSTMV2": _sequence}
