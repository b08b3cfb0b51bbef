"""Inputs that no kernel can take: each is refused with an error of TensorFlow's classes, never with one of Python's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from placesim.core.errors import InternalError, InvalidArgumentError, NotFoundError, UnimplementedError
from tests.ops.kernels.kernel_calls import Machine

SAMPLER = {
    "num_true": 1,
    "num_sampled": 1,
    "unique": False,
    "range_max": 3,
    "vocab_file": "no-such-file",
    "unigrams": [],
    "num_reserved_ids": 0,
    "num_shards": 1,
    "shard": 0,
    "distortion": 1.0,
}
REFUSED: dict[str, tuple[str, tuple[Any, ...], dict[str, Any], str]] = {
    "a map's empty key": (
        "OrderedMapPeek",
        (np.array([], np.int64), np.array([0], np.int32)),
        {"dtypes": ["bool"]},
        "key must not be empty",
    ),
    "an open shape": ("TemporaryVariable", (), {"shape": (-1,), "dtype": "float"}, r"Shape \[\?\] is not fully defined"),
    "two seeds of random numbers": (
        "RandomDataset",
        (np.array([1, 2], np.int64), np.int64(1)),
        {"output_types": ["int64"], "output_shapes": [()]},
        "seed must be a scalar",
    ),
    "indices of a sparse tensor that are no matrix": (
        "SparseTensorSliceDataset",
        (np.ones((1, 2, 2), np.int64), np.ones(1, np.float32), np.array([2], np.int64)),
        {"Tvalues": "float"},
        r"Input indices must be a matrix. Got: \[1,2,2\]",
    ),
    "a sparse tensor with a value too few": (
        "SparseTensorSliceDataset",
        (np.ones((2, 1), np.int64), np.ones(1, np.float32), np.array([2], np.int64)),
        {"Tvalues": "float"},
        "Number of values must match first dimension of indices. Got 1 values",
    ),
    "a sparse tensor of another rank than its indices": (
        "SparseTensorSliceDataset",
        (np.ones((1, 1), np.int64), np.ones(1, np.float32), np.array([2, 2], np.int64)),
        {"Tvalues": "float"},
        "Number of dimensions must match second dimension of indices. Got 2 dimensions",
    ),
    "an area that is no number": (
        "SampleDistortedBoundingBoxV2",
        (np.array([40, 60, 3], np.int32), np.zeros((1, 1, 4), np.float32), np.float32(0.1)),
        {"T": "int32", "area_range": [1.0, float("nan")]},
        r"Area range must be non-negative: \[1, nan\]",
    ),
    "offsets of records of one file too many": (
        "TFRecordDatasetV2",
        (np.array(b"a", object), np.array(b"\xff", object), np.int64(0), np.array([0, 0], np.int64)),
        {},
        "`byte_offsets` must be 1 offsets",
    ),
    "a negative offset of records": (
        "TFRecordDatasetV2",
        (np.array(b"a", object), np.array(b"", object), np.int64(0), np.array([-3], np.int64)),
        {},
        "`byte_offsets` must be 1 offsets",
    ),
    "a compression that is no text": (
        "TextLineDataset",
        (np.array(b"a", object), np.array(b"\xff", object), np.int64(0)),
        {},
        "Unsupported compression_type",
    ),
    "no buckets": ("StringToHashBucket", (np.array([b"a"], object),), {"num_buckets": 0}, "must be at least minimum 1"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_kernel_refuses(case: str) -> None:
    op, inputs, attrs, message = REFUSED[case]
    with pytest.raises(InvalidArgumentError, match=message):
        Machine().run(op, *inputs, **attrs)


def test_no_box_is_endlessly_wide() -> None:
    inputs = np.array([40, 60, 3], np.int32), np.zeros((1, 1, 4), np.float32), np.float32(0)
    attrs = {"T": "int32", "aspect_ratio_range": [3e38, float("inf")]}
    _, size, _ = Machine().run("SampleDistortedBoundingBoxV2", *inputs, **attrs)
    assert size.tolist() == [40, 60, -1]


def test_an_empty_tensor_too_large_for_numpy() -> None:
    with pytest.raises(UnimplementedError, match=r"cannot hold a tensor of shape \[0,2147483647,2147483647\]"):
        Machine().run("Reshape", np.ones(0, np.float32), np.array([0, 2**31 - 1, 2**31 - 1], np.int32))


ROWS = np.array([0], np.int32)
NUMBERS = np.ones(1, np.float32)
UPDATES: dict[str, tuple[tuple[Any, ...], dict[str, Any]]] = {
    "AssignAddVariableOp": ((NUMBERS,), {"dtype": "float"}),
    "ResourceScatterMin": ((ROWS, NUMBERS), {"dtype": "float"}),
    "ResourceScatterNdAdd": ((ROWS[None], NUMBERS), {"T": "float"}),
    "ResourceStridedSliceAssign": ((ROWS, ROWS + 1, ROWS + 1, NUMBERS), {"T": "float"}),
    "ResourceGather": ((ROWS,), {"dtype": "float"}),
    "ResourceGatherNd": ((ROWS[None],), {"dtype": "float"}),
}


@pytest.mark.parametrize("op", UPDATES)
def test_a_variable_of_strings_is_no_variable_of_numbers(op: str) -> None:
    machine, (inputs, attrs) = Machine(), UPDATES[op]
    handle = machine.run("VarHandleOp", dtype="string", shape=(1,))
    machine.run("AssignVariableOp", handle, np.array([b"a"], object), dtype="string")
    with pytest.raises(InvalidArgumentError, match=r"Trying to use variable with wrong dtype\. Expected float got string"):
        machine.run(op, handle, *inputs, **attrs)


def test_a_variable_of_strings_is_not_trained() -> None:
    machine = Machine()
    handle = machine.run("VarHandleOp", dtype="string", shape=(1,))
    machine.run("AssignVariableOp", handle, np.array([b"a"], object), dtype="string")
    with pytest.raises(InternalError, match="Invalid variable reference"):
        machine.run("ResourceApplyGradientDescent", handle, np.float32(1), NUMBERS, T="float")


def test_a_reader_takes_one_number() -> None:
    machine = Machine()
    reader, queue = machine.run("WholeFileReaderV2"), machine.run("FIFOQueueV2", component_types=["string"])
    with pytest.raises(InvalidArgumentError, match="num_records must be a scalar"):
        machine.run("ReaderReadUpToV2", reader, queue, np.array([1, 2], np.int64))


def test_a_missing_vocabulary_is_not_found() -> None:
    with pytest.raises(NotFoundError, match="no-such-file; No such file or directory"):
        Machine().run("FixedUnigramCandidateSampler", np.array([[1]], np.int64), **SAMPLER)


def test_a_pattern_need_not_be_text(tmp_path: Path) -> None:
    pattern = str(tmp_path).encode() + b"/\xff*"
    assert Machine().run("MatchingFiles", np.array(pattern, object)).tolist() == []


def test_roots_and_logarithms_of_what_is_not_finite_are_not_numbers() -> None:
    machine = Machine()
    assert np.isnan(machine.run("MatrixSquareRoot", np.array([[np.inf, 0], [0, 1]], np.float32), T="float")).all()
    assert np.isnan(machine.run("MatrixLogarithm", np.array([[np.nan, 0], [0, 1]], np.complex64), T="complex64")).all()


def test_a_scalar_is_isotonic() -> None:
    values, runs = Machine().run("IsotonicRegression", np.float32(1.5), output_dtype="float")
    assert values == 1.5
    assert runs == 0


def test_an_empty_placeholder_stands_between_all_characters() -> None:
    attrs = {"T": ["int32"], "template": "ab", "placeholder": "", "summarize": 3}
    assert Machine().run("StringFormat", np.array([1, 2], np.int32), **attrs).item() == b"a[1 2]b"


@pytest.mark.parametrize("op", ["Case", "StatelessCase"])
def test_the_index_of_a_branch_is_a_scalar(op: str) -> None:
    with pytest.raises(InvalidArgumentError, match="branch_index must be scalar"):
        Machine().run(op, np.array([1, 2], np.int32), branches=[], Tin=[], Tout=[])
