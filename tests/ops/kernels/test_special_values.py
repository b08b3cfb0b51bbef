"""Special functions of denormals, zeros and infinities, as TensorFlow 2.21 computes them with denormals flushed."""

from __future__ import annotations

import numpy as np
import pytest

import placesim

LOG_FLOAT, LOG_DOUBLE = 103.97207641601562, 745.1332191019412
CASES = [
    # op, type, x, y
    ("Expint", "float", [1e-40, 1.17e-38, -1e-40, 0.0], [-103.39485931396484, -103.39485931396484, np.nan, -np.inf]),
    ("Expint", "double", [5e-324, 0.0], [-np.inf, -np.inf]),
    ("Lgamma", "float", [1e-40, -1e-40, 0.0], [LOG_FLOAT, LOG_FLOAT, np.inf]),
    ("Lgamma", "double", [5e-324, -1e-310, 0.0], [LOG_DOUBLE, LOG_DOUBLE, np.inf]),
    ("Dawsn", "float", [-1e-40, -0.0], [0.0, 0.0]),
]


@pytest.mark.parametrize(("op", "dtype", "x", "y"), CASES)
def test_denormals_and_zeros(op: str, dtype: str, x: list[float], y: list[float]) -> None:
    nodes = [{"op": "Const", "name": "x", "dtype": dtype, "value": x}, {"op": op, "name": "o", "inputs": ["x"]}]
    found = placesim.run({"nodes": nodes}).results["o:0"]
    np.testing.assert_allclose(found, y, rtol=1e-7)
    np.testing.assert_array_equal(np.signbit(found)[np.asarray(y) == 0], False)


LOGARITHMS = [
    # type, [real, imaginary], log
    ("complex64", ["inf", 0.0], complex(np.inf, np.nan)),
    ("complex64", [1.0, "inf"], complex(np.inf, np.nan)),
    ("complex64", [0.0, 0.0], complex(-np.inf, np.nan)),
    ("complex64", ["nan", 0.0], complex(np.nan, np.nan)),
    ("complex128", ["inf", 0.0], complex(np.nan, np.nan)),
    ("complex128", [0.0, 0.0], complex(np.nan, np.nan)),
    ("complex128", [-1.0, 0.0], complex(0, np.pi)),
]


@pytest.mark.parametrize(("dtype", "x", "y"), LOGARITHMS)
def test_the_logarithm_of_a_matrix_of_one(dtype: str, x: list[float], y: complex) -> None:
    nodes = [
        {"op": "Const", "name": "x", "dtype": dtype, "value": [[x]]},
        {"op": "MatrixLogarithm", "name": "o", "inputs": ["x"]},
    ]
    found = placesim.run({"nodes": nodes}).results["o:0"]
    np.testing.assert_array_equal(np.array([found[0, 0].real, found[0, 0].imag]), np.array([y.real, y.imag]))


def test_an_axis_that_is_not_there() -> None:
    nodes = [{"op": "Const", "name": "x", "value": 1.0}, {"op": "ApproxTopK", "name": "o", "inputs": ["x"], "attrs": {"k": 1}}]
    with pytest.raises(placesim.PlacesimError):
        placesim.run({"raw": True, "nodes": nodes})


@pytest.mark.parametrize(
    ("op", "inputs", "attrs", "expected"),
    [
        ("LeakyRelu", ["x"], {}, [-0.20000000298023224, 3.0]),
        ("LeakyRelu", ["x"], {"alpha": 0.1}, [-0.10000000149011612, 3.0]),
        ("LeakyReluGrad", ["x", "x"], {}, [-0.20000000298023224, 3.0]),
        ("ApproximateEqual", ["x", "y"], {"tolerance": 0.1}, [True, False]),
    ],
)
def test_float_attrs_are_float32_in_kernels_of_doubles(
    op: str, inputs: list[str], attrs: dict[str, float], expected: list[float]
) -> None:
    """As TensorFlow holds every float attr; 0.1 is less than the float32 that stands for it."""
    nodes = [
        {"op": "Const", "name": "x", "value": [-1.0, 3.0], "dtype": "double"},
        {"op": "Const", "name": "y", "value": [-1.1, 3.11], "dtype": "double"},
        {"op": op, "name": "o", "inputs": inputs, "attrs": attrs},
    ]
    assert placesim.run({"nodes": nodes}, fetch="o").results["o"].tolist() == expected
