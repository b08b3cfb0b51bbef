"""Recurrent networks: their numbers, names and errors are TensorFlow's; what only TensorFlow 1 had trains."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import placesim.tf1 as tf
from placesim.tf1.session import sessions

CELLS: Any = tf.nn.rnn_cell
RNN: Any = tf.contrib.rnn
LEGACY: Any = tf.contrib.legacy_seq2seq
SEQ2SEQ: Any = tf.contrib.seq2seq
X = np.arange(24.0, dtype=np.float32).reshape(2, 3, 4) / 24


@pytest.fixture(autouse=True)
def _graph() -> Any:
    with tf.Graph().as_default() as graph:
        yield graph


def run(*wanted: Any) -> Any:
    with sessions.Session() as session:
        session.run(tf.global_variables_initializer())
        return session.run(list(wanted))


def names(variables: Any) -> list[str]:
    return [variable.name for variable in variables]


# --- TensorFlow 2.21's numbers: all variables but biases are 0.1, the second sequence has two steps

NUMBERS: list[tuple[Callable[[], Any], list[float], float, float]] = [
    (lambda: CELLS.BasicRNNCell(2), [0.02499, 0.09637, 0.17576, 0.22128, 0.32383, 0.0], 4.32324, 1.68447),
    (lambda: CELLS.GRUCell(2), [0.0066, 0.02814, 0.0598, 0.05024, 0.10172, 0.0], 1.37911, 0.493),
    (lambda: CELLS.BasicLSTMCell(2), [0.00641, 0.0303, 0.07117, 0.06807, 0.15032, 0.0], 2.04608, 0.65253),
    (
        lambda: CELLS.LSTMCell(2, use_peepholes=True, num_proj=3, cell_clip=0.4, proj_clip=0.3),
        [0.00128, 0.00603, 0.01402, 0.01369, 0.02976, 0.0],
        0.60634,
        0.19435,
    ),
    (
        lambda: CELLS.ResidualWrapper(CELLS.GRUCell(4)),
        [0.1316, 0.32003, 0.51918, 0.67524, 0.89452, 0.0],
        22.80347,
        8.91226,
    ),
    (
        lambda: CELLS.MultiRNNCell([CELLS.GRUCell(3), CELLS.LSTMCell(2)]),
        [0.0005, 0.00253, 0.0066, 0.00382, 0.01095, 0.0],
        0.15959,
        0.0488,
    ),
]


@pytest.mark.slow
@pytest.mark.parametrize(("make", "last", "gradients", "total"), NUMBERS)
def test_outputs_and_gradients_through_time(make: Callable[[], Any], last: list[float], gradients: float, total: float) -> None:
    x = tf.constant(X)
    with tf.variable_scope("m", initializer=tf.constant_initializer(0.1)):
        outputs, _ = tf.nn.dynamic_rnn(make(), x, sequence_length=[3, 2], dtype=tf.float32)
        of_x = tf.gradients(tf.reduce_sum(outputs), x)[0]
        unrolled, _ = tf.nn.static_rnn(make(), tf.unstack(x, axis=1), dtype=tf.float32, sequence_length=[3, 2], scope="static")
    found, gradient, listed = run(outputs, of_x, unrolled)
    np.testing.assert_allclose(found[:, :, -1].ravel(), last, atol=1e-5)
    np.testing.assert_allclose(np.abs(gradient).sum(), gradients, atol=1e-5)
    np.testing.assert_allclose(np.sum(listed), total, atol=1e-5)


def test_variables_of_cells_in_cells_are_named_by_their_places() -> None:
    cell = CELLS.MultiRNNCell([CELLS.DropoutWrapper(CELLS.GRUCell(2), 0.5), CELLS.LSTMCell(3, num_proj=2)])
    tf.nn.dynamic_rnn(cell, tf.constant(X), dtype=tf.float32)
    assert names(tf.trainable_variables()) == [
        "rnn/multi_rnn_cell/cell_0/gru_cell/gates/kernel:0",
        "rnn/multi_rnn_cell/cell_0/gru_cell/gates/bias:0",
        "rnn/multi_rnn_cell/cell_0/gru_cell/candidate/kernel:0",
        "rnn/multi_rnn_cell/cell_0/gru_cell/candidate/bias:0",
        "rnn/multi_rnn_cell/cell_1/lstm_cell/kernel:0",
        "rnn/multi_rnn_cell/cell_1/lstm_cell/bias:0",
        "rnn/multi_rnn_cell/cell_1/lstm_cell/projection/kernel:0",
    ]
    # as in TensorFlow, a wrapper lists none of its cell's variables
    assert names(cell.trainable_variables) == names(tf.trainable_variables())[4:]


def test_a_dropout_wrapper_makes_a_seed_for_each_tensor_and_leaves_an_lstms_cell() -> None:
    inner = CELLS.MultiRNNCell([CELLS.LSTMCell(3), CELLS.GRUCell(2)])
    cell = CELLS.DropoutWrapper(inner, 0.5, 0.5, 0.5, seed=3)
    cell(tf.zeros([2, 4]), cell.zero_state(2, tf.float32))
    ops = tf.get_default_graph().get_operations()
    drawn = [op.get_attr("seed2") for op in ops if op.type == "RandomUniform" and "Initializer" not in op.name]
    assert drawn == [371649270, 602375191, 1481595121, 787469663]


class DoublingCell(CELLS.RNNCell):  # type: ignore[misc]
    """A cell as users write them: its own variables, a state of two parts, outputs of two parts."""

    state_size: Any = (3, tf.TensorShape([3, 2]))
    output_size: Any = (3, 2)

    def call(self, inputs: Any, state: Any = None, *args: Any, **kwargs: Any) -> Any:
        hidden, count = state
        weights = tf.get_variable("w", [7, 3], initializer=tf.ones_initializer())
        hidden = tf.tanh(tf.matmul(tf.concat([inputs, hidden], 1), weights))
        return (hidden, hidden[:, :2]), (hidden, count + 1)


def test_a_users_cell_with_nested_outputs_and_states() -> None:
    cell = DoublingCell()
    outputs, state = tf.nn.dynamic_rnn(cell, tf.constant(X), sequence_length=[3, 1], dtype=tf.float32)
    assert [output.shape.as_list() for output in outputs] == [[2, 3, 3], [2, 3, 2]]
    assert names(cell.trainable_variables) == ["rnn/doubling_cell/w:0"]
    found, counts = run(outputs[0], state[1])
    assert counts[:, 0, 0].tolist() == [3.0, 1.0]
    assert not found[1, 1:].any()


def test_raw_rnn_whose_inputs_are_read_in_branches_has_gradients() -> None:
    table = tf.get_variable("e", [3, 2, 4], initializer=tf.constant_initializer(0.1))
    array = tf.TensorArray(tf.float32, size=3).unstack(table)
    cell = CELLS.GRUCell(5)
    zeros = tf.zeros([2, 4])

    def loop(time: Any, output: Any, state: Any, _: Any) -> Any:
        ended = time >= tf.constant([3, 2])
        read = tf.cond(tf.reduce_all(ended), lambda: zeros, lambda: array.read(time))
        return ended, read, cell.zero_state(2, tf.float32) if output is None else state, output, None

    with tf.variable_scope("m", initializer=tf.constant_initializer(0.1)):
        outputs, _, _ = tf.nn.raw_rnn(cell, loop)
    stacked = outputs.stack()
    (gradient,) = run(tf.gradients(stacked, table)[0])
    assert (np.abs(gradient[:2]) > 0).all()
    # the second sequence has ended when the third step is read
    assert (np.abs(gradient[2, 0]) > 0).all()
    assert not gradient[2, 1].any()


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda x: tf.nn.dynamic_rnn(CELLS.GRUCell(3), x),
            ValueError,
            "If no initial_state is provided, argument `dtype` must be specified",
        ),
        (
            lambda x: tf.nn.dynamic_rnn(3, x),
            TypeError,
            "The argument 'cell' (3) is not an RNNCell: 'output_size' property is missing, 'state_size' property is missing, "
            "either 'zero_state' or 'get_initial_state' method is required, is not callable.",
        ),
        (lambda _: CELLS.MultiRNNCell([]), ValueError, "Must specify at least one cell for MultiRNNCell."),
        (
            lambda _: CELLS.MultiRNNCell([CELLS.BasicLSTMCell(3)], state_is_tuple=False),
            ValueError,
            "Some cells return tuples of states, but the flag state_is_tuple is not set. "
            "State sizes are: [LSTMStateTuple(c=3, h=3)]",
        ),
        (
            lambda _: CELLS.DropoutWrapper(CELLS.GRUCell(3), input_keep_prob=1.5),
            ValueError,
            "Parameter input_keep_prob must be between 0 and 1. Received 1.5",
        ),
        (lambda x: tf.nn.static_rnn(CELLS.GRUCell(3), []), ValueError, "Argument `inputs` must not be empty."),
    ],
)
def test_errors_are_tensorflows(call: Callable[[Any], Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error) as found:
        call(tf.placeholder(tf.float32, [2, 3, 4]))
    assert str(found.value) == message


# --- what TensorFlow 1 alone had


def losses_of(outputs: Any, steps: int = 4) -> list[float]:
    loss = tf.reduce_mean(tf.square(outputs - 0.5))
    train = tf.train.GradientDescentOptimizer(0.1).minimize(loss)
    with sessions.Session() as session:
        session.run(tf.global_variables_initializer())
        return [float(session.run([loss, train])[0]) for _ in range(steps)]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("block", "plain"),
    [
        (lambda: RNN.LSTMBlockCell(5), lambda: RNN.BasicLSTMCell(5, name="lstm_cell")),
        (lambda: RNN.GRUBlockCellV2(5), lambda: RNN.GRUCell(5)),
    ],
)
def test_a_cell_of_one_op_learns_as_the_plain_one(block: Callable[[], Any], plain: Callable[[], Any]) -> None:
    found: list[Any] = []
    for make in (block, plain):
        with tf.Graph().as_default():
            tf.set_random_seed(1)
            found.append(losses_of(tf.nn.dynamic_rnn(make(), tf.constant(X), dtype=tf.float32)[0]))
            found.append(names(tf.trainable_variables()))
    np.testing.assert_allclose(found[0], found[2], rtol=1e-5)
    assert found[1] == found[3]


def test_a_fused_lstm_gives_each_sequences_last_state() -> None:
    cell = RNN.LSTMBlockFusedCell(5)
    steps = tf.transpose(tf.constant(X), [1, 0, 2])
    with tf.variable_scope("m", initializer=tf.constant_initializer(0.1)):
        outputs, state = cell(steps, dtype=tf.float32, sequence_length=[3, 1])
    found, last = run(outputs, state.h)
    np.testing.assert_array_equal(last[1], found[0, 1])
    np.testing.assert_array_equal(last[0], found[2, 0])
    assert not found[1:, 1].any()


@pytest.mark.slow
@pytest.mark.parametrize(
    "make",
    [
        lambda: RNN.LayerNormBasicLSTMCell(5),
        lambda: RNN.CoupledInputForgetGateLSTMCell(5, use_peepholes=True, num_proj=3),
        lambda: RNN.UGRNNCell(5),
        lambda: RNN.NASCell(5, num_proj=3, use_bias=True),
        lambda: RNN.InputProjectionWrapper(RNN.GRUCell(5), 3),
        lambda: RNN.OutputProjectionWrapper(RNN.GRUCell(5), 3),
        lambda: RNN.HighwayWrapper(RNN.GRUCell(4)),
        lambda: RNN.AttentionCellWrapper(RNN.LSTMCell(5), 4),
    ],
)
def test_cells_of_contrib_learn(make: Callable[[], Any]) -> None:
    tf.set_random_seed(1)
    losses = losses_of(tf.nn.dynamic_rnn(make(), tf.constant(X), dtype=tf.float32)[0])
    assert losses == sorted(losses, reverse=True)


def test_legacy_networks_take_what_they_gave_where_they_are_told_to() -> None:
    tf.set_random_seed(1)
    encoder = [tf.constant([1, 2]), tf.constant([3, 4])]
    decoder = [tf.constant([0, 0]), tf.constant([1, 2]), tf.constant([3, 1])]
    feeds = tf.placeholder(tf.bool, [])
    outputs, _ = LEGACY.embedding_attention_seq2seq(encoder, decoder, RNN.GRUCell(5), 6, 7, 4, feed_previous=feeds)
    loss = LEGACY.sequence_loss(outputs, decoder, [tf.ones([2])] * 3)
    with sessions.Session() as session:
        session.run(tf.global_variables_initializer())
        given, own = (session.run([*outputs, loss], {feeds: value}) for value in (False, True))
    np.testing.assert_array_equal(given[0], own[0])
    assert not np.allclose(given[2], own[2])
    # the loss is each step's mean cross entropy, averaged over the steps
    labels = np.array([[0, 0], [1, 2], [3, 1]])
    logits = np.stack(given[:3])
    shares = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
    chosen = np.take_along_axis(shares, labels[..., None], -1)
    np.testing.assert_allclose(given[3], -np.log(chosen).mean(), rtol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["BahdanauAttention", "LuongAttention"])
def test_a_decoder_attends_to_what_is_there(kind: str) -> None:
    tf.set_random_seed(1)
    memory = tf.constant(np.linspace(0, 1, 60, dtype=np.float32).reshape(2, 6, 5))
    mechanism = getattr(SEQ2SEQ, kind)(5, memory, memory_sequence_length=[6, 4])
    cell = SEQ2SEQ.AttentionWrapper(RNN.BasicLSTMCell(5), mechanism, attention_layer_size=5, alignment_history=True)
    given = SEQ2SEQ.TrainingHelper(tf.constant(X), [3, 2])
    decoder = SEQ2SEQ.BasicDecoder(cell, given, cell.zero_state(2, tf.float32), tf.layers.Dense(7))
    outputs, state, lengths = SEQ2SEQ.dynamic_decode(decoder, impute_finished=True)
    loss = SEQ2SEQ.sequence_loss(outputs.rnn_output, tf.zeros([2, 3], tf.int32), tf.ones([2, 3]))
    train = tf.train.GradientDescentOptimizer(1.0).minimize(loss)
    with sessions.Session() as session:
        session.run(tf.global_variables_initializer())
        shares, ends, logits = session.run([state.alignment_history.stack(), lengths, outputs.rnn_output])
        losses = [session.run([loss, train])[0] for _ in range(4)]
    np.testing.assert_allclose(shares.sum(-1), np.ones([3, 2]), rtol=1e-6)
    assert not shares[:, 1, 4:].any()
    assert ends.tolist() == [3, 2]
    assert not logits[1, 2].any()
    assert losses == sorted(losses, reverse=True)


def test_a_greedy_decoder_goes_on_until_the_end_symbol() -> None:
    # each symbol's embedding makes the next symbol the most likely one
    following = np.roll(np.eye(5, dtype=np.float32), 1, axis=1)

    class PassThroughCell(CELLS.RNNCell):  # type: ignore[misc]
        state_size: Any = 1
        output_size: Any = 5

        def call(self, inputs: Any, state: Any = None, *args: Any, **kwargs: Any) -> Any:
            return inputs, state

    cell = PassThroughCell()
    given = SEQ2SEQ.GreedyEmbeddingHelper(tf.constant(following), [0, 2], 4)
    decoder = SEQ2SEQ.BasicDecoder(cell, given, cell.zero_state(2, tf.float32))
    outputs, _, lengths = SEQ2SEQ.dynamic_decode(decoder)
    symbols, ends = run(outputs.sample_id, lengths)
    assert symbols[0].tolist() == [1, 2, 3, 4]
    assert symbols[1, :2].tolist() == [3, 4]
    assert ends.tolist() == [4, 2]


def test_beam_search_finds_the_most_likely_sequences() -> None:
    symbols, end, width, steps = 5, 4, 4, 4
    shares = np.random.RandomState(3).rand(symbols, symbols) ** 3
    chances = np.log(shares / shares.sum(1, keepdims=True)).astype(np.float32)

    class PassThroughCell(CELLS.RNNCell):  # type: ignore[misc]
        """What follows depends on the last symbol alone: its embedding says how likely each is."""

        state_size: Any = 1
        output_size: Any = symbols

        def call(self, inputs: Any, state: Any = None, *args: Any, **kwargs: Any) -> Any:
            return inputs, state

    cell = PassThroughCell()
    first = SEQ2SEQ.tile_batch(cell.zero_state(3, tf.float32), width)
    decoder = SEQ2SEQ.BeamSearchDecoder(cell, tf.constant(chances), [0, 1, 2], end, first, width)
    outputs, state, _ = SEQ2SEQ.dynamic_decode(decoder, maximum_iterations=steps)
    found, totals = run(outputs.predicted_ids, state.log_probs)
    for start in range(3):
        beams: list[tuple[list[int], float]] = [([], 0.0)]
        for _ in range(steps):
            longer = []
            for sequence, total in beams:
                last = sequence[-1] if sequence else start
                if sequence and last == end:
                    longer.append(([*sequence, end], total))
                else:
                    longer += [([*sequence, word], total + chances[last, word]) for word in range(symbols)]
            beams = sorted(longer, key=lambda beam: -beam[1])[:width]
        assert found[start].T.tolist() == [sequence for sequence, _ in beams]
        np.testing.assert_allclose(totals[start], [total for _, total in beams], atol=1e-4)
