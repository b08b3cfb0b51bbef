"""Inputs that no kernel can take: each is refused with an error of TensorFlow's classes, never with one of Python's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from placesim.core.errors import InvalidArgumentError, NotFoundError
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
    "no buckets": ("StringToHashBucket", (np.array([b"a"], object),), {"num_buckets": 0}, "must be at least minimum 1"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_kernel_refuses(case: str) -> None:
    op, inputs, attrs, message = REFUSED[case]
    with pytest.raises(InvalidArgumentError, match=message):
        Machine().run(op, *inputs, **attrs)


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
