"""Rules of kernels whose memory depends on more than the recorded cases try; what they should do was measured in TensorFlow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from placesim.core.dtypes import FLOAT, INT32, INT64, DataType
from placesim.machine.memory.buffers import Buffer
from placesim.ops.kernels import load_kernels
from placesim.ops.kernels.memory_rules import KernelMemory, TensorMemory
from tests.ops.kernels.op_memory import RecordingSource

TYPES = {np.dtype(np.float32): FLOAT, np.dtype(np.int32): INT32, np.dtype(np.int64): INT64}


class EventPool(RecordingSource):
    """Writes down what is allocated and, negative, what is freed, as TensorFlow's trace of a kernel does."""

    def __init__(self) -> None:
        super().__init__()
        self.events: list[int] = []

    def allocate(self, size: int, owner: str) -> Buffer:
        buffer = super().allocate(size, owner)
        self.events.append(buffer.allocated)
        return buffer

    def free(self, buffer: Buffer) -> None:
        super().free(buffer)
        self.events.append(-buffer.allocated)


def _tensor(pool: EventPool, array: np.ndarray[Any, Any]) -> TensorMemory:
    dtype = TYPES[array.dtype]
    return TensorMemory(array.shape, dtype, pool.allocate(array.nbytes, "input") if array.nbytes else None, array)


def _run(
    op: str, inputs: Sequence[Any], attrs: Mapping[str, Any] | None = None, is_read: Sequence[bool] | None = None
) -> tuple[list[int], list[TensorMemory], list[TensorMemory]]:
    """The events of a kernel with inputs that nothing else holds, and its inputs and outputs."""
    kernel = load_kernels()[op]
    arrays = [np.asarray(value) for value in inputs]
    attrs = {"T": TYPES[arrays[0].dtype], "keep_dims": False, **(attrs or {})}
    pool = EventPool()
    tensors = [_tensor(pool, array) for array in arrays]
    outputs = [TensorMemory(np.shape(value), _dtype_of(value)) for value in kernel.compute(arrays, attrs)]
    pool.events.clear()
    KernelMemory("op", tensors, outputs, attrs, pool, is_read=is_read).run(kernel.memory)
    return pool.events, tensors, outputs


def _dtype_of(value: Any) -> DataType:
    return TYPES.get(np.asarray(value).dtype, FLOAT)


@pytest.mark.parametrize(
    ("equation", "shapes", "events"),
    [
        ("bij,bkj->bki", [(2, 30, 400), (2, 50, 400)], [12032, 12032, -12032]),
        ("iij->j", [(8, 8, 100)], [25600, 3328, 512, -3328, -25600]),
        ("iji->ij", [(8, 100, 8)], [25600, 3328, -25600]),
        ("...ij,...jk->...ik", [(3, 1, 4, 5), (6, 5, 7)], [2048]),
        ("ijkl->l", [(3, 4, 5, 600)], [144128, 2560, -144128]),
        ("ijj,jk->kii", [(30, 9, 9), (9, 5)], [1280, 768, 18176, 18176, -18176, -768, -1280]),
        ("ij,jk->ki", [(1, 30), (30, 1)], [256, 256, -256]),
        ("ab,cb->", [(30, 4), (50, 4)], [512, 256, -512, 1024, 256, -1024, 256, -256, -256]),
        ("ji->ij", [(0, 5)], []),
        ("ij->ij", [(3, 5)], []),
    ],
)
def test_einsum_copies_operands_where_they_need_it(equation: str, shapes: Any, events: list[int]) -> None:
    found, _, _ = _run("Einsum", [np.ones(shape, np.float32) for shape in shapes], {"equation": equation})
    assert found == events


@pytest.mark.parametrize(
    ("op", "shape", "axes", "events"),
    [
        ("Mean", (4, 5, 6, 70), [0, 2], [1536, 33792, -33792]),
        ("EuclideanNorm", (4, 5, 6, 70), [1, 3], [256, 33792, -33792]),
        ("Max", (4, 1, 6, 1, 70, 2), [0, 3, 4], [256, 13568, -13568]),
        ("Sum", (4, 5, 6, 70), [0], [8448]),
        ("Sum", (0, 5, 6, 70), [0, 2], [1536]),
        ("Prod", (2, 1), [1], []),
        ("EuclideanNorm", (2, 1), [1], [256]),
    ],
)
def test_reductions_copy_only_axes_of_many_groups(op: str, shape: Any, axes: list[int], events: list[int]) -> None:
    found, _, _ = _run(op, [np.ones(shape, np.float32), np.array(axes, np.int32)])
    assert found == events


@pytest.mark.parametrize(
    ("shapes", "forwarded"),
    [([(), (1,)], 1), ([(1,), ()], 0), ([(), ()], 0), ([(1, 3), (3,)], 0), ([(3,), (2, 3)], 1), ([(3, 1), (1, 3)], None)],
)
def test_binary_ops_write_over_an_input_of_the_outputs_size(shapes: Any, forwarded: int | None) -> None:
    _, inputs, _ = _run("Mul", [np.ones(shape, np.float32) for shape in shapes])
    assert [index for index, tensor in enumerate(inputs) if tensor.buffer is None] == ([] if forwarded is None else [forwarded])


@pytest.mark.parametrize(
    ("rows", "is_read", "events"),
    [
        ([0, 1, 2], [True, True, False, False], []),
        ([0, 1, 2], [True] * 4, [256, 256]),
        ([2, 1, 0], [True, True, False, False], [256, 256]),
        ([0, 1], [True, True, False, True], [256, 256, 256]),
    ],
)
def test_filled_rows_that_nothing_reads_are_not_made(rows: list[int], is_read: list[bool], events: list[int]) -> None:
    indices = np.array([[row, 1] for row in rows], np.int64)
    values = np.ones(len(rows), np.float32)
    found, _, _ = _run("SparseFillEmptyRows", [indices, values, np.array([3, 4]), np.float32(1)], is_read=is_read)
    assert found == events


@pytest.mark.parametrize(
    ("indices", "is_handed_on"),
    [
        ([[0, 0], [1, 2], [2, 1]], True),
        ([[2, 1], [1, 2], [0, 0]], False),
        ([[0, 0], [0, 0], [2, 1]], False),
        ([[0, 0], [0, 9], [2, 1]], False),
    ],
)
def test_sparse_reorder_hands_on_what_is_in_order(indices: Any, is_handed_on: bool) -> None:
    inputs = [np.array(indices, np.int64), np.ones(3, np.float32), np.array([3, 4])]
    events, tensors, outputs = _run("SparseReorder", inputs)
    assert not events
    assert [out.buffer is given.buffer for out, given in zip(outputs, tensors[:2], strict=True)] == [is_handed_on] * 2
