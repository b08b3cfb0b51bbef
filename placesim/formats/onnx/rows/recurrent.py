"""RNN, GRU and LSTM: a BlockLSTMV2 for each direction of a usual LSTM, else a `tf.while_loop` over the steps."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from placesim.core.dtypes import FLOAT, INT32, INT64
from placesim.formats.onnx.bodies import IterationResult, brought_in, repeat
from placesim.formats.onnx.folding import MOST_KNOWN, ConstantFolder, Value, int32
from placesim.formats.onnx.lists import tensor_value
from placesim.formats.onnx.onnx_node import OnnxNode, Rows, Tensor, UnsupportedNodeError, tensor_of
from placesim.formats.onnx.values import Value as Known

Activation = Callable[[OnnxNode, Tensor], Tensor]


class _Layer(NamedTuple):
    """One direction of a layer.

    `x` is `[steps, batch, inputs]`, in the order of the direction. The weights `w` are `[gates * cell, inputs]`, `r`
    `[gates * cell, cell]`; `wb` and `rb` are their biases, or None. `states` are the first h and, for an LSTM, the first c,
    each `[batch, cell]`. `lengths` has the number of steps of each sequence; None if no sequence is shorter.
    """

    x: Tensor
    w: Tensor
    r: Tensor
    wb: Tensor | None
    rb: Tensor | None
    states: list[Tensor]
    lengths: Tensor | None
    peepholes: Tensor | None
    activations: list[Activation]


class _LayerResult(NamedTuple):
    """The result of a direction: h of all steps, `[steps, batch, cell]`, and the last states."""

    y: Tensor
    last: list[Tensor]


Step = Callable[[OnnxNode, Tensor, list[Tensor], "_Weights"], list[Tensor]]
"""Function that returns the states after a step.

Its arguments are the node, the inputs' part of the gates `[batch, gates * cell]`, the states before the step, and the weights.
"""


class _Weights(NamedTuple):
    """The other operands of a step, in the loop's body."""

    r: Tensor
    rb: Tensor | None
    peepholes: Tensor | None
    activations: list[Activation]


# --- activations ----------------------------------------------------------------------------------------------------

_ACTIVATIONS: dict[str, tuple[float | None, float | None]] = {
    "Relu": (None, None),
    "Tanh": (None, None),
    "Sigmoid": (None, None),
    "Affine": (1.0, 0.0),
    "LeakyRelu": (0.01, None),
    "ThresholdedRelu": (1.0, None),
    "ScaledTanh": (1.0, 1.0),
    "HardSigmoid": (0.2, 0.5),
    "Elu": (1.0, None),
    "Softsign": (None, None),
    "Softplus": (None, None),
}
"""ONNX's activations with their default alpha and beta; None for functions without them."""


def _activations(node: OnnxNode, defaults: Sequence[str], directions: int) -> list[list[Activation]]:
    """Return the activations of each direction."""
    names = list(node.attr("activations", tuple(defaults) * directions))
    if len(names) != len(defaults) * directions:
        raise UnsupportedNodeError(f"wrong activations: got {len(names)}, expected {len(defaults) * directions}")
    known = {name.lower(): name for name in _ACTIVATIONS}
    alphas, betas = (iter(node.attr(f"activation_{name}", ())) for name in ("alpha", "beta"))
    made = []
    for name in names:
        own = known.get(str(name).lower())
        if own is None:
            raise UnsupportedNodeError(f"no such activation: got '{name}', expected one of {', '.join(_ACTIVATIONS)}")
        alpha, beta = (_next(*pair) for pair in zip((alphas, betas), _ACTIVATIONS[own], strict=True))
        made.append(_activation(own, alpha, beta, node.attr("clip")))
    return [made[index : index + len(defaults)] for index in range(0, len(made), len(defaults))]


def _next(given: Iterator[float], default: float | None) -> float:
    return 0.0 if default is None else next(given, default)


def _activation(name: str, alpha: float, beta: float, clip: float | None) -> Activation:
    def apply(node: OnnxNode, tensor: Tensor) -> Tensor:
        if clip:
            tensor = node.emit("ClipByValue", tensor, node.like(-clip, tensor), node.like(clip, tensor))
        return _applied(node, tensor, name, alpha, beta)

    return apply


def _applied(node: OnnxNode, x: Tensor, name: str, alpha: float, beta: float) -> Tensor:
    if name in ("Relu", "Tanh", "Sigmoid", "Softsign", "Softplus"):
        return node.emit(name, x)
    if name == "LeakyRelu":
        return node.emit("LeakyRelu", x, alpha=alpha)
    if name == "ScaledTanh":
        return _scaled(node, node.emit("Tanh", _scaled(node, x, beta)), alpha)
    if name == "ThresholdedRelu":
        return node.emit("SelectV2", node.emit("GreaterEqual", x, node.like(alpha, x)), x, node.like(0, x))
    if name == "Elu":
        negative = _scaled(node, node.emit("Expm1", x), alpha)
        return node.emit("SelectV2", node.emit("GreaterEqual", x, node.like(0, x)), x, negative)
    line = node.emit("AddV2", _scaled(node, x, alpha), node.like(beta, x))
    return line if name == "Affine" else node.emit("ClipByValue", line, node.like(0, x), node.like(1, x))


def _scaled(node: OnnxNode, x: Tensor, factor: float) -> Tensor:
    return x if factor == 1 else node.emit("Mul", x, node.like(factor, x))


# --- layers ---------------------------------------------------------------------------------------------------------


def _run(
    node: OnnxNode,
    gates: int,
    defaults: Sequence[str],
    step: Step,
    states: int = 1,
    operands: Sequence[Tensor] | None = None,
) -> list[Tensor]:
    """Return Y of all directions, `[steps, directions, batch, cell]`, and the last states, `[directions, batch, cell]`.

    `operands` are x, w and r of all directions, by default the first three inputs.
    """
    direction = node.attr("direction", "forward")
    ways = {"forward": [False], "reverse": [True], "bidirectional": [False, True]}.get(direction)
    if ways is None:
        raise UnsupportedNodeError(f"no such direction: got '{direction}', expected forward, reverse or bidirectional")
    batch_first = bool(node.attr("layout", 0))
    given_x, w_of_all, r_of_all = operands or (node[0], node[1], node[2])
    x = node.emit("Transpose", given_x, int32([1, 0, 2])) if batch_first else given_x
    firsts = [_first_states(node, x, index, len(ways), batch_first) for index in range(5, 5 + states)]
    weights = [_of_directions(node, each, len(ways)) for each in (w_of_all, r_of_all, node.input(3), node.input(7))]
    applied = _activations(node, defaults, len(ways))
    made = []
    for number, is_reverse in enumerate(ways):
        w, r, bias, peepholes = (each[number] for each in weights)
        assert w is not None
        assert r is not None
        wb, rb = (None, None) if bias is None else node.emit_all("Split", np.int32(0), bias, num_split=2)
        given, own_states = _reversed(node, x) if is_reverse else x, [first[number] for first in firsts]
        peepholes = peepholes if states == 2 else None
        layer = _Layer(given, w, r, wb, rb, own_states, node.input(4), peepholes, applied[number])
        ran = _block_lstm(node, layer) if node.op == "LSTM" and _is_plain(node) else _looped(node, layer, gates, step)
        made.append(ran._replace(y=_reversed(node, ran.y)) if is_reverse else ran)
    y = node.emit("Pack", [ran.y for ran in made], axis=1)
    last = [node.emit("Pack", list(each), axis=0) for each in zip(*(ran.last for ran in made), strict=True)]
    if batch_first:
        return [
            node.emit("Transpose", y, int32([2, 0, 1, 3])),
            *(node.emit("Transpose", each, int32([1, 0, 2])) for each in last),
        ]
    return [y, *last]


def _of_directions(node: OnnxNode, tensor: Tensor | None, count: int) -> Sequence[Tensor | None]:
    return [None] * count if tensor is None else node.emit_all("Unpack", tensor, num=count, axis=0)


def _first_states(node: OnnxNode, x: Tensor, index: int, count: int, batch_first: bool) -> Sequence[Tensor]:
    """Return the state of each direction before the first step: an input, or zeros."""
    given = node.input(index)
    if given is not None:
        return node.emit_all("Unpack", given, num=count, axis=1 if batch_first else 0)
    batch = node.emit("GatherV2", node.emit("Shape", x), np.int32(1), np.int32(0))
    shape = node.emit("Pack", [batch, node.constant(np.int32(_cell(node)))], axis=0)
    return [node.emit("Fill", shape, node.like(0, x))] * count


def _cell(node: OnnxNode) -> int:
    """Return the size of a state."""
    found = node.attr("hidden_size") or (node.shape(node[2]) or (None,))[-1]
    if found is None or not 0 < found <= MOST_KNOWN:
        expected = f"an attribute 'hidden_size' from 1 to {MOST_KNOWN}"
        raise UnsupportedNodeError(f"wrong size of the state: got {found}, expected {expected}")
    return int(found)


def _reversed(node: OnnxNode, tensor: Tensor) -> Tensor:
    """Return the steps of each sequence in reverse order."""
    if node.input(4) is None:
        return node.emit("ReverseV2", tensor, int32([0]))
    return node.emit("ReverseSequence", tensor, node[4], seq_dim=0, batch_dim=1)


def _sum(node: OnnxNode, first: Tensor | None, second: Tensor | None) -> Tensor | None:
    if first is None or second is None:
        return first if second is None else second
    return node.emit("AddV2", first, second)


def _steps(node: OnnxNode) -> Value:
    """Return the number of steps, an int64 scalar."""
    fold = ConstantFolder(node)
    return fold.cast(fold.sizes(node[0])[1 if node.attr("layout", 0) else 0], INT64)


# --- a loop over steps ----------------------------------------------------------------------------------------------


def _looped(node: OnnxNode, layer: _Layer, gates: int, step: Step) -> _LayerResult:
    """Add one product for the inputs' part of all gates, then a loop over the steps of the sequences."""
    cell = _cell(node)
    projected = node.emit("BatchMatMulV2", layer.x, layer.w, adj_y=True)
    # with `linear_before_reset`, a GRU's reset gate also applies to the recurrent bias
    bias = layer.wb if node.op == "GRU" and node.attr("linear_before_reset", 0) else _sum(node, layer.wb, layer.rb)
    if bias is not None:
        projected = node.emit("AddV2", projected, bias)
    states = [tensor_value(node, state, (None, cell)) for state in layer.states]
    inputs = tensor_value(node, projected, (None, None, gates * cell))

    def turn(body: OnnxNode, number: Known, flag: Known, carried: list[Known]) -> IterationResult:
        inner = _Weights(
            _brought(body, node, layer.r, (gates * cell, cell)),
            None if layer.rb is None else _brought(body, node, layer.rb, (gates * cell,)),
            None if layer.peepholes is None else _brought(body, node, layer.peepholes, (3 * cell,)),
            layer.activations,
        )
        now = body.emit("GatherV2", brought_in(body, inputs).ref, number.ref, np.int32(0))
        before = list(map(tensor_of, carried))
        after = step(body, now, before, inner)
        y = after[0]
        if layer.lengths is not None:
            lengths = body.cast(_brought(body, node, layer.lengths, (None,)), INT64)
            runs = body.emit("ExpandDims", body.emit("Less", number.ref, lengths), np.int32(1))
            after = [body.emit("SelectV2", runs, *pair) for pair in zip(after, before, strict=True)]
            y = body.emit("SelectV2", runs, y, body.like(0, y))
        kept = [tensor_value(body, state, (None, cell)) for state in after]
        return IterationResult(None, kept, [tensor_value(body, y, (None, cell))])

    steps = _steps(node)
    count = node.constant(steps, INT64) if isinstance(steps, np.ndarray) else steps
    made = repeat(node, count, None, states, turn)
    return _LayerResult(tensor_of(made.gathered[0]), list(map(tensor_of, made.carried)))


def _brought(body: OnnxNode, node: OnnxNode, tensor: Tensor, dims: tuple[int | None, ...]) -> Tensor:
    """Return a tensor of the graph around a loop, captured in the loop's body."""
    return tensor_of(brought_in(body, tensor_value(node, tensor, dims)))


def _recurrent(node: OnnxNode, state: Tensor, weights: Tensor) -> Tensor:
    return node.emit("MatMul", state, weights, transpose_b=True)


def _rnn_step(node: OnnxNode, x: Tensor, states: list[Tensor], weights: _Weights) -> list[Tensor]:
    (act,) = weights.activations
    return [act(node, node.emit("AddV2", x, _recurrent(node, states[0], weights.r)))]


def _gru_step(is_late: bool) -> Step:
    """Return the step of a GRU: the update gate mixes the candidate and the last state. `is_late`: `linear_before_reset`."""

    def step(node: OnnxNode, x: Tensor, states: list[Tensor], weights: _Weights) -> list[Tensor]:
        (h,), (gate, candidate) = states, weights.activations
        update, reset, new = node.emit_all("Split", np.int32(1), x, num_split=3)
        if is_late:
            product = _recurrent(node, h, weights.r)
            product = product if weights.rb is None else node.emit("AddV2", product, weights.rb)
            of_update, of_reset, of_new = node.emit_all("Split", np.int32(1), product, num_split=3)
            r = gate(node, node.emit("AddV2", reset, of_reset))
            kept = node.emit("Mul", r, of_new)
        else:
            r_update, r_reset, r_new = node.emit_all("Split", np.int32(0), weights.r, num_split=3)
            of_update = _recurrent(node, h, r_update)
            r = gate(node, node.emit("AddV2", reset, _recurrent(node, h, r_reset)))
            kept = _recurrent(node, node.emit("Mul", r, h), r_new)
        z = gate(node, node.emit("AddV2", update, of_update))
        found = candidate(node, node.emit("AddV2", new, kept))
        return [node.emit("AddV2", found, node.emit("Mul", z, node.emit("Sub", h, found)))]

    return step


def _lstm_step(is_coupled: bool) -> Step:
    """Return the step of an LSTM. With `is_coupled` (`input_forget`), the forget gate is 1 minus the input gate."""

    def step(node: OnnxNode, x: Tensor, states: list[Tensor], weights: _Weights) -> list[Tensor]:
        (h, c), (gate, candidate, output) = states, weights.activations
        gates = node.emit("AddV2", x, _recurrent(node, h, weights.r))
        i, o, f, new = node.emit_all("Split", np.int32(1), gates, num_split=4)
        if weights.peepholes is not None:
            peep_i, peep_o, peep_f = node.emit_all("Split", np.int32(0), weights.peepholes, num_split=3)
            i, f = (node.emit("AddV2", part, node.emit("Mul", c, peep)) for part, peep in ((i, peep_i), (f, peep_f)))
        i = gate(node, i)
        f = node.emit("Sub", node.like(1, i), i) if is_coupled else gate(node, f)
        c = node.emit("AddV2", node.emit("Mul", f, c), node.emit("Mul", i, candidate(node, new)))
        if weights.peepholes is not None:
            o = node.emit("AddV2", o, node.emit("Mul", c, peep_o))
        return [node.emit("Mul", gate(node, o), output(node, c)), c]

    return step


# --- one op for all steps -------------------------------------------------------------------------------------------


def _is_plain(node: OnnxNode) -> bool:
    """Whether BlockLSTMV2 computes the same: default activations, no clipping, no coupled gates."""
    names = [str(name).lower() for name in node.attr("activations", ())]
    usual = names in ([], ["sigmoid", "tanh", "tanh"], ["sigmoid", "tanh", "tanh"] * 2)
    own = node.computes("BlockLSTMV2", T=node.dtype(node[0]))
    return usual and own and not node.attr("clip") and not node.attr("input_forget", 0)


def _block_lstm(node: OnnxNode, layer: _Layer) -> _LayerResult:
    """Add a BlockLSTMV2. Its gates are in the order input, forget, cell, output; ONNX's are input, output, forget, cell."""
    fold, dtype = ConstantFolder(node), node.dtype(layer.x)
    w = node.emit("ConcatV2", [layer.w, layer.r], np.int32(1))
    weights = node.emit("Transpose", _reordered(node, w), int32([1, 0]))
    cell = _cell(node)
    bias = _sum(node, layer.wb, layer.rb)
    biases = node.constant(np.zeros(4 * cell, dtype.numpy), dtype) if bias is None else _reordered(node, bias)
    if layer.peepholes is None:
        nothing = node.constant(np.zeros(cell, dtype.numpy), dtype)
        peep_i, peep_o, peep_f = nothing, nothing, nothing
    else:
        peep_i, peep_o, peep_f = node.emit_all("Split", np.int32(0), layer.peepholes, num_split=3)
    steps = _steps(node)
    count = node.constant(steps, INT64) if isinstance(steps, np.ndarray) else steps
    h, c = layer.states
    peeps = layer.peepholes is not None
    _, cs, _, _, _, _, hs = node.emit_all(
        "BlockLSTMV2", count, layer.x, c, h, weights, peep_i, peep_f, peep_o, biases, cell_clip=0.0, use_peephole=peeps
    )
    if layer.lengths is None:
        last = fold("Sub", fold.cast(steps, INT32), int32(1))
        return _LayerResult(hs, [node.emit("GatherV2", each, last, np.int32(0)) for each in (hs, cs)])
    lengths = node.cast(layer.lengths, INT32)
    along = fold("Range", int32(0), fold.cast(steps, INT32), int32(1))
    runs = node.emit("Less", fold("Reshape", along, int32([-1, 1])), lengths)
    y = node.emit("SelectV2", node.emit("ExpandDims", runs, np.int32(2)), hs, node.like(0, hs))
    batch = node.emit("Range", np.int32(0), node.emit("Size", lengths), np.int32(1))
    ends = node.emit("Maximum", node.emit("Sub", lengths, np.int32(1)), np.int32(0))
    places = node.emit("Pack", [ends, batch], axis=1)
    has_steps = node.emit("ExpandDims", node.emit("Less", node.constant(np.int32(0)), lengths), np.int32(1))
    pairs = zip((hs, cs), (h, c), strict=True)
    return _LayerResult(
        y, [node.emit("SelectV2", has_steps, node.emit("GatherNd", each, places), first) for each, first in pairs]
    )


def _reordered(node: OnnxNode, gates: Tensor) -> Tensor:
    """Return the gates along the first axis in the order of BlockLSTMV2."""
    i, o, f, c = node.emit_all("Split", np.int32(0), gates, num_split=4)
    return node.emit("ConcatV2", [i, f, c, o], np.int32(0))


# --- rows -----------------------------------------------------------------------------------------------------------


def rnn(node: OnnxNode) -> list[Tensor]:
    """A `tf.while_loop` over the steps for each direction, with MatMul, AddV2 and the activation in its body."""
    return _run(node, 1, ["Tanh"], _rnn_step)


def gru(node: OnnxNode) -> list[Tensor]:
    """A `tf.while_loop` over the steps for each direction, with MatMul, Split, Mul and the activations in its body."""
    return _run(node, 3, ["Sigmoid", "Tanh"], _gru_step(bool(node.attr("linear_before_reset", 0))))


def lstm(node: OnnxNode) -> list[Tensor]:
    """BlockLSTMV2 for each direction; a `tf.while_loop` over the steps for other activations, clipping and coupled gates."""
    return _run(node, 4, ["Sigmoid", "Tanh", "Tanh"], _lstm_step(bool(node.attr("input_forget", 0))), 2)


def quantized_lstm(node: OnnxNode) -> list[Tensor]:
    """A `tf.while_loop` over the steps, as LSTM, of dequantized weights; DynamicQuantizeLinear rounds inputs and states.

    The weights are `[directions, inputs, 4 * cell]` and `[directions, cell, 4 * cell]`, with a scale for each direction or for
    each of its columns.
    """
    whole = _lstm_step(bool(node.attr("input_forget", 0)))

    def step(body: OnnxNode, x: Tensor, states: list[Tensor], weights: _Weights) -> list[Tensor]:
        h, c = states
        return whole(body, x, [_in_bytes(body, body.know_shape(h, (None, _cell(node)))), c], weights)

    operands = [_in_bytes(node, node[0]), *(_columns(node, index, scale) for index, scale in ((1, 8), (2, 10)))]
    y, *last = _run(node, 4, ["Sigmoid", "Tanh", "Tanh"], step, 2, operands)
    steps, batch, _ = node.shape(node[0]) or (None, None, None)
    dims = ((node.shape(node[1]) or (None,))[0], batch, _cell(node))
    return [node.know_shape(y, (steps, *dims)), *(node.know_shape(each, dims) for each in last)]


def _in_bytes(node: OnnxNode, tensor: Tensor) -> Tensor:
    """Return a tensor rounded to the 256 numbers of DynamicQuantizeLinear."""
    return node.apply("DequantizeLinear", *node.apply_all("DynamicQuantizeLinear", 3, tensor))


def _columns(node: OnnxNode, index: int, scale: int) -> Tensor:
    """Return the quantized weights at an index as real numbers `[directions, 4 * cell, inputs]`."""
    factors, points = (node.emit("ExpandDims", each, np.int32(-1)) for each in (node[scale], node.cast(node[scale + 1], FLOAT)))
    if node.known_rank(node[scale]) == 1:
        factors, points = (node.emit("ExpandDims", each, np.int32(-1)) for each in (factors, points))
    turned = node.emit("Transpose", node.cast(node[index], FLOAT), int32([0, 2, 1]))
    return node.emit("Mul", node.emit("Sub", turned, points), factors)


ROWS: Rows = {
    ("GRU", 3, 7, 14, 22): gru,
    ("LSTM", 1, 7, 14, 22): lstm,
    ("RNN", 1, 7, 14, 22): rnn,
    ("com.microsoft::DynamicQuantizeLSTM", 1): quantized_lstm,
}
