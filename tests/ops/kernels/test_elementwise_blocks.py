"""Functions of large tensors in parts and threads, and those that are written to be taken in passes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from placesim.core.dtypes import DOUBLE, FLOAT
from placesim.ops.kernels.blocks import elementwise_blocks
from placesim.ops.kernels.math import elementwise
from placesim.ops.kernels.math import special as special_functions
from placesim.ops.kernels.nn import activations, losses
from placesim.ops.process import intra_op_threads
from placesim.ops.process.intra_op_threads import IntraOpPool

TABLE = {**elementwise.TABLE, **special_functions.TABLE, **activations.TABLE, **losses.TABLE}
IN_PARTS = {op for op, row in TABLE.items() if row.cost.kind == "cut"}
ROWS = ("LogSoftmax", "Softmax")


def computed(op: str, x: Any) -> Any:
    attrs: dict[str, Any] = {"T": FLOAT if x.dtype == np.float32 else DOUBLE}
    if op == "LeakyRelu":
        attrs["alpha"] = 0.2
    with np.errstate(all="ignore"):
        return TABLE[op].compute((x,), attrs)[0]


@pytest.mark.slow
@pytest.mark.parametrize("op", [*sorted(IN_PARTS), *ROWS])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_parts_show_in_no_bit(op: str, dtype: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    x = (np.random.default_rng(1).random((7, 50, 33)) * 0.9 + 0.05).astype(dtype).transpose(1, 0, 2)
    whole = computed(op, x)
    parts: list[int] = []

    def told(work: Any, some: Any) -> None:
        parts.append(len(some))
        intra_op_threads.spread(work, some)

    monkeypatch.setattr(elementwise_blocks, "spread", told)
    monkeypatch.setattr(elementwise_blocks, "PART_BYTES", x.nbytes // 8)
    with IntraOpPool(2).serving():
        found = computed(op, x)
    assert parts == [8]
    assert found.shape == x.shape
    assert found.tobytes() == whole.tobytes()


def test_of_a_long_row_nothing_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    from scipy import special

    x = np.random.default_rng(2).standard_normal(300).astype(np.float32)
    monkeypatch.setattr(elementwise_blocks, "PART_BYTES", 64)
    np.testing.assert_allclose(computed("Softmax", x), special.softmax(x), rtol=1e-6)
    assert computed("Softmax", x[:0]).shape == (0,)


def test_the_error_function_of_single_precision() -> None:
    from scipy import special

    x = np.concatenate([np.linspace(-6, 6, 100_001), np.geomspace(1e-30, 1, 1001)]).astype(np.float32)
    np.testing.assert_allclose(computed("Erf", x), special.erf(x.astype(np.float64)), rtol=5e-7)
    limits = computed("Erf", np.array([np.inf, -np.inf, np.nan, 0], np.float32))
    np.testing.assert_array_equal(limits, np.array([1, -1, np.nan, 0], np.float32))


@pytest.mark.parametrize(("dtype", "limit"), [(np.float32, 5e-7), (np.float64, 5e-16)])
def test_softplus(dtype: Any, limit: float) -> None:
    x = np.concatenate([np.linspace(-80, 80, 100_001), np.geomspace(1e-30, 1, 1001)]).astype(dtype)
    exact = np.logaddexp(np.longdouble(0), x.astype(np.longdouble))
    np.testing.assert_allclose(computed("Softplus", x), exact.astype(np.float64), rtol=limit)
    ends = computed("Softplus", np.array([np.inf, -np.inf, np.nan, 1000, -1000], dtype))
    np.testing.assert_array_equal(ends, np.array([np.inf, 0, np.nan, 1000, 0], dtype))


def test_predicted_times_know_which_ops_are_taken_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    def cut(work: Any, parts: Any) -> None:
        raise InterruptedError

    monkeypatch.setattr(elementwise_blocks, "spread", cut)
    monkeypatch.setattr(elementwise_blocks, "PART_BYTES", 64)
    x = np.full((40, 2), 0.5, np.float32)
    found = set()
    for op in {**elementwise.TABLE, **special_functions.TABLE, **activations.TABLE}:
        try:
            computed(op, x)
        except InterruptedError:
            found.add(op)
        except Exception:  # of two inputs, or of complex ones
            continue
    assert found == IN_PARTS


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_relu_of_long_rows_has_the_bits_of_numbers_one_by_one(dtype: Any) -> None:
    x = np.random.default_rng(3).standard_normal((3, activations.ROW // 2 + 5)).astype(dtype)
    x[:, 7::50] = [[np.nan], [-0.0], [-np.inf]]
    expected = np.array([max(number, 0.0) if number == number else number for number in x.reshape(-1)], dtype)
    expected[expected == 0] = 0  # relu of -0.0 is 0.0
    for given in (x, np.asfortranarray(x), x[:1]):
        wanted = expected[: given.size].reshape(given.shape)
        assert activations.relu(given).tobytes() == wanted.tobytes()
        kept = given.copy()
        activations.relu(kept, out=kept)
        assert kept.tobytes() == wanted.tobytes()
