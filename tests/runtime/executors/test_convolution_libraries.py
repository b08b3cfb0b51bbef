"""Gradients of dilated convolutions: cuDNN and oneDNN compute them, and TensorFlow's own kernels refuse them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import placesim
from placesim.core.errors import InvalidArgumentError

RATES = [1, 2, 2, 1]


def gradient(device: str = "/cpu:0", dtype: str = "float32", padding: str = "VALID", **options: Any) -> np.ndarray[Any, Any]:
    attrs = {"strides": [1, 1, 1, 1], "padding": padding, "dilations": RATES}
    if padding == "EXPLICIT":
        attrs["explicit_paddings"] = [0] * 8
    nodes = [
        {"op": "Const", "name": "size", "value": [1, 5, 5, 1]},
        {"op": "Const", "name": "filter", "dtype": dtype, "value": np.arange(9.0).reshape(3, 3, 1, 1).tolist()},
        {"op": "Const", "name": "change", "dtype": dtype, "value": [[[[2.0]]]]},
        {
            "op": "Conv2DBackpropInput",
            "name": "y",
            "inputs": ["size", "filter", "change"],
            "device": device,
            "attrs": attrs,
        },
    ]
    graph = {"devices": {"cpu": 1, "gpu": 1}, "nodes": nodes, "run": [{"fetch": ["y"]}]}
    found: np.ndarray[Any, Any] = placesim.run(graph, **options).results[0].array
    return found


@pytest.mark.parametrize("place", [{"device": "/gpu:0"}, {"device": "/gpu:0", "dtype": "float64"}, {"device": "/cpu:0"}])
def test_a_library_computes_the_gradient_of_a_dilated_convolution(place: dict[str, str]) -> None:
    expected = np.zeros((5, 5))
    expected[::2, ::2] = 2 * np.arange(9.0).reshape(3, 3)
    np.testing.assert_array_equal(gradient(**place).reshape(5, 5), expected)


@pytest.mark.parametrize("other", [{"dtype": "float64"}, {"padding": "EXPLICIT"}, {"tensorflow": "1.15"}])
def test_without_a_library_it_is_refused(other: dict[str, str]) -> None:
    with pytest.raises(InvalidArgumentError, match="do not yet support dilation rates larger than 1"):
        gradient(**other)
