"""Fourier transforms of complex and real signals, over the last one, two or three dimensions.

Source: TensorFlow's `fft_ops.cc` for rules and error texts, `spectral_ops.cc` for shapes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from math import prod

import numpy as np

from placesim.core.errors import InvalidArgumentError
from placesim.ops.attributes import Attrs
from placesim.ops.kernels.kernel import Compute, Flops, Kernel, Table, Tensor, elements
from placesim.ops.kernels.shapes import (
    Dims,
    ShapeContext,
    format_dims,
    infer_by,
    replace_dim,
    with_rank,
    with_rank_at_least,
    with_value,
)

Transform = Callable[..., Tensor]


def _check_rank(signal: Tensor, rank: int) -> None:
    if signal.ndim < rank:
        raise InvalidArgumentError(f"Input must have rank of at least {rank} but got: {format_dims(signal.shape)}")


# --- complex signals ------------------------------------------------------------------------------------------------


def _transform_complex(transform: Transform, rank: int) -> Compute:
    """Build the kernel of a transform over the last `rank` axes. It raises InvalidArgumentError for fewer axes."""
    axes = tuple(range(-rank, 0))

    def compute(inputs: Sequence[Tensor], attrs: Attrs) -> tuple[Tensor]:
        (signal,) = inputs
        _check_rank(signal, rank)
        # numpy rejects axes without elements
        return (transform(signal, axes=axes) if signal.size else signal,)

    return compute


# --- real signals ---------------------------------------------------------------------------------------------------


def _transform_real(transform: Transform, rank: int, is_forward: bool) -> Compute:
    """Build a kernel: (signal, lengths `[rank]`) -> the transform over the last `rank` axes.

    The kernel raises InvalidArgumentError for lengths, ranks or types that do not fit.
    """
    axes = tuple(range(-rank, 0))

    def compute(inputs: Sequence[Tensor], attrs: Attrs) -> tuple[Tensor]:
        signal, fft_length = inputs
        lengths = _check_lengths(signal, fft_length, rank, is_forward)
        _check_types(attrs, is_forward)
        dims = (*signal.shape[:-rank], *_output_dims(lengths, is_forward))
        dtype = attrs["Tcomplex" if is_forward else "Treal"].numpy
        if not signal.size or not prod(dims):
            return (np.zeros(dims, dtype),)
        return (transform(signal, s=lengths, axes=axes).astype(dtype, copy=False),)

    return compute


def _check_lengths(signal: Tensor, fft_length: Tensor, rank: int, is_forward: bool) -> tuple[int, ...]:
    """Return the lengths of the transform. Raises InvalidArgumentError if they would pad the signal; they may crop it."""
    _check_rank(signal, rank)
    if fft_length.shape != (rank,):
        raise InvalidArgumentError(f"fft_length must have shape [{rank}]")
    lengths = tuple(int(length) for length in fft_length)
    for index, length in enumerate(lengths):
        if length < 0:
            raise InvalidArgumentError(f"fft_length[{index}] must >= 0, but got: {length}")
        axis = signal.ndim - rank + index
        # for the inverse transform, the last axis is half of the spectrum
        least = length // 2 + 1 if not is_forward and index == rank - 1 else length
        # an axis without elements is not checked
        if 0 < signal.shape[axis] < least:
            raise InvalidArgumentError(
                f"Input dimension {axis} must have length of at least {least} but got: {signal.shape[axis]}"
            )
    return lengths


def _check_types(attrs: Attrs, is_forward: bool) -> None:
    real, spectrum = attrs["Treal"], attrs["Tcomplex"]
    if spectrum.size != 2 * real.size:
        one, two = (real, spectrum) if is_forward else (spectrum, real)
        direction = "forward" if is_forward else "backward"
        raise InvalidArgumentError(f"Wrong types for {direction} real FFT: in={one.number} out={two.number}")


def _output_dims(lengths: Sequence[int], is_forward: bool) -> tuple[int, ...]:
    """The output's lengths; a forward transform keeps only half of a real signal's spectrum."""
    last = lengths[-1]
    # as in C, half of an unknown length of -1 is 0
    return (*lengths[:-1], int(last / 2) + 1 if is_forward and last else last)


def complex_transform(transform: Transform, rank: int) -> Kernel:
    """Kernel of numpy's `transform` over the last `rank` dimensions; the output has the signal's shape."""
    return Kernel(_transform_complex(transform, rank), infer_by(f"x:{rank}+ -> x"), _transform_flops(rank, 5))


def real_transform(transform: Transform, rank: int, is_forward: bool) -> Kernel:
    """Kernel of numpy's transform of real signals to half of the spectrum (forward), or back.

    Signals are `[batch..., lengths...]`, spectra `[batch..., lengths[:-1]..., lengths[-1] // 2 + 1]`; the second input has the
    lengths.
    """
    infer = partial(_infer_real, rank=rank, is_forward=is_forward)
    return Kernel(_transform_real(transform, rank, is_forward), infer, _transform_flops(rank, 2))


# --- shape functions and costs --------------------------------------------------------------------------------------


def _infer_real(context: ShapeContext, rank: int, is_forward: bool) -> tuple[Dims]:
    dims = with_rank_at_least(context.shapes[0], rank)
    with_value(with_rank(context.shapes[1], 1)[0], rank)
    lengths = context.value(1)
    known = [-1] * rank if lengths is None else _output_dims([int(length) for length in lengths], is_forward)
    for index, dim in enumerate(known):
        dims = replace_dim(dims, index - rank, dim)
    return (dims,)


def _transform_flops(rank: int, factor: int) -> Flops:
    """Cost of `factor * n * log2(n)` for each signal of n elements; the usual factor is 5 for complex signals."""

    def flops(inputs: Sequence[Dims], outputs: Sequence[Dims], attrs: Attrs) -> int:
        largest = max(inputs[0] or (), outputs[0] or (), key=elements)
        size = elements(largest[-rank:])
        return int(factor * elements(largest) * np.log2(size)) if size else 0

    return flops


TABLE: Table = {
    "FFT": complex_transform(np.fft.fftn, 1),
    "FFT2D": complex_transform(np.fft.fftn, 2),
    "FFT3D": complex_transform(np.fft.fftn, 3),
    "IFFT": complex_transform(np.fft.ifftn, 1),
    "IFFT2D": complex_transform(np.fft.ifftn, 2),
    "IFFT3D": complex_transform(np.fft.ifftn, 3),
    "RFFT": real_transform(np.fft.rfftn, 1, is_forward=True),
    "RFFT2D": real_transform(np.fft.rfftn, 2, is_forward=True),
    "RFFT3D": real_transform(np.fft.rfftn, 3, is_forward=True),
    "IRFFT": real_transform(np.fft.irfftn, 1, is_forward=False),
    "IRFFT2D": real_transform(np.fft.irfftn, 2, is_forward=False),
    "IRFFT3D": real_transform(np.fft.irfftn, 3, is_forward=False),
}
