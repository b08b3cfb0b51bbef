"""Connectionist temporal classification of dense labels: forwards and backwards over the frames, in two loops of functions.

A sequence of n labels has 2(n + 1) states: a start and one for each label, and the blanks after each of these.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from placesim.ops.attributes import FunctionName
from placesim.tf1.array.shaping import size_along
from placesim.tf1.functions.calls import call
from placesim.tf1.functions.defun import Defun
from placesim.tf1.gradients.custom import custom_gradient
from placesim.tf1.graphs.graph import get_default_graph
from placesim.tf1.graphs.tensor import Tensor
from placesim.tf1.graphs.tensor_likes import TensorLike
from placesim.tf1.importing.namespaces import namespace
from placesim.tf1.ops.conversion import convert_to_tensor
from placesim.tf1.ops.generated_functions import gen
from placesim.tf1.types import dtypes

tf = namespace("")


def ctc_loss_dense(
    labels: TensorLike,
    logits: Any,
    label_length: TensorLike,
    logit_length: TensorLike,
    logits_time_major: bool = True,
    blank_index: int = 0,
    name: str | None = None,
) -> Any:
    """Losses `[batch]` of `logits [frames, batch, classes]` for `labels [batch, most labels]`."""
    with tf.name_scope(name, "ctc_loss_dense", [logits, labels, label_length, logit_length]):
        logits, labels = convert_to_tensor(logits, name="logits"), convert_to_tensor(labels, name="labels")
        label_length = convert_to_tensor(label_length, name="label_length")
        logit_length = convert_to_tensor(logit_length, name="logit_length")
        dtype = logits.dtype
        is_half = dtypes.is_half(dtype)
        if is_half:
            logits = tf.cast(logits, tf.float32)
        if not logits_time_major:
            logits = tf.transpose(logits, perm=[1, 0, 2])
        if blank_index != 0:
            # below, the blank is the first class
            if blank_index < 0:
                blank_index += size_along(logits, 2)
            blank = logits[:, :, blank_index : blank_index + 1]
            logits = tf.concat([blank, logits[:, :, :blank_index], logits[:, :, blank_index + 1 :]], axis=2)
            labels = tf.where(labels < blank_index, labels + 1, labels)

        @custom_gradient
        def loss_of(logits: Tensor, labels: Tensor, label_length: Tensor, logit_length: Tensor) -> tuple[Any, Any]:
            loss, gradient = _loss_and_gradient(logits, labels, label_length, logit_length)

            def grad(of_loss: Tensor) -> list[Any]:
                return [tf.reshape(of_loss, [1, -1, 1]) * gradient, None, None, None]

            return loss, grad

        loss = loss_of(logits, labels, label_length, logit_length)
        return tf.cast(loss, dtype) if is_half else loss


def _loss_and_gradient(logits: Tensor, labels: Tensor, label_length: Tensor, logit_length: Tensor) -> tuple[Any, Any]:
    classes, most_labels = size_along(logits, 2), size_along(labels, 1)
    of_labels = tf.nn.log_softmax(logits)
    observed = _states_of_labels(labels, classes, of_labels)
    transitions = _transitions(labels)
    first, last = _first_and_last(label_length, most_labels)
    of_states, likelihood = _forwards_and_backwards(tf.log(transitions), first, last, observed, logit_length)
    after = _labels_of_states(labels, classes, of_states)
    gradient = tf.exp(of_labels) - tf.exp(after)
    mask = tf.sequence_mask(logit_length, size_along(logits, 0), tf.float32)
    gradient *= tf.expand_dims(tf.transpose(mask, perm=[1, 0]), axis=2)
    return -likelihood, gradient


def _states_of_labels(labels: Tensor, classes: Tensor | int, of_labels: Tensor) -> Any:
    """Log probabilities of states `[frames, batch, states]`, from log probabilities of labels `[frames, batch, classes]`."""
    count = size_along(labels, 1)
    blanks = tf.tile(of_labels[:, :, :1], [1, 1, count + 1])
    one_hot = tf.expand_dims(tf.one_hot(labels, depth=classes), axis=0)
    of_states = tf.reduce_sum(tf.expand_dims(of_labels, axis=2) * one_hot, axis=3)
    of_states = tf.concat([of_states, blanks], axis=2)
    return tf.pad(of_states, [[0, 0], [0, 0], [1, 0]], constant_values=tf.log(0.0))


def _labels_of_states(labels: Tensor, classes: Tensor | int, of_states: Tensor) -> Any:
    """Log probabilities of labels, from log probabilities of states."""
    count = size_along(labels, 1) + 1
    label_states, blank_states = of_states[:, :, 1:count], of_states[:, :, count:]
    one_hot = tf.one_hot(labels - 1, depth=classes - 1, on_value=0.0, off_value=tf.log(0.0))
    one_hot = tf.expand_dims(one_hot, axis=0)
    label_states = tf.expand_dims(label_states, axis=3)
    of_labels = tf.reduce_logsumexp(label_states + one_hot, axis=2)
    of_blank = tf.reduce_logsumexp(blank_states, axis=2, keepdims=True)
    return tf.concat([of_blank, of_labels], axis=-1)


def _transitions(labels: Tensor) -> Any:
    """Matrices `[batch, states, states]` with ones for possible transitions."""
    with tf.name_scope("ctc_state_trans"):
        labels = convert_to_tensor(labels, name="label_seq")
        batch, count = size_along(labels, 0), size_along(labels, 1) + 1
        states = 2 * count
        label_states = tf.range(count)
        blank_states = label_states + count
        to_labels = tf.stack([label_states[1:], blank_states[:-1]], 1)
        to_blanks = tf.stack([blank_states, label_states], 1)
        places = tf.concat([[[1, 0]], to_labels, to_blanks], 0)
        found = tf.scatter_nd(places, tf.ones([size_along(places, 0)]), shape=[states, states])
        found += tf.eye(states)  # each state may last
        # a label follows another at once only if they differ
        zeros = tf.compat.v2.zeros_like(label_states[2:])
        places = tf.stack([zeros, label_states[2:], label_states[1:-1]], 1)
        places = tf.tile(tf.expand_dims(places, 0), [batch, 1, 1])
        numbers = tf.expand_dims(tf.range(batch), 1) * [1, 0, 0]
        places += tf.expand_dims(numbers, 1)
        repeats = tf.equal(labels[:, :-1], labels[:, 1:])
        values = 1.0 - tf.cast(repeats, tf.float32)
        between = tf.scatter_nd(places, values, [batch, states, states])
        return tf.expand_dims(found, 0) + between


def _first_and_last(lengths: Tensor, most_labels: Tensor | int) -> tuple[Any, Any]:
    """Log probabilities of the states before the first frame and after the last frame."""
    batch, count = size_along(lengths, 0), most_labels + 1
    states = 2 * count
    log_zero = tf.cast(tf.log(tf.cast(0, tf.float64) + 1e-307), tf.float32)
    first = tf.one_hot(tf.zeros([batch], dtype=tf.int32), depth=states, on_value=0.0, off_value=log_zero, axis=1)
    ends = tf.one_hot(lengths, depth=count, axis=0)
    mask = tf.ones([2, 1, batch]) * ends
    last = (1.0 - mask) * log_zero
    return first, tf.transpose(tf.reshape(last, [states, batch]))


def _forwards_and_backwards(
    transitions: Tensor, first: Tensor, last: Tensor, observed: Tensor, lengths: Tensor
) -> tuple[Any, Any]:
    """Log probabilities of states `[frames, batch, states]`, and log likelihoods `[batch]`."""
    back = tf.transpose(transitions, [0, 2, 1])
    batch = size_along(observed, 1)

    def step(state: Tensor, matrices: Tensor, seen: Tensor | None = None) -> tuple[Any, Any]:
        state = tf.expand_dims(state, axis=1)
        state += matrices
        state = tf.reduce_logsumexp(state, axis=-1)
        if seen is not None:
            state += seen
        total = tf.reduce_logsumexp(state, axis=-1, keepdims=True)
        return state - total, total

    def forwards(states: Sequence[Any], frame: Sequence[Any]) -> list[Any]:
        return [step(states[0], transitions, frame[0])[0]]

    def backwards(states: Sequence[Any], frame: Sequence[Any]) -> list[Any]:
        (state, sums), (seen, mask) = states, frame
        state, total = step(state + seen, back)
        sums += tf.squeeze(total, axis=[-1]) * mask
        mask = tf.expand_dims(mask, axis=1)
        kept = state * mask
        kept += last * (1.0 - mask)
        return [kept, sums]

    (ahead,) = _scan(forwards, [observed], [first])
    zeros = tf.zeros([batch])
    mask = tf.transpose(tf.sequence_mask(lengths, size_along(observed, 0), tf.float32), perm=[1, 0])
    behind, sums = _scan(backwards, [observed, mask], [last, zeros], reverse=True)
    found = ahead[1:] + behind[1:]
    found -= tf.reduce_logsumexp(found, axis=2, keepdims=True)
    found += tf.log(tf.expand_dims(mask, axis=2))
    return found, behind[0, :, 0] + sums[0]


def _scan(fn: Callable[..., Any], elements: list[Any], initial: list[Any], reverse: bool = False) -> list[Any]:
    """States before the first step and after each step of `fn(states, elements of the step)`, stacked."""
    count, number = tf.shape(elements[0])[0], len(initial)

    def cond(i: Tensor, num_elems: Tensor, *args: object) -> Any:
        return i >= 0 if reverse else i < num_elems

    def body(i: Tensor, num_elems: Tensor, *args: Tensor) -> list[Any]:
        i.set_shape([])
        new = fn(args[number:], [tf.gather(element, i) for element in elements])
        place = i if reverse else i + 1
        pairs = zip(args[:number], new, strict=True)
        stacked = [gen("TensorScatterUpdate")(old, [[place]], [value]) for old, value in pairs]
        return [i - 1 if reverse else i + 1, num_elems, *stacked, *new]

    first = tf.shape(elements[0])[0] - 1 if reverse else tf.constant(0, dtype=tf.int32)
    stacked = []
    length = tf.shape(elements[0])[0] + 1
    for state in initial:
        empty = gen("Empty")(tf.concat([[length], tf.shape(state)], 0), dtype=state.dtype, init=True)
        stacked.append(gen("TensorScatterAdd")(empty, [[first + (1 if reverse else 0)]], [state]))
    return _while(cond, body, [first, count, *stacked, *initial])[2 : number + 2]


def _while(cond: Callable[..., Any], body: Callable[..., Any], values: list[Any]) -> list[Any]:
    """Outputs of a While of functions; tensors that the body captures are loop variables that never change."""
    graph = get_default_graph()
    types = [value.dtype for value in values]
    tests: Any = Defun(*types)(cond)
    steps: Any = Defun(*types)(body)
    captured = steps.captured_inputs
    all_types = [*types, *(tensor.dtype for tensor in captured)]

    def test(*args: Tensor) -> Any:
        return tests(*args[: len(types)])

    def run(*args: Tensor) -> list[Any]:
        result = steps(*args)
        inner: Any = get_default_graph()
        return [*result, *inner.internal_captures]

    wrapped: list[Any] = [
        Defun(*all_types, func_name=f"{tests.name}_Wrapper")(test),
        Defun(*types, func_name=f"{steps.name}_Wrapper")(run),
    ]
    for function in wrapped:
        function.add_to_graph(graph)
    on_host = tuple(i for i, kind in enumerate(types) if kind.base_dtype in (tf.int32, tf.int64))
    attrs = {
        "T": tuple(tensor.element for tensor in (*values, *captured)),
        "cond": FunctionName(wrapped[0].name),
        "body": FunctionName(wrapped[1].name),
        "output_shapes": (),
        "parallel_iterations": 10,
        "_input_hostmem": on_host,
        "_output_hostmem": on_host,
    }
    return call(graph, "While", [*values, *captured], attrs, None).outputs[: len(values)]
