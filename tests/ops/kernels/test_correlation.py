"""Convolutions and their gradients in blocks and threads, against sums written out tap by tap."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from placesim.ops.kernels.blocks import work_parts
from placesim.ops.kernels.linalg import products
from placesim.ops.kernels.nn import correlation, winograd
from placesim.ops.kernels.nn.correlation import correlate, correlate_back, correlate_filter
from placesim.ops.kernels.nn.windows import SpatialWindow, remembered, tap_slices, windows_of
from placesim.ops.process.intra_op_threads import IntraOpPool
from tests.examples import examples

Tensor = np.ndarray[Any, Any]


def reference(tensor: Tensor, filters: Tensor, windows: tuple[SpatialWindow, ...]) -> Tensor:
    output = np.zeros((len(tensor), *(window.outputs for window in windows), filters.shape[-1]), tensor.dtype)
    taps = filters.reshape(-1, *filters.shape[-2:])
    for matrix, (outputs, cells) in zip(taps, tap_slices(windows), strict=True):
        output[(slice(None), *outputs)] += tensor[(slice(None), *cells)] @ matrix
    return output


def reference_back(grads: Tensor, filters: Tensor, windows: tuple[SpatialWindow, ...]) -> Tensor:
    result = np.zeros((len(grads), *(window.input for window in windows), filters.shape[-2]), grads.dtype)
    taps = filters.reshape(-1, *filters.shape[-2:])
    for matrix, (outputs, cells) in zip(taps, tap_slices(windows), strict=True):
        result[(slice(None), *cells)] += grads[(slice(None), *outputs)] @ matrix.T
    return result


def reference_filter(tensor: Tensor, grads: Tensor, windows: tuple[SpatialWindow, ...]) -> Tensor:
    taps = []
    for outputs, cells in tap_slices(windows):
        some, given_ = tensor[(slice(None), *cells)], grads[(slice(None), *outputs)]
        taps.append(some.reshape(-1, tensor.shape[-1]).T @ given_.reshape(-1, grads.shape[-1]))
    return np.array(taps).reshape(*(window.kernel for window in windows), tensor.shape[-1], grads.shape[-1])


@pytest.fixture(params=["blocks as they are", "small blocks"])
def blocks(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "small blocks":
        for module, name, value in (
            (correlation, "BLOCK_BYTES", 2000),
            (correlation, "LONG_BLOCK", 3),
            (correlation, "TALL_BLOCK", 7),
            (correlation, "TALL_BLOCK_BYTES", 4000),
            (products, "PART_WORK", 100),
            (products, "PART_LENGTH", 3),
            (products, "SMALL_PRODUCT", 200),
            (products, "THIN_MATRIX", 60),
            (products, "BROAD_MATRIX", 60),
            (work_parts, "BLOCK_BYTES", 2000),
            (winograd, "LEAST_OUTPUTS", 0),
            (winograd, "DIVIDED_BYTES", 2000),
            (winograd, "LEAST_CHANNELS", 1),
            (winograd, "LEAST_NUMBERS", 1),
            (winograd, "BLOCK_BYTES", 2000),
        ):
            monkeypatch.setattr(module, name, value)


sizes = st.integers(1, 9)


@st.composite
def cases(draw: st.DrawFn) -> tuple[tuple[SpatialWindow, ...], int, int, int]:
    """(windows along one to three axes, batch, depth, channels)."""
    axes = draw(st.integers(1, 3))
    padding = draw(st.sampled_from(["SAME", "VALID", "EXPLICIT"]))
    found: list[SpatialWindow] = []
    for _ in range(axes):
        kernel, stride, dilation = draw(st.integers(1, 5)), draw(st.integers(1, 3)), draw(st.integers(1, 2))
        input_size = draw(st.integers((kernel - 1) * dilation + 1, 13))
        pairs = (draw(st.integers(0, 6)), draw(st.integers(0, 6))) if padding == "EXPLICIT" else (0, 0)
        found += windows_of((input_size,), (kernel,), (stride,), (dilation,), padding, [pairs])
    return tuple(found), draw(st.integers(1, 5)), draw(sizes), draw(sizes)


@given(case=cases(), threads=st.sampled_from([1, 2]))
@settings(max_examples=examples(150), deadline=None)
def check(case: tuple[tuple[SpatialWindow, ...], int, int, int], threads: int) -> None:
    windows, batch, depth, channels = case
    rng = np.random.default_rng(0)
    tensor = rng.integers(-4, 5, (batch, *(window.input for window in windows), depth)).astype(np.float32)
    filters = rng.integers(-4, 5, (*(window.kernel for window in windows), depth, channels)).astype(np.float32)
    grads = rng.integers(-4, 5, (batch, *(window.outputs for window in windows), channels)).astype(np.float32)
    with IntraOpPool(threads).serving():
        np.testing.assert_array_equal(correlate(tensor, filters, windows), reference(tensor, filters, windows))
        np.testing.assert_array_equal(correlate_back(grads, filters, windows), reference_back(grads, filters, windows))
        np.testing.assert_array_equal(correlate_filter(tensor, grads, windows), reference_filter(tensor, grads, windows))


@pytest.mark.slow
@pytest.mark.usefixtures("blocks")
@pytest.mark.parametrize("tile", winograd.TILES)
def test_convolutions_and_gradients(tile: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(winograd, "TILES", (tile,))
    check()


def test_the_tiles_that_make_the_fewest_numbers() -> None:
    wide, narrow = (windows_of((size, size), (3, 3), (1, 1), (1, 1), "SAME") for size in (56, 13))
    assert winograd.chosen_transforms(wide, 1, 64, 64).tile == 4
    # tiles of 4 by 4 stand over the edge
    assert winograd.chosen_transforms(narrow, 16, 384, 384).tile == 2


def test_rounding_does_not_depend_on_the_threads() -> None:
    rng = np.random.default_rng(0)
    windows = windows_of((30, 30), (3, 3), (1, 1), (1, 1), "SAME")
    tensor = rng.standard_normal((6, 30, 30, 40)).astype(np.float32)
    filters = rng.standard_normal((3, 3, 40, 50)).astype(np.float32)
    grads = rng.standard_normal((6, 30, 30, 50)).astype(np.float32)
    results = []
    for threads in (1, 2, 3):
        with IntraOpPool(threads).serving():
            results.append(
                (
                    correlate(tensor, filters, windows),
                    correlate_back(grads, filters, windows),
                    correlate_filter(tensor, grads, windows),
                )
            )
    for other in results[1:]:
        for one, two in zip(results[0], other, strict=True):
            np.testing.assert_array_equal(one, two)


TILED = {
    f"{taps} {padding}": windows_of((rows, columns), (taps, taps), (1, 1), (1, 1), padding, pairs)
    for taps in winograd.TAPS
    for padding, rows, columns, pairs in (
        ("SAME", 15, 26, ()),
        ("VALID", 18, 29, ()),
        ("EXPLICIT", 14, 26, [(2, 2), (0, 1)]),
    )
}
"""Windows of the sizes that are computed in tiles, with tiles that stand over the edge."""


def all_three(tensor: Tensor, filters: Tensor, grads: Tensor, windows: tuple[SpatialWindow, ...]) -> list[Tensor]:
    with IntraOpPool(2).serving():
        return [
            correlate(tensor, filters, windows),
            correlate_back(grads, filters, windows),
            correlate_filter(tensor, grads, windows),
        ]


@pytest.mark.slow
@pytest.mark.parametrize("tile", winograd.TILES)
@pytest.mark.parametrize("name", TILED)
def test_tiles_are_nearly_as_near_as_plain_sums(name: str, tile: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(winograd, "TILES", (tile,))
    windows, rng = TILED[name], np.random.default_rng(0)
    tensor = rng.standard_normal((6, *(window.input for window in windows), 48)).astype(np.float32)
    filters = (rng.standard_normal((*(window.kernel for window in windows), 48, 40)) / 30).astype(np.float32)
    grads = (rng.standard_normal((6, *(window.outputs for window in windows), 40)) / 30).astype(np.float32)
    in_tiles = all_three(tensor, filters, grads, windows)
    monkeypatch.setattr(correlation, "suits", lambda *_: False)
    wide = [np.asarray(values, np.float64) for values in (tensor, filters, grads)]
    exact = all_three(wide[0], wide[1], wide[2], windows)
    for found, plain, wanted in zip(in_tiles, all_three(tensor, filters, grads, windows), exact, strict=True):
        assert not np.array_equal(found, plain)  # else it was not computed in tiles
        np.testing.assert_allclose(found, wanted, 1e-5, 1e-5)
        assert np.abs(found - wanted).max() < 5 * np.abs(plain - wanted).max()


@pytest.mark.parametrize("taps", winograd.TAPS)
@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan])
def test_what_is_not_finite_stays_under_its_windows(value: float, taps: int, monkeypatch: pytest.MonkeyPatch) -> None:
    windows, rng = TILED[f"{taps} SAME"], np.random.default_rng(0)
    tensor, grads = (rng.standard_normal((2, 15, 26, 32)).astype(np.float32) for _ in range(2))
    filters = rng.standard_normal((taps, taps, 32, 32)).astype(np.float32)
    tensor[1, 4, 7, 3] = grads[0, 3, 2, 1] = value
    in_tiles = all_three(tensor, filters, grads, windows)
    monkeypatch.setattr(correlation, "suits", lambda *_: False)
    for found, plain in zip(in_tiles, all_three(tensor, filters, grads, windows), strict=True):
        np.testing.assert_array_equal(found, plain)


FOLLOWED = {
    "blocks": (2, 40, 20, 5, 3, 2, 24),
    "one block": (1, 6, 6, 4, 3, 1, 5),
    "pointwise": (2, 40, 40, 32, 1, 1, 200),
    "strided pointwise": (2, 40, 40, 80, 1, 2, 300),
    "cut along the outputs": (1, 5, 5, 512, 1, 1, 2048),
    "wide filter": (1, 6, 6, 128, 3, 1, 700),
    "tiles": (2, 41, 27, 40, 3, 1, 36),
}


@pytest.mark.slow
@pytest.mark.parametrize("value", [1.0, np.inf])
@pytest.mark.parametrize("name", FOLLOWED)
@pytest.mark.usefixtures("blocks")
def test_what_follows_meets_each_row_once(name: str, value: float) -> None:
    batch, height, width, depth, taps, stride, channels = FOLLOWED[name]
    rng = np.random.default_rng(0)
    tensor = rng.standard_normal((batch, height, width, depth)).astype(np.float32)
    tensor[0, 2, 2, 1] = value
    filters = rng.standard_normal((taps, taps, depth, channels)).astype(np.float32)
    windows = windows_of((height, width), (taps, taps), (stride, stride), (1, 1), "SAME")
    begun: list[Tensor] = []

    def begin(output: Tensor) -> Callable[[slice], None]:
        begun.append(output)
        matrix = output.reshape(-1, channels)

        def finish(rows: slice) -> None:
            matrix[rows] += 1000

        return finish

    with IntraOpPool(2).serving():
        plain = correlation.correlate(tensor, filters, windows)
        found = correlation.correlate(tensor, filters, windows, begin)
    np.testing.assert_array_equal(found, plain + np.float32(1000))
    assert found is begun[-1]


@pytest.mark.parametrize(
    ("size", "channels", "taps", "is_tiled"),
    [
        (28, 128, 3, True),
        (28, 32, 3, False),
        (32, 32, 3, True),
        (23, 64, 3, True),
        (14, 256, 3, True),
        (13, 512, 3, False),
        (23, 64, 5, True),
        (22, 256, 5, False),
    ],
)
def test_few_windows_are_tiled_if_they_have_many_channels(size: int, channels: int, taps: int, is_tiled: bool) -> None:
    windows = windows_of((size, size), (taps, taps), (1, 1), (1, 1), "SAME")
    assert winograd.suits(windows, 1, channels, channels, np.dtype(np.float32)) is is_tiled


def test_checks_are_remembered_by_shapes_and_attrs() -> None:
    done = []

    @remembered
    def check(dims: tuple[int, ...], attrs: dict[str, Any]) -> str:
        done.append((dims, attrs))
        if not dims:
            raise ValueError("no dims")
        return f"{dims} {attrs}"

    same, valid = {"padding": "SAME"}, {"padding": "VALID"}
    for _ in range(2):
        assert check((1, 2), same) == f"(1, 2) {same}"
        assert check((1, 2), valid) == f"(1, 2) {valid}"
        assert check((2, 1), same) == f"(2, 1) {same}"
        with pytest.raises(ValueError, match="no dims"):
            check((), same)
    assert done == [((1, 2), same), ((1, 2), valid), ((2, 1), same), ((), same), ((), same)]
