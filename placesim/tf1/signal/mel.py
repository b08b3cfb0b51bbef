"""Mel spectra, on a scale of frequencies as ears hear them."""

from __future__ import annotations

from typing import Any

from placesim.tf1.graphs.default_graph_scopes import name_scope
from placesim.tf1.graphs.tensor import Tensor
from placesim.tf1.graphs.tensor_likes import TensorLike
from placesim.tf1.importing.namespaces import namespace
from placesim.tf1.ops.constant_values import constant_value
from placesim.tf1.ops.conversion import convert_to_tensor
from placesim.tf1.signal.cosine import dct
from placesim.tf1.signal.frames import frame
from placesim.tf1.types import dtypes

tf = namespace("")


def _check(bands: int, rate: Any, lowest: float, highest: float, dtype: dtypes.DType) -> None:
    """Raise ValueError like TensorFlow."""
    if bands <= 0:
        raise ValueError(f"num_mel_bins must be positive. Got: {bands}")
    if lowest < 0:
        raise ValueError(f"lower_edge_hertz must be non-negative. Got: {lowest}")
    if lowest >= highest:
        raise ValueError(f"lower_edge_hertz {lowest:.1f} >= upper_edge_hertz {highest:.1f}")
    if not isinstance(rate, Tensor):
        if rate <= 0:
            raise ValueError(f"sample_rate must be positive. Got: {rate}")
        if highest > rate / 2:
            raise ValueError(
                "upper_edge_hertz must not be larger than the Nyquist frequency (sample_rate / 2). "
                f"Got {highest} for sample_rate: {rate}"
            )
    if not dtype.is_floating:
        raise ValueError(f"dtype must be a floating point type. Got: {dtype}")


def _mel(hertz: Any) -> Any:
    with name_scope(None, "hertz_to_mel", [hertz]):
        return 1127.0 * tf.log(1.0 + hertz / 700.0)


def linear_to_mel_weight_matrix(
    num_mel_bins: int = 20,
    num_spectrogram_bins: TensorLike = 129,
    sample_rate: Any = 8000,
    lower_edge_hertz: float = 125.0,
    upper_edge_hertz: float = 3800.0,
    dtype: dtypes.DType = dtypes.float32,
    name: str | None = None,
) -> Any:
    """Weights `[num_spectrogram_bins, num_mel_bins]` of a spectrum's frequencies in bands, each a triangle of height 1."""
    with name_scope(name, "linear_to_mel_weight_matrix") as name:
        rate = constant_value(sample_rate) if isinstance(sample_rate, Tensor) else None
        rate = sample_rate if rate is None else rate
        _check(num_mel_bins, rate, lower_edge_hertz, upper_edge_hertz, dtype)
        rate = tf.cast(rate, dtype, name="sample_rate")
        lowest = convert_to_tensor(lower_edge_hertz, dtype, name="lower_edge_hertz")
        highest = convert_to_tensor(upper_edge_hertz, dtype, name="upper_edge_hertz")
        zero = convert_to_tensor(0.0, dtype)
        # the constant part of a spectrum is in no band
        frequencies = tf.linspace(zero, rate / 2.0, num_spectrogram_bins)[1:]
        places = tf.expand_dims(_mel(frequencies), 1)
        edges = frame(tf.linspace(_mel(lowest), _mel(highest), num_mel_bins + 2), 3, 1)
        low, middle, high = (tf.reshape(each, [1, num_mel_bins]) for each in tf.split(edges, 3, axis=1))
        rise = (places - low) / (middle - low)
        fall = (high - places) / (high - middle)
        weights = tf.maximum(zero, tf.minimum(rise, fall))
        return tf.pad(weights, [[1, 0], [0, 0]], name=name)


def mfccs_from_log_mel_spectrograms(log_mel_spectrograms: Any, name: str | None = None) -> Any:
    """Mel-frequency cepstral coefficients `[..., num_mel_bins]`.  Raises ValueError for no bins."""
    with name_scope(name, "mfccs_from_log_mel_spectrograms", [log_mel_spectrograms]):
        spectra = convert_to_tensor(log_mel_spectrograms)
        bins: Any = spectra.shape.as_list()[-1] if spectra.shape.rank else None
        if bins == 0:
            raise ValueError(f"num_mel_bins must be positive. Got: {spectra}")
        if bins is None:
            bins = tf.shape(spectra)[-1]
        coefficients = dct(spectra, type=2)
        return coefficients * tf.rsqrt(tf.cast(bins, coefficients.dtype) * 2.0)
