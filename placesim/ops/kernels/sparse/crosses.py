"""Combinations of the features in each row of several columns, joined to strings or hashed to buckets."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np

from placesim.core.errors import InvalidArgumentError
from placesim.ops.attributes import Attrs
from placesim.ops.farmhash import MASK, fingerprint64, shift_mix
from placesim.ops.kernels.kernel import Kernel, Table, Tensor
from placesim.ops.kernels.shapes import infer_by
from placesim.ops.kernels.sparse.tensors import check_rank
from placesim.ops.kernels.string.hashing import MURMUR_MULTIPLIER
from placesim.ops.process.memory_limit import check_elements

_LARGEST = 2**63 - 1


def cross(inputs: Sequence[Any], attrs: Attrs) -> Sequence[Tensor]:
    """Return indices `[entries, 2]`, values and shape `[rows, most entries of a row]` of the combinations.

    With `hashed_output`, values are hashes below `num_buckets`; strings are replaced by their fingerprints first.
    """
    columns = _columns(inputs, attrs)
    if not attrs["hashed_output"]:
        return _joined(columns, b"_X_")
    hashes = [[[item if isinstance(item, int) else fingerprint64(item) for item in row] for row in rows] for rows in columns]
    limit = attrs["num_buckets"] or _LARGEST
    return _combined(hashes, lambda items: _hash_all(items, attrs["hash_key"]) % limit, np.int64)


def cross_joined(inputs: Sequence[Any], attrs: Attrs) -> Sequence[Tensor]:
    """As `cross`: combinations joined by the separator that is the last input."""
    return _joined(_columns(inputs[:-1], attrs), inputs[-1].item())


def _columns(inputs: Sequence[Any], attrs: Attrs) -> list[list[list[Any]]]:
    """Return the features of each column by row. Raises InvalidArgumentError for inputs that do not fit."""
    count = attrs["N"]
    columns = []
    sparse = zip(inputs[:count], inputs[count : 2 * count], inputs[2 * count : 3 * count], strict=True)
    for position, (indices, values, shape) in enumerate(sparse):
        _check_sparse(indices, values, shape, position)
        rows: list[list[Any]] = [[] for _ in range(int(shape[0]))]
        for row, item in zip(indices[:, 0].tolist(), values.tolist(), strict=True):
            if not 0 <= row < len(rows):
                raise InvalidArgumentError(f"Row {row} of an index is not in [0, {len(rows)}) at position {position}")
            rows[row].append(item)
        columns.append(rows)
    for position, matrix in enumerate(inputs[3 * count :]):
        check_rank(matrix, 2, f"Dense inputs should be a matrix, at position {position}, but received shape ")
        columns.append(matrix.tolist())
    for position, found in enumerate(columns):
        if len(found) != len(columns[0]):
            raise InvalidArgumentError(f"Expected batch size {len(columns[0])} got {len(found)} at position {position}")
    return columns


def _check_sparse(indices: Tensor, values: Tensor, shape: Tensor, position: int) -> None:
    check_rank(indices, 2, f"Input indices should be a matrix, at position {position}, but received shape ")
    check_rank(values, 1, f"Input values should be a vector, at position {position}, but received shape ")
    check_rank(shape, 1, f"Input shapes should be a vector, at position {position}, but received shape ")
    if indices.shape[1] != 2 or len(shape) != 2:
        raise InvalidArgumentError(f"Expected D2 of index to be 2 got {indices.shape[1]} at position {position}")
    if len(indices) != len(values):
        raise InvalidArgumentError(f"Expected size of values to be {len(indices)} got {len(values)} at position {position}")
    check_elements(max(int(shape[0]), 0))


def _joined(columns: list[list[list[Any]]], separator: bytes) -> Sequence[Tensor]:
    texts = [[[b"%d" % item if isinstance(item, int) else item for item in row] for row in rows] for rows in columns]
    return _combined(texts, separator.join, object)


def _combined(columns: list[list[list[Any]]], combine: Any, dtype: Any) -> Sequence[Tensor]:
    """The combinations of each row; the last column's features change fastest."""
    rows = [[combine(items) for items in product(*features)] for features in zip(*columns, strict=True)]
    places = [(row, number) for row, found in enumerate(rows) for number in range(len(found))]
    values = np.empty(len(places), dtype)
    values[:] = [value for found in rows for value in found]
    shape = np.array([len(rows), max(map(len, rows), default=0)], np.int64)
    return np.array(places, np.int64).reshape(-1, 2), values, shape


def _hash_all(items: Sequence[int], key: int) -> int:
    found = key & MASK
    for item in items:
        mixed = shift_mix((item & MASK) * MURMUR_MULTIPLIER & MASK) * MURMUR_MULTIPLIER & MASK
        found = ((found ^ MURMUR_MULTIPLIER) ^ mixed) * MURMUR_MULTIPLIER & MASK
        found = shift_mix(shift_mix(found) * MURMUR_MULTIPLIER & MASK)
    return found


TABLE: Table = {
    "SparseCross": Kernel(cross, infer_by("-> [?, 2], [?], [2]")),
    "SparseCrossV2": Kernel(cross_joined, infer_by("-> [?, 2], [?], [2]")),
}
