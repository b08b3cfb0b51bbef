"""Scattering into a tensor or variable whose elements lie in memory in another order, as a transposed one's do."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

from placesim.core.dtypes import FLOAT
from placesim.ops.kernels.array.indices import COMBINATIONS
from placesim.ops.kernels.array.tensor_scatters import add_without_alias, scatter_into_copy, update_rows
from placesim.ops.kernels.device_resources import VariableResource
from placesim.ops.kernels.state.scatters import build_scatter
from placesim.ops.kernels.state.scatters_nd import build_scatter_nd


@pytest.mark.parametrize(
    ("kernel", "indices"),
    [
        (partial(scatter_into_copy, combine=COMBINATIONS["Update"]), np.array([[1], [2]], np.int32)),
        (add_without_alias, np.array([[1], [2]], np.int32)),
        (partial(update_rows, combine=COMBINATIONS["Update"]), np.array([1, 2], np.int32)),
    ],
)
def test_a_transposed_tensor_is_scattered_into_as_any(kernel: object, indices: np.ndarray) -> None:
    tensor = np.zeros((2, 4, 3), np.float32).transpose(1, 0, 2)
    updates = np.ones((2, 2, 3), np.float32)
    (result,) = kernel([tensor, indices, updates], {"T": FLOAT, "bad_indices_policy": ""})  # type: ignore[operator]
    assert result[1:3].min() == 1
    assert result.sum() == updates.sum()
    assert tensor.sum() == 0


@pytest.mark.parametrize(("build", "indices"), [(build_scatter, [1, 2]), (build_scatter_nd, [[1], [2]])])
def test_a_variable_that_holds_a_transposed_tensor_is_scattered_into(build: Callable[..., Any], indices: list[Any]) -> None:
    tensor = np.zeros((2, 4, 3), np.float32).transpose(1, 0, 2)
    variable, updates = VariableResource("v", FLOAT, tensor), np.ones((2, 2, 3), np.float32)
    build(COMBINATIONS["Add"])([variable, np.array(indices), updates], {"T": FLOAT, "bad_indices_policy": ""}, None)
    assert variable.value is not None
    assert variable.value.sum() == variable.value[1:3].sum() == updates.sum()
    assert tensor.sum() == 0
