"""Depthwise convolutions and their gradients against sums written out, in blocks of any size and layouts of any order."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from placesim.ops.kernels.blocks.epilogues import Finish
from placesim.ops.kernels.nn import depthwise
from placesim.ops.kernels.nn.windows import SpatialWindow, windows_of
from placesim.ops.process.intra_op_threads import IntraOpPool
from tests.examples import examples

Tensor = np.ndarray[Any, Any]


@st.composite
def windows(draw: st.DrawFn) -> tuple[SpatialWindow, ...]:
    """Along rows and columns, of one stride."""
    stride, padding = draw(st.integers(1, 4)), draw(st.sampled_from(["SAME", "VALID", "EXPLICIT"]))
    kernels = draw(st.tuples(st.integers(1, 6), st.integers(1, 6)))
    inputs = [draw(st.integers(kernel, 13)) for kernel in kernels]
    pairs = [(draw(st.integers(0, 8)), draw(st.integers(0, 8))) for _ in kernels] if padding == "EXPLICIT" else ()
    return windows_of(inputs, kernels, (stride, stride), (1, 1), padding, pairs)


Place = tuple[int, int]


def pairs(axes: Sequence[SpatialWindow]) -> list[tuple[Place, Place, Place]]:
    """(the window, the tap, the cell of the input that lies under it), for all that do not lie on padding."""
    along = [
        [
            (output, tap, cell)
            for output in range(window.outputs)
            for tap in range(window.kernel)
            if 0 <= (cell := output * window.stride + tap - window.before) < window.input
        ]
        for window in axes
    ]
    return [((row, column), (up, left), (y, x)) for (row, up, y), (column, left, x) in itertools.product(*along)]


@given(axes=windows(), batch=st.integers(1, 3), channels=st.integers(1, 5), turned=st.booleans(), threads=st.integers(1, 2))
@settings(max_examples=examples(60), deadline=None)
def check(axes: tuple[SpatialWindow, ...], batch: int, channels: int, turned: bool, threads: int) -> None:
    rng = np.random.default_rng(0)

    def draw(*spatial: int) -> Tensor:
        drawn = rng.integers(-4, 5, (batch, channels, *spatial) if turned else (batch, *spatial, channels)).astype(np.float32)
        return drawn.transpose(0, 2, 3, 1) if turned else drawn

    tensor, grads = draw(*(window.input for window in axes)), draw(*(window.outputs for window in axes))
    filters = rng.integers(-4, 5, (*(window.kernel for window in axes), channels)).astype(np.float32)
    output, of_input, of_filter = np.zeros_like(grads), np.zeros_like(tensor), np.zeros_like(filters)
    for (row, column), tap, (y, x) in pairs(axes):
        output[:, row, column] += tensor[:, y, x] * filters[tap]
        of_input[:, y, x] += grads[:, row, column] * filters[tap]
        of_filter[tap] += (tensor[:, y, x] * grads[:, row, column]).sum(0)
    with IntraOpPool(threads).serving():
        np.testing.assert_array_equal(depthwise.correlate_channels(tensor, filters, axes), output)
        np.testing.assert_array_equal(depthwise.correlate_channels_back(grads, filters, axes), of_input)
        np.testing.assert_array_equal(depthwise.correlate_channels_filter(tensor, grads, axes), of_filter)


@pytest.mark.slow
@pytest.mark.parametrize("block_bytes", [1, 500, depthwise.BLOCK_BYTES])
def test_channels_by_themselves(block_bytes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(depthwise, "BLOCK_BYTES", block_bytes)
    check()


def test_what_follows_meets_each_row_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(depthwise, "BLOCK_BYTES", 500)
    axes = windows_of((9, 7), (3, 3), (2, 2), (1, 1), "SAME")
    tensor, filters = np.ones((2, 9, 7, 3), np.float32), np.ones((3, 3, 3), np.float32)
    blocks: list[slice] = []

    def begin(output: Tensor) -> Finish:
        rows = output.reshape(-1, output.shape[-1])

        def finish(block: slice) -> None:
            blocks.append(block)
            rows[block] *= 2

        return finish

    plain = depthwise.correlate_channels(tensor, filters, axes)
    np.testing.assert_array_equal(depthwise.correlate_channels(tensor, filters, axes, begin), 2 * plain)
    assert len(blocks) > 1
