"""Signals."""

from __future__ import annotations

_BOTH = "rfft rfft2d rfft3d irfft irfft2d irfft3d"


def _in_both(names: str) -> str:
    return " ".join(f"signal.{name} spectral.{name}" for name in names.split())


def _in_contrib(names: str) -> str:
    return " ".join(f"signal.{name} contrib.signal.{name}" for name in names.split())


ROWS = {
    "signal.fourier": _in_both(_BOTH) + " signal.fftshift signal.ifftshift",
    "signal.cosine": _in_both("dct idct"),
    "signal.windows": _in_contrib("hann_window hamming_window") + " signal.vorbis_window",
    "signal.frames": _in_contrib("frame stft inverse_stft inverse_stft_window_fn overlap_and_add"),
    "signal.mel": _in_contrib("linear_to_mel_weight_matrix mfccs_from_log_mel_spectrograms"),
}
