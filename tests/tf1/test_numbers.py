"""Training reaches TensorFlow's values: seeded numbers are its, and optimizers compute as its."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest

import placesim.tf1 as tf
from tests.processes import run_process

HERE = Path(__file__).parent
RECORDED = json.loads((HERE.parent / "data" / "tf1" / "losses.json").read_text())
_PRINT = (
    "import json, sys; from placesim.tf1.importing import import_hook; import_hook.install(); sys.path.insert(0, sys.argv[1]); "
    "import training_programs as found; print(json.dumps({name: found.losses(name) for name in found.PROGRAMS}))"
)


@pytest.fixture(scope="module")
def found() -> dict[str, list[float]]:
    """The losses of all programs, from a process in which `tensorflow` is answered here."""
    done = run_process((sys.executable, "-c", _PRINT, str(HERE)), check=True)
    losses: dict[str, list[float]] = json.loads(done.output.splitlines()[-1])
    return losses


@pytest.mark.slow
@pytest.mark.parametrize("name", RECORDED)
def test_losses_agree_with_tensorflow(name: str, found: dict[str, list[float]]) -> None:
    assert found[name] == pytest.approx(RECORDED[name], rel=1e-4)


@pytest.mark.slow
def test_every_program_is_recorded(found: dict[str, list[float]]) -> None:
    assert set(found) == set(RECORDED)


def test_a_signal_comes_back_from_its_short_time_spectra() -> None:
    signal = np.sin(np.arange(40, dtype=np.float32) * 0.7)
    length = tf.placeholder(tf.int32, [])
    spectra = tf.signal.stft(signal, 8, 4)
    window = tf.signal.inverse_stft_window_fn(4)
    wanted = [
        spectra,
        tf.signal.inverse_stft(spectra, 8, 4, window_fn=window),
        tf.contrib.signal.frame(signal, 6, 4, pad_end=True, pad_value=9.0),
        tf.signal.frame(signal, length, 6),
    ]
    with tf.Session() as session:
        found, back, padded, framed = session.run(wanted, {length: 9})
    expected = [1.98931, -1.73296 - 1.00839j, 0.70935 + 0.4398j, 0.02376 + 0.01508j, 0.0104]
    np.testing.assert_allclose(found[2], expected, atol=1e-5)
    np.testing.assert_allclose(back[4:36], signal[4:36], atol=1e-6)
    np.testing.assert_array_equal(padded[-1], [*signal[36:], 9.0, 9.0])
    np.testing.assert_array_equal(framed, [signal[start : start + 9] for start in range(0, 31, 6)])


def test_a_loss_of_dense_labels_and_its_gradient_have_tensorflows_values() -> None:
    logits = np.random.RandomState(1).randn(6, 3, 5).astype(np.float32)
    with tf.Graph().as_default(), tf.Session() as session:
        given = tf.constant(logits)
        loss = tf.nn.ctc_loss_v2(tf.constant([[1, 2, 2], [3, 0, 0], [4, 1, 0]]), given, tf.constant([3, 1, 2]), [6, 4, 5])
        found, gradient = session.run([loss, tf.gradients(loss, given)[0]])
    assert found == pytest.approx([6.619909, 4.674758, 5.007341], rel=1e-5)
    assert np.abs(gradient).sum() == pytest.approx(16.57731, rel=1e-5)


def test_boxes_are_suppressed_tile_by_tile_as_in_tensorflow() -> None:
    draw = np.random.RandomState(1)
    corners = draw.rand(2, 20, 2)
    boxes = np.concatenate([corners, corners + 0.1 + 0.4 * draw.rand(2, 20, 2)], 2).astype(np.float32)
    scores = draw.rand(2, 20).astype(np.float32)
    with tf.Graph().as_default(), tf.Session() as session:
        kept = tf.image.non_max_suppression_padded(
            tf.constant(boxes), tf.constant(scores), 12, 0.4, 0.2, pad_to_max_output_size=True, tile_size=4
        )
        single = tf.image.non_max_suppression_padded(tf.constant(boxes[0]), tf.constant(scores[0]), 15, 0.3, 0.4)
        (numbers, counts), (first, count) = session.run([kept, single])
    assert numbers.tolist() == [[11, 3, 15, 16, 2, 8, 12, 9, 14, 1, 7, 13], [19, 15, 9, 14, 5, 13, 2, 12, 7, 0, 18, 8]]
    assert (counts.tolist(), first.tolist(), count) == ([12, 12], [11, 3, 15, 16, 2, 12, 14, 7], 8)


def test_a_gradient_is_checked_by_differences() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        x = tf.Variable([1.0, 2.0])
        session.run(x.initializer)
        rows = tf.gather(x, [1, 1])
        by_gradients, by_differences = tf.test.compute_gradient(
            x, [2], rows * rows, [2], np.array([1.0, 2.0], np.float32), delta=0.5
        )
        np.testing.assert_array_equal(by_gradients, [[0.0, 0.0], [4.0, 4.0]])
        np.testing.assert_array_equal(by_differences, by_gradients)
        z = tf.constant([1 + 2j])
        assert tf.test.compute_gradient(z, [1], 2.0 * z, [1])[0].tolist() == [[2.0, 0.0], [0.0, 2.0]]
        assert tf.test.compute_gradient_error([x], [[2]], tf.reduce_sum(rows), [], delta=0.5) < 1e-6  # its x is random


def test_mel_spectra_have_tensorflows_values() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        weights = tf.signal.linear_to_mel_weight_matrix(3, 5, 8000, 100.0, 3500.0)
        coefficients = tf.signal.mfccs_from_log_mel_spectrograms(tf.constant([[0.5, -1.0, 2.0]]))
        assert weights.shape.as_list() == [5, 3]
        found, mfccs = session.run([weights, coefficients])
    expected = [
        [0.0, 0.0, 0.0],
        [0.18174146, 0.8182585, 0.0],
        [0.0, 0.06579487, 0.9342051],
        [0.0, 0.0, 0.30575228],
        [0.0, 0.0, 0.0],
    ]
    np.testing.assert_allclose(found, expected, atol=1e-5)
    np.testing.assert_allclose(mfccs[0], [1.2247448, -1.0606601, 1.8371172], atol=1e-5)


def test_the_gradient_of_set_diagonals_of_unknown_size() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        x, diagonals = tf.placeholder(tf.float32, [None, 2, 3]), tf.placeholder(tf.float32, [None, None])
        y = tf.linalg.set_diag(x, diagonals, k=1)
        count = len(tf.get_default_graph().get_operations())
        found = tf.gradients(y * y, [x, diagonals])
        assert len(tf.get_default_graph().get_operations()) - count == 85
        of_x, of_diagonals = session.run(found, {x: np.ones([1, 2, 3]), diagonals: [[2, 3]]})
    assert of_x.tolist() == [[[2, 0, 2], [2, 2, 0]]]
    assert of_diagonals.tolist() == [[4, 6]]
