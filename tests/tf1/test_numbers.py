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
