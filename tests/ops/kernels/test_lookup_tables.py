"""Lookup tables: filled once or changed at will, from tensors or text files; TensorFlow's checks and words."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from placesim.core.errors import FailedPreconditionError, InvalidArgumentError, NotFoundError, PlacesimError, UnimplementedError
from placesim.ops.kernels.shapes import ShapeError
from placesim.ops.kernels.string.hashing import murmur_hash64
from tests.ops.kernels.kernel_calls import Machine, shapes

TYPES = {"key_dtype": "string", "value_dtype": "int64"}
FIND = {"Tin": "string", "Tout": "int64"}


def strings(*texts: str) -> Any:
    found = np.empty(len(texts), object)
    found[:] = [text.encode() for text in texts]
    return found


def find(machine: Machine, table: Any, *keys: str, default: int = -1) -> list[int]:
    found = machine.run("LookupTableFindV2", table, strings(*keys), np.int64(default), **FIND)
    assert found.dtype == np.int64
    return [int(value) for value in found]


def test_a_table_is_filled_once() -> None:
    machine = Machine()
    table = machine.run("HashTableV2", node="t", **TYPES)
    assert machine.run("LookupTableSizeV2", table) == 0
    with pytest.raises(FailedPreconditionError, match=r"Table not initialized."):
        find(machine, table, "a")
    init = {"Tkey": "string", "Tval": "int64"}
    machine.run("InitializeTableV2", table, strings("a", "b"), np.array([1, 2]), **init)
    assert find(machine, table, "b", "x", "a") == [2, -1, 1]
    machine.run("InitializeTableV2", table, strings("c", "d"), np.array([3, 4]), **init)  # as many: taken for the same
    assert find(machine, table, "c") == [-1]
    with pytest.raises(FailedPreconditionError, match=r"Table was already initialized with different data."):
        machine.run("InitializeTableV2", table, strings("c"), np.array([3]), **init)
    with pytest.raises(UnimplementedError, match="Insert not supported by InitializableLookupTable implementations"):
        machine.run("LookupTableInsertV2", table, strings("c"), np.array([3]), **FIND)
    keys, values = machine.run("LookupTableExportV2", table, Tkeys="string", Tvalues="int64")
    assert dict(zip(keys.tolist(), values.tolist(), strict=True)) == {b"a": 1, b"b": 2}


def test_one_key_has_one_value() -> None:
    machine = Machine()
    table = machine.run("HashTableV2", **TYPES)
    with pytest.raises(FailedPreconditionError) as caught:
        machine.run("InitializeTableV2", table, strings("a", "a"), np.array([1, 2]), Tkey="string", Tval="int64")
    assert caught.value.message == "HashTable has different value for same key. Key a has 1 and trying to add value 2"


@pytest.mark.parametrize("kind", ["MutableHashTable", "MutableHashTableOfTensors"])
def test_a_changing_table_is_told_what_to_hold(kind: str) -> None:
    machine = Machine()
    width = () if kind == "MutableHashTable" else (2,)
    extra = {"value_shape": width} if width else {}
    table = machine.run(kind + "V2", key_dtype="int64", value_dtype="float", **extra)
    attrs = {"Tin": "int64", "Tout": "float"}

    def values(*numbers: float) -> Any:
        column = np.array(numbers, np.float32)
        return np.stack([column, -column], 1) if width else column

    machine.run("LookupTableInsertV2", table, np.array([1, 2, 3]), values(10, 20, 30), **attrs)
    machine.run("LookupTableRemoveV2", table, np.array([2, 9]), Tin="int64")
    missing = values(7)[0]
    found = machine.run("LookupTableFindV2", table, np.array([[3, 2], [1, 3]]), missing, **attrs)
    assert found.shape == (2, 2, *width)
    assert found.reshape(4, -1)[:, 0].tolist() == [30, 7, 10, 30]
    whole = machine.run("LookupTableFindV2", table, np.array([5, 1]), values(8, 9), **attrs)
    assert whole.reshape(2, -1)[:, 0].tolist() == [8, 10]
    machine.run("LookupTableImportV2", table, np.array([4]), values(40), **attrs)
    assert machine.run("LookupTableSizeV2", table) == 1
    keys, exported = machine.run("LookupTableExportV2", table, Tkeys="int64", Tvalues="float")
    assert keys.tolist() == [4]
    assert exported.shape == (1, *width)


def test_a_dense_table_exports_its_buckets() -> None:
    machine = Machine()
    attrs = {"key_dtype": "int64", "value_dtype": "int64", "initial_num_buckets": 8}
    table = machine.run("MutableDenseHashTableV2", np.int64(0), np.int64(-1), **attrs)
    both = {"Tin": "int64", "Tout": "int64"}
    machine.run("LookupTableInsertV2", table, np.array([11, 3, 19]), np.array([1, 2, 3]), **both)
    keys, values = machine.run("LookupTableExportV2", table, Tkeys="int64", Tvalues="int64")
    # 11, 3 and 19 all hash to bucket 3: one further, then two further
    assert keys.reshape(-1).tolist() == [0, 0, 0, 11, 3, 0, 19, 0]
    assert values.reshape(-1).tolist() == [0, 0, 0, 1, 2, 0, 3, 0]
    machine.run("LookupTableRemoveV2", table, np.array([3]), Tin="int64")
    assert machine.run("LookupTableFindV2", table, np.array([19, 3]), np.int64(-5), **both).tolist() == [3, -5]
    machine.run("LookupTableInsertV2", table, np.arange(20, 30), np.arange(10), **both)
    assert machine.run("LookupTableExportV2", table, Tkeys="int64", Tvalues="int64")[0].shape == (16, 1)
    assert machine.run("LookupTableFindV2", table, np.array([29, 11]), np.int64(-5), **both).tolist() == [9, 1]
    copy = machine.run("MutableDenseHashTableV2", np.int64(0), np.int64(-1), node="copy", **attrs)
    machine.run("LookupTableImportV2", copy, *machine.run("LookupTableExportV2", table, Tkeys="int64", Tvalues="int64"), **both)
    assert machine.run("LookupTableSizeV2", copy) == 12
    with pytest.raises(InvalidArgumentError, match="Using the empty_key as a table key is not allowed"):
        machine.run("LookupTableFindV2", table, np.array([0]), np.int64(-5), **both)


def test_a_dense_table_of_strings_hashes_as_tensorflow_does() -> None:
    machine = Machine()
    attrs = {"key_dtype": "string", "value_dtype": "float", "initial_num_buckets": 4}
    empty, deleted = np.array(b"", object), np.array(b"-", object)
    table = machine.run("MutableDenseHashTableV2", empty, deleted, **attrs)
    machine.run("LookupTableInsertV2", table, strings("key"), np.array([2], np.float32), Tin="string", Tout="float")
    keys, _ = machine.run("LookupTableExportV2", table, Tkeys="string", Tvalues="float")
    assert keys.reshape(-1).tolist().index(b"key") == murmur_hash64(b"key") % 4


@pytest.fixture
def vocabulary(tmp_path: Path) -> str:
    path = tmp_path / "words.txt"
    path.write_bytes(b"the\t10\nof\t20\r\nand\t30\n")
    return str(path)


@pytest.mark.parametrize(
    ("attrs", "expected"),
    [
        ({"key_index": 0, "value_index": -1}, [1, 2]),
        ({"key_index": 0, "value_index": -1, "offset": 5}, [6, 7]),
        ({"key_index": 0, "value_index": 1}, [20, 30]),
        ({"key_index": 0, "value_index": 1, "vocab_size": 2}, [20, -1]),
    ],
)
def test_a_table_is_filled_from_a_text_file(vocabulary: str, attrs: dict[str, int], expected: list[int]) -> None:
    machine = Machine()
    table = machine.run("HashTableV2", **TYPES)
    name = np.array(vocabulary.encode(), object)
    for _ in range(2):  # once more changes nothing
        machine.run("InitializeTableFromTextFileV2", table, name, **attrs)
    assert find(machine, table, "of", "and") == expected


@pytest.mark.parametrize(
    ("attrs", "message"),
    [
        ({"key_index": -1, "value_index": 1}, "Key index for line number requires table key dtype of int64, got string"),
        ({"key_index": 0, "value_index": 0}, "Field the in line 0 is not a valid int64."),
        (
            {"key_index": 0, "value_index": 2},
            "Invalid number of columns in FILE line 0 (the\t10) : expected at least 3 got 2",
        ),
        ({"key_index": 0, "value_index": -1, "vocab_size": 5}, "Invalid vocab_size in FILE: expected 5 but got 3"),
        ({"key_index": 0, "value_index": -1, "delimiter": "ab"}, "delimiter should be only 1 char"),
    ],
)
def test_a_text_file_must_fit(vocabulary: str, attrs: dict[str, Any], message: str) -> None:
    machine = Machine()
    table = machine.run("HashTableV2", **TYPES)
    with pytest.raises(InvalidArgumentError) as caught:
        machine.run("InitializeTableFromTextFileV2", table, np.array(vocabulary.encode(), object), **attrs)
    assert caught.value.message.replace(vocabulary, "FILE") == message
    assert machine.run("LookupTableSizeV2", table) == 0


def test_a_missing_file_is_the_systems_error() -> None:
    machine = Machine()
    table = machine.run("HashTableV2", **TYPES)
    with pytest.raises(NotFoundError) as caught:
        machine.run("InitializeTableFromTextFileV2", table, np.array(b"/nowhere/words", object), key_index=0, value_index=-1)
    assert caught.value.message == "/nowhere/words; No such file or directory"


@pytest.mark.parametrize(
    ("run", "message"),
    [
        (
            lambda m, t: m.run("LookupTableFindV2", t, np.array([1]), np.int64(0), Tin="int64", Tout="int64"),
            "Signature mismatch, have: resource, int64, int64->int64 expected: resource, string, int64->int64",
        ),
        (
            lambda m, t: m.run("LookupTableFindV2", t, strings("a"), np.zeros(3, np.int64), **FIND),
            "Expected shape [] or [1] for default value, got [3]",
        ),
        (
            lambda m, t: m.run("LookupTableInsertV2", t, strings("a", "b"), np.zeros(3, np.int64), **FIND),
            "Expected shape [2] for value, got [3]",
        ),
        (
            lambda m, t: m.run("InitializeTableV2", t, strings("a"), np.array([1]), Tkey="string", Tval="int64"),
            "Table localhost _0_t is not initializable",
        ),
        (
            lambda m, t: m.run("MutableHashTableV2", node="t", key_dtype="int64", value_dtype="float"),
            "Conflicting key/value dtypes int64->float with string-int64 for table _0_t",
        ),
    ],
)
def test_checks_are_in_tensorflows_words(run: Any, message: str) -> None:
    machine = Machine()
    table = machine.run("MutableHashTableV2", node="t", **TYPES)
    with pytest.raises(PlacesimError) as caught:
        run(machine, table)
    assert caught.value.message == message


def test_tables_are_shared_by_name_or_not_at_all() -> None:
    machine = Machine()
    one = machine.run("MutableHashTableV2", node="a", shared_name="s", **TYPES)
    assert machine.run("MutableHashTableV2", node="b", shared_name="s", **TYPES) == one
    assert machine.run("MutableHashTable", node="c", use_node_name_sharing=True, **TYPES).value.tolist()[1] == b"c"
    first, second = (machine.run("AnonymousMutableHashTable", node="d", **TYPES) for _ in range(2))
    machine.run("LookupTableInsertV2", first, strings("a"), np.array([1]), **FIND)
    assert machine.run("LookupTableSizeV2", second) == 0


def test_static_shapes() -> None:
    assert shapes("HashTable", **TYPES) == [(2,)]
    assert shapes("LookupTableFindV2", (), (3,), (), **FIND) == [None]
    assert shapes("LookupTableExport", (2,), Tkeys="string", Tvalues="int64") == [(-1,), None]
    with pytest.raises(ShapeError, match="Dimensions must be equal, but are 2 and 3"):
        shapes("LookupTableImportV2", (), (2,), (3,), **FIND)
