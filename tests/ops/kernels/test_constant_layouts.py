"""Operands in other layouts: products in pieces, and what is kept of constants."""

from __future__ import annotations

import gc
from unittest.mock import Mock

import numpy as np
import pytest

from placesim.ops.kernels.blocks import constant_layouts
from placesim.ops.kernels.blocks.constant_layouts import announce, arranged, is_constant
from placesim.ops.kernels.kernel import Tensor
from placesim.ops.kernels.linalg import products
from placesim.ops.kernels.nn import winograd
from placesim.ops.kernels.nn.correlation import correlate
from placesim.ops.kernels.nn.windows import windows_of
from placesim.ops.process.intra_op_threads import IntraOpPool
from placesim.ops.process.memory_limit import ProcessMemory, serving_memory


def test_a_constant_is_arranged_once() -> None:
    constant, made = np.ones((32, 64), np.float32), []

    def turn(operand: Tensor) -> Tensor:
        made.append(operand.shape)
        return np.ascontiguousarray(operand.T)

    arranged(constant, "turned", turn)
    announce(constant)
    for operand in (constant, constant, constant.reshape(64, 32), constant.reshape(64, 32), constant[:16], constant.T):
        assert arranged(operand, "turned", turn).shape == operand.shape[::-1]
    assert made == [(32, 64), (32, 64), (64, 32), (16, 64), (64, 32)]
    assert is_constant(constant.reshape(-1))
    assert not is_constant(constant.copy())


def test_a_turned_constant_has_arrangements_of_its_own() -> None:
    constant = np.asfortranarray(np.arange(1024.0).reshape(32, 32))
    announce(constant)
    for operand in (constant, constant.T, constant):
        np.testing.assert_array_equal(arranged(operand, "copy", np.copy), operand)


def test_arrangements_last_as_long_as_their_constant() -> None:
    constant = np.ones((32, 64), np.float32)
    announce(constant)
    key = id(constant)
    assert key in constant_layouts._constants
    del constant
    gc.collect()
    assert key not in constant_layouts._constants


def test_nothing_is_kept_without_room() -> None:
    constant, made = np.ones((1024, 1024), np.float32), []
    announce(constant)
    with serving_memory(ProcessMemory(1 << 20)):
        for _ in range(2):
            arranged(constant, "copy", lambda operand: made.append(1) or operand.copy())  # type: ignore[func-returns-value]
    assert len(made) == 2


@pytest.mark.parametrize("rows", [5, 40, 77])
@pytest.mark.parametrize("columns", [60, 128, 144, 192, 200, 1000])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32])
def test_products_in_pieces(rows: int, columns: int, dtype: type, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("SMALL_PRODUCT", 20_000), ("PART_WORK", 1 << 15), ("COPIED_ROWS", 50), ("PART_LENGTH", 8)):
        monkeypatch.setattr(products, name, value)
    rng = np.random.default_rng(0)
    left: Tensor = rng.integers(-9, 9, (rows, 30)).astype(dtype)
    right: Tensor = rng.integers(-9, 9, (30, columns)).astype(dtype)
    kept = right.copy()
    announce(kept)
    with IntraOpPool(2).serving():
        for operand in (right, kept, kept, np.asfortranarray(right)):
            np.testing.assert_array_equal(products.product(left, operand), np.matmul(left, right))
        np.testing.assert_array_equal(products.product(np.asfortranarray(left), kept), np.matmul(left, right))


def test_a_constant_filter_of_few_windows_is_transformed_to_tiles_once(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    windows = windows_of((7, 7), (3, 3), (1, 1), (1, 1), "SAME")
    tensor, filters = rng.random((1, 7, 7, 512), np.float32), rng.random((3, 3, 512, 512), np.float32)
    plain = correlate(tensor, filters, windows)
    announce(filters)
    transform = Mock(wraps=winograd._transformed_filter)
    monkeypatch.setattr(winograd, "_transformed_filter", transform)
    for _ in range(2):
        np.testing.assert_allclose(correlate(tensor, filters, windows), plain, 1e-5)
    transform.assert_called_once()
