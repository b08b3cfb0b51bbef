"""Datasets and iterators: what comes out, in which order, and when it ends."""

from __future__ import annotations

import gzip
import struct
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from placesim.core.checkpoints.crc32c import crc32c, mask
from placesim.core.errors import (
    DataLossError,
    FailedPreconditionError,
    InvalidArgumentError,
    NotFoundError,
    OutOfRangeError,
    PlacesimError,
)
from placesim.formats.graph_file.reader import graph_file_from_mapping
from placesim.graph.session_steps import Config, Fetch, GraphStep
from placesim.machine.inventory import TaskInventory, build_devices
from placesim.ops.kernels.philox import WordStream, seeded_philox
from placesim.ops.kernels.shapes import ShapeError
from placesim.runtime.sessions.session import GraphSession
from tests.ops.kernels.kernel_calls import Machine, shapes

ONE: dict[str, Any] = {"output_types": ["int64"], "output_shapes": [()]}


def elements(machine: Machine, dataset: Any, limit: int = 100, types: Sequence[str] = ("int64",)) -> list[Any]:
    """The elements of a dataset through an iterator, until it ends; an element of one component is that component."""
    attrs = {"output_types": list(types), "output_shapes": [None] * len(types)}
    iterator = machine.run("AnonymousIteratorV3", **attrs)
    machine.run("MakeIterator", dataset, iterator)
    found = []
    for _ in range(limit):
        try:
            found.append(machine.run("IteratorGetNext", iterator, **attrs))
        except OutOfRangeError:
            break
    return [value.tolist() if hasattr(value, "tolist") else value for value in found]


def numbers(machine: Machine, *bounds: int) -> Any:
    start, stop, step = bounds if len(bounds) == 3 else (0, bounds[0], 1)
    return machine.run("RangeDataset", np.int64(start), np.int64(stop), np.int64(step), **ONE)


def derive(machine: Machine, op: str, dataset: Any, *values: Any, **attrs: Any) -> Any:
    inputs = [np.int64(value) if type(value) is int else value for value in values]
    return machine.run(op, dataset, *inputs, **{**ONE, **attrs})


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (lambda m: numbers(m, 7, 1, -2), [7, 5, 3]),
        (lambda m: derive(m, "RepeatDataset", numbers(m, 2), 3), [0, 1, 0, 1, 0, 1]),
        (lambda m: derive(m, "RepeatDataset", numbers(m, 2), 0), []),
        (lambda m: derive(m, "TakeDataset", derive(m, "RepeatDataset", numbers(m, 2), -1), 5), [0, 1, 0, 1, 0]),
        (lambda m: derive(m, "RepeatDataset", numbers(m, 0), -1), []),
        (lambda m: derive(m, "TakeDataset", numbers(m, 3), -1), [0, 1, 2]),
        (lambda m: derive(m, "SkipDataset", numbers(m, 5), 3), [3, 4]),
        (lambda m: derive(m, "SkipDataset", numbers(m, 5), -1), []),
        (lambda m: derive(m, "ShardDataset", numbers(m, 7), 3, 1), [1, 4]),
        (lambda m: derive(m, "ConcatenateDataset", numbers(m, 2), numbers(m, 9, 11, 1)), [0, 1, 9, 10]),
        (lambda m: derive(m, "PrefetchDataset", numbers(m, 2), 4), [0, 1]),
        (lambda m: derive(m, "BatchDatasetV2", numbers(m, 5), 2, np.bool_(False)), [[0, 1], [2, 3], [4]]),
        (lambda m: derive(m, "BatchDatasetV2", numbers(m, 5), 2, np.bool_(True)), [[0, 1], [2, 3]]),
        (lambda m: derive(m, "UnbatchDataset", derive(m, "BatchDataset", numbers(m, 5), 2)), [0, 1, 2, 3, 4]),
        (lambda m: derive(m, "OptionsDataset", numbers(m, 2), serialized_options=""), [0, 1]),
    ],
)
def test_elements_and_their_number(make: Callable[[Machine], Any], expected: list[Any]) -> None:
    machine = Machine()
    dataset = make(machine)
    assert elements(machine, dataset) == expected
    assert elements(machine, dataset) == expected  # again from the beginning
    cardinality = int(machine.run("DatasetCardinality", dataset))
    assert cardinality in (len(expected), -2)


def test_tensors_and_slices() -> None:
    machine = Machine()
    attrs = {"Toutput_types": ["float", "string"], "output_shapes": [(2,), ()]}
    rows, words = np.arange(6, dtype=np.float32).reshape(3, 2), np.array([b"a", b"b", b"c"], object)
    dataset = machine.run("TensorSliceDataset", rows, words, **attrs)
    found = elements(machine, dataset, types=("float", "string"))
    assert [(row.tolist(), word.item()) for row, word in found] == [([0, 1], b"a"), ([2, 3], b"b"), ([4, 5], b"c")]
    whole = machine.run("TensorDataset", rows, Toutput_types=["float"], output_shapes=[(3, 2)])
    assert elements(machine, whole, types=("float",)) == [rows.tolist()]
    with pytest.raises(InvalidArgumentError, match="All components must have the same size in the 0th dimension"):
        machine.run("TensorSliceDataset", rows, words[:2], **attrs)
    zipped = machine.run(
        "ZipDataset", numbers(machine, 9), whole, N=2, output_types=["int64", "float"], output_shapes=[(), None]
    )
    assert [int(number) for number, _ in elements(machine, zipped, types=("int64", "float"))] == [0]


def test_windows_are_datasets() -> None:
    machine = Machine()
    for drop, expected in ((True, [[0, 2], [3, 5]]), (False, [[0, 2], [3, 5], [6]])):
        dataset = derive(machine, "WindowDataset", numbers(machine, 7), 2, 3, 2, np.bool_(drop), output_types=["variant"])
        windows = elements(machine, dataset, types=("variant",))
        assert [elements(machine, window) for window in windows] == expected
        assert machine.run("DatasetCardinality", dataset) == len(expected)


def test_padding_grows_to_the_largest_or_to_what_is_asked_for() -> None:
    machine = Machine({"f": lambda n: (np.full(int(n), int(n)),)})
    dataset = derive(machine, "MapDataset", numbers(machine, 1, 4, 1), f="f", Targuments=[], output_shapes=[(-1,)])

    def padded(size: int, shape: int) -> Any:
        attrs = {"Toutput_types": ["int64"], "output_shapes": [(-1, -1)], "N": 1}
        inputs = (np.int64(size), np.array([shape]), np.int64(-1), np.bool_(False))
        return elements(machine, machine.run("PaddedBatchDatasetV2", dataset, *inputs, **attrs))

    assert padded(2, -1) == [[[1, -1], [2, 2]], [[3, 3, 3]]]
    assert padded(3, 4) == [[[1, -1, -1, -1], [2, 2, -1, -1], [3, 3, 3, -1]]]
    with pytest.raises(DataLossError, match=r"Attempted to pad to a smaller size than the input element."):
        padded(3, 2)
    with pytest.raises(InvalidArgumentError) as caught:
        elements(machine, derive(machine, "BatchDataset", dataset, 2, output_shapes=[None]))
    assert caught.value.message == (
        "Cannot batch tensors with different shapes in component 0. First element had shape [1] and element 1 had shape [2]."
    )


# --- functions --------------------------------------------------------------------------------------------------------


def test_functions_map_filter_and_reduce() -> None:
    machine = Machine(
        {
            "double": lambda x, y: (x * y,),
            "is_odd": lambda x: (np.bool_(x % 2),),
            "is_small": lambda x: (np.bool_(x < 3),),
            "add": lambda state, x: (state + x,),
            "running": lambda state, x: (state + x, state * 10),
        }
    )
    mapped = derive(machine, "MapDataset", numbers(machine, 4), 10, f="double", Targuments=["int64"])
    assert elements(machine, mapped) == [0, 10, 20, 30]
    parallel = derive(machine, "ParallelMapDatasetV2", numbers(machine, 4), 3, 2, f="double", Targuments=["int64"])
    assert elements(machine, parallel) == [0, 3, 6, 9]
    assert elements(machine, derive(machine, "FilterDataset", numbers(machine, 6), predicate="is_odd", Targuments=[])) == [
        1,
        3,
        5,
    ]
    assert elements(machine, derive(machine, "TakeWhileDataset", numbers(machine, 9), predicate="is_small", Targuments=[])) == [
        0,
        1,
        2,
    ]
    state = {"f": "add", "Tstate": ["int64"], "Targuments": []}
    assert machine.run("ReduceDataset", numbers(machine, 5), np.int64(100), **state, **ONE) == 110
    scanned = derive(machine, "ScanDataset", numbers(machine, 4), 1, **{**state, "f": "running"})
    assert elements(machine, scanned) == [10, 10, 20, 40]
    batched = derive(
        machine, "MapAndBatchDataset", numbers(machine, 4), 2, 3, 1, np.bool_(False), f="double", Targuments=["int64"]
    )
    assert elements(machine, batched) == [[0, 2, 4], [6]]


def test_datasets_of_datasets_come_one_after_the_other_or_in_turn() -> None:
    machine = Machine()
    machine._functions["repeat"] = lambda x: (derive(machine, "RepeatDataset", numbers(machine, int(x), int(x) + 1, 1), 3),)
    call = {"f": "repeat", "Targuments": []}
    assert elements(machine, derive(machine, "FlatMapDataset", numbers(machine, 1, 4, 1), **call)) == [
        1,
        1,
        1,
        2,
        2,
        2,
        3,
        3,
        3,
    ]
    # TensorFlow's own example of interleaving
    for op in ("InterleaveDataset", "ParallelInterleaveDatasetV3"):
        extra = (2,) if op.startswith("Parallel") else ()
        dataset = derive(machine, op, numbers(machine, 1, 6, 1), 2, 2, *extra, **call)
        assert elements(machine, dataset) == [1, 1, 2, 2, 1, 2, 3, 3, 4, 4, 3, 4, 5, 5, 5]


def test_an_iteration_lives_on_after_an_error() -> None:
    def invert(value: Any) -> tuple[Any]:
        if value == 1:
            raise InvalidArgumentError("one is not for us")
        return (value,)

    machine = Machine({"f": invert})
    dataset = derive(machine, "MapDataset", numbers(machine, 4), f="f", Targuments=[])
    iterator = machine.run("IteratorV2", node="it", shared_name="", container="", **ONE)
    machine.run("MakeIterator", dataset, iterator)
    found: list[Any] = []
    for _ in range(4):
        try:
            found.append(int(machine.run("IteratorGetNext", iterator, **ONE)))
        except InvalidArgumentError as error:
            found.append(error.message)
    assert found == [0, "one is not for us", 2, 3]
    assert elements(machine, derive(machine, "IgnoreErrorsDataset", dataset)) == [0, 2, 3]


def test_a_function_that_is_out_of_range_ends_the_dataset() -> None:
    def stop(value: Any) -> tuple[Any]:
        if value == 2:
            raise OutOfRangeError("enough")
        return (value,)

    machine = Machine({"f": stop})
    assert elements(machine, derive(machine, "MapDataset", numbers(machine, 5), f="f", Targuments=[])) == [0, 1]
    kept = derive(machine, "MapDataset", numbers(machine, 5), f="f", Targuments=[], preserve_cardinality=True)
    with pytest.raises(InvalidArgumentError, match="Function invocation produced OutOfRangeError: enough"):
        elements(machine, kept)


# --- shuffling --------------------------------------------------------------------------------------------------------


def drawn(words: WordStream, count: int, buffer: int) -> list[int]:
    """What a buffer gives when each draw takes one of those that it holds and puts its first in that place."""
    held, coming, found = list(range(min(buffer, count))), iter(range(min(buffer, count), count)), []
    while held:
        index = words.word() % len(held)
        found.append(held[index])
        held[index] = held[0]
        held = held[1:] + [value for value in [next(coming, None)] if value is not None]
    return found


@pytest.mark.parametrize("buffer", [1, 3, 10, 50])
def test_shuffling_follows_the_seeds(buffer: int) -> None:
    machine = Machine()
    seeds = WordStream(seeded_philox(5, 7))
    dataset = derive(machine, "ShuffleDataset", numbers(machine, 10), buffer, 5, 7)
    for _ in range(2):  # each iteration draws seeds of its own
        words = WordStream(seeded_philox(seeds.word(), seeds.word()))
        assert elements(machine, dataset) == drawn(words, 10, buffer)


def test_shuffling_repeats_itself_where_it_is_told_to() -> None:
    machine = Machine()
    dataset = derive(machine, "ShuffleDataset", numbers(machine, 10), 10, 5, 7, reshuffle_each_iteration=False)
    first = elements(machine, dataset)
    assert elements(machine, dataset) == first
    assert first == drawn(WordStream(seeded_philox(5, 7)), 10, 10)
    assert sorted(first) == list(range(10))


def test_shuffled_epochs_follow_each_other() -> None:
    machine = Machine()
    both = derive(machine, "ShuffleAndRepeatDataset", numbers(machine, 6), 4, 5, 7, 3)
    apart = derive(machine, "RepeatDataset", derive(machine, "ShuffleDataset", numbers(machine, 6), 4, 5, 7), 3)
    assert elements(machine, both) == elements(machine, apart)


def test_a_seed_generator_is_shared() -> None:
    machine = Machine()
    handle, deleter = machine.run("AnonymousSeedGenerator", np.int64(5), np.int64(7), np.bool_(True))
    dataset = derive(machine, "ShuffleDatasetV3", numbers(machine, 10), 10, 1, 2, handle)
    seeds = WordStream(seeded_philox(5, 7))
    assert elements(machine, dataset) == drawn(WordStream(seeded_philox(seeds.word(), seeds.word())), 10, 10)
    machine.run("DeleteSeedGenerator", handle, deleter)
    dummy = machine.run("DummySeedGenerator")
    fallback = derive(machine, "ShuffleDatasetV3", numbers(machine, 10), 10, 5, 7, dummy, reshuffle_each_iteration=False)
    assert elements(machine, fallback) == drawn(WordStream(seeded_philox(5, 7)), 10, 10)
    everything = derive(machine, "ShuffleDatasetV3", numbers(machine, 10), -2, 5, 7, dummy, reshuffle_each_iteration=False)
    assert elements(machine, everything) == drawn(WordStream(seeded_philox(5, 7)), 10, 10)


def test_a_cache_asks_once() -> None:
    asked: list[int] = []

    def note(value: Any) -> tuple[Any]:
        asked.append(int(value))
        return (value,)

    machine = Machine({"f": note})
    mapped = derive(machine, "MapDataset", numbers(machine, 3), f="f", Targuments=[])
    cached = derive(machine, "CacheDataset", mapped, np.array(b"", object))
    for _ in range(3):
        assert elements(machine, cached) == [0, 1, 2]
    assert asked == [0, 1, 2]


def test_a_table_is_filled_from_a_dataset() -> None:
    machine = Machine()
    pairs = machine.run(
        "TensorSliceDataset",
        np.array([b"a", b"b"], object),
        np.array([1, 2]),
        Toutput_types=["string", "int64"],
        output_shapes=[(), ()],
    )
    table = machine.run("HashTableV2", key_dtype="string", value_dtype="int64")
    machine.run("InitializeTableFromDataset", table, pairs)
    found = machine.run("LookupTableFindV2", table, np.array([b"b", b"x"], object), np.int64(-1), Tin="string", Tout="int64")
    assert found.tolist() == [2, -1]
    other = machine.run("HashTableV2", node="other", key_dtype="string", value_dtype="float")
    with pytest.raises(InvalidArgumentError, match="Value dtype expected: 1 but obtained: 9 from the dataset"):
        machine.run("InitializeTableFromDataset", other, pairs)


# --- files ------------------------------------------------------------------------------------------------------------


def tf_record(data: bytes) -> bytes:
    head = struct.pack("<Q", len(data))
    return head + struct.pack("<I", mask(crc32c(head))) + data + struct.pack("<I", mask(crc32c(data)))


def name_of(path: Path) -> Any:
    return np.array([str(path).encode()], object)


def texts(machine: Machine, dataset: Any) -> list[bytes]:
    return elements(machine, dataset, types=("string",))


def test_records_of_files(tmp_path: Path) -> None:
    machine = Machine()
    none, size = np.array(b"", object), np.int64(0)
    lines = tmp_path / "lines.txt"
    lines.write_bytes(b"one\r\ntwo\n\nthree")
    assert texts(machine, machine.run("TextLineDataset", name_of(lines), none, size)) == [b"one", b"two", b"", b"three"]
    records = tmp_path / "r.tfrecord"
    records.write_bytes(tf_record(b"abc") + tf_record(b""))
    assert texts(machine, machine.run("TFRecordDataset", name_of(records), none, size)) == [b"abc", b""]
    zipped = tmp_path / "r.gz"
    zipped.write_bytes(gzip.compress(records.read_bytes()))
    kind = np.array(b"GZIP", object)
    assert texts(machine, machine.run("TFRecordDataset", name_of(zipped), kind, size)) == [b"abc", b""]
    fixed = tmp_path / "fixed"
    fixed.write_bytes(b"HHaabbccF")
    sizes = (np.int64(2), np.int64(2), np.int64(1), size)
    assert texts(machine, machine.run("FixedLengthRecordDataset", name_of(fixed), *sizes)) == [b"aa", b"bb", b"cc"]
    pattern = np.array(str(tmp_path / "*.t*").encode(), object)
    found = texts(machine, machine.run("MatchingFilesDataset", pattern))
    assert found == [str(lines).encode(), str(records).encode()]


def test_damaged_records_are_told(tmp_path: Path) -> None:
    machine = Machine()
    path = tmp_path / "r.tfrecord"
    good = tf_record(b"abc")
    for data, message in (
        (good + good[:-6] + b"X" + good[-5:], f"corrupted record at {len(good) + 12}"),
        (good + good[:-3], f"truncated record at {len(good) + 12}"),
        (b"not a record at all", "corrupted record at 0 (Is this even a TFRecord file?)"),
    ):
        path.write_bytes(data)
        with pytest.raises(DataLossError) as caught:
            texts(machine, machine.run("TFRecordDataset", name_of(path), np.array(b"", object), np.int64(0)))
        assert caught.value.message == message
    missing = machine.run("TextLineDataset", name_of(tmp_path / "no"), np.array(b"", object), np.int64(0))
    with pytest.raises(NotFoundError, match="no; No such file or directory"):
        texts(machine, missing)


# --- iterators --------------------------------------------------------------------------------------------------------


def test_an_iterator_must_begin_with_a_dataset_of_its_signature() -> None:
    machine = Machine()
    iterator = machine.run("IteratorV2", shared_name="", container="", output_types=["float"], output_shapes=[()])
    with pytest.raises(FailedPreconditionError, match=r"GetNext\(\) failed because the iterator has not been initialized"):
        machine.run("IteratorGetNext", iterator, output_types=["float"], output_shapes=[()])
    with pytest.raises(InvalidArgumentError, match=r"Data type mismatch at component 0: expected float but got int64."):
        machine.run("MakeIterator", numbers(machine, 3), iterator)
    other = machine.run("IteratorV2", node="o", shared_name="", container="", output_types=["int64"], output_shapes=[(2,)])
    with pytest.raises(InvalidArgumentError, match=r"Incompatible shapes at component 0: expected \[2\] but got \[\]."):
        machine.run("MakeIterator", numbers(machine, 3), other)


def test_an_iterator_has_a_string_handle() -> None:
    machine = Machine()
    iterator = machine.run("IteratorV2", shared_name="s", container="", **ONE)
    machine.run("MakeIterator", numbers(machine, 3), iterator)
    text = machine.run("IteratorToStringHandle", iterator)
    again = machine.run("IteratorFromStringHandleV2", text, **ONE)
    assert machine.run("IteratorGetNext", again, **ONE) == 0
    assert machine.run("IteratorGetNextSync", iterator, **ONE) == 1
    with pytest.raises(InvalidArgumentError, match="Could not parse string_handle as a valid ResourceHandle"):
        machine.run("IteratorFromStringHandleV2", np.array(b"\xff", object))
    machine.run("DeleteIterator", iterator, None)
    with pytest.raises(NotFoundError):
        machine.run("IteratorToStringHandle", iterator)


def test_optionals_hold_an_element_or_none() -> None:
    machine = Machine()
    iterator = machine.run("AnonymousIterator", **ONE)
    machine.run("MakeIterator", numbers(machine, 1), iterator)
    full, empty = (machine.run("IteratorGetNextAsOptional", iterator, **ONE) for _ in range(2))
    assert machine.run("OptionalHasValue", full)
    assert machine.run("OptionalGetValue", full, **ONE) == 0
    assert not machine.run("OptionalHasValue", empty)
    with pytest.raises(InvalidArgumentError, match=r"The given optional does not have a value."):
        machine.run("OptionalGetValue", empty, **ONE)
    made = machine.run("OptionalFromValue", np.zeros(2, np.float32), Toutput_types=["float"])
    with pytest.raises(InvalidArgumentError) as caught:
        machine.run("OptionalGetValue", made, output_types=["float"], output_shapes=[(3,)])
    assert caught.value.message == (
        "The given optional does not match the expected shape for component 0. Expected: [3]. Actual: [2]."
    )
    assert not machine.run("OptionalHasValue", machine.run("OptionalNone"))


@pytest.mark.parametrize(
    ("op", "values", "attrs", "message"),
    [
        ("BatchDataset", (0,), {}, "Batch size must be greater than zero."),
        ("ShuffleDataset", (0, 1, 1), {}, "buffer_size must be greater than zero or UNKNOWN_CARDINALITY"),
        ("ShardDataset", (2, 2), {}, "Index must be between 0 and 1 (currently index = 2)."),
        ("WindowDataset", (2, 0, 1, np.bool_(True)), {}, "Window shift must be greater than zero."),
        ("PrefetchDataset", (-2,), {}, "buffer_size must be >= 0 or set buffer_size to be -1 for auto-tuning"),
        ("TakeDataset", (np.zeros(2, np.int64),), {}, "count must be a scalar"),
        ("InterleaveDataset", (0, 1), {"f": "f", "Targuments": []}, "cycle_length must be greater than zero."),
    ],
)
def test_checks_are_in_tensorflows_words(op: str, values: tuple[Any, ...], attrs: dict[str, Any], message: str) -> None:
    machine = Machine()
    with pytest.raises(PlacesimError) as caught:
        derive(machine, op, numbers(machine, 3), *values, **attrs)
    assert caught.value.message == message


def test_a_dataset_has_one_element_or_it_is_an_error() -> None:
    machine = Machine()
    assert machine.run("DatasetToSingleElement", numbers(machine, 1), **ONE) == 0
    for count, message in ((0, "Dataset was empty."), (2, "Dataset had more than one element.")):
        with pytest.raises(InvalidArgumentError, match=message):
            machine.run("DatasetToSingleElement", numbers(machine, count), **ONE)


def test_static_shapes() -> None:
    assert shapes("TensorSliceDataset", (3,), Toutput_types=["float"], output_shapes=[()]) == [()]
    assert shapes("IteratorGetNext", (), output_types=["float"], output_shapes=[(-1, 2)]) == [(-1, 2)]
    with pytest.raises(ShapeError, match="Shape must be rank 0 but is rank 1"):
        shapes("TakeDataset", (), (2,), **ONE)


def test_a_pipeline_runs_in_a_session() -> None:
    one: dict[str, Any] = {"output_types": ["float"], "output_shapes": [[]]}
    rows: dict[str, Any] = {"op": "Const", "name": "rows", "dtype": "float", "shape": [4], "value": [1.0, -2.0, 3.0, 4.0]}
    pipeline: list[dict[str, Any]] = [
        rows,
        {
            "op": "TensorSliceDataset",
            "name": "slices",
            "inputs": ["rows"],
            "attrs": {"Toutput_types": ["float"], "output_shapes": [[]]},
        },
        {"op": "MapDataset", "name": "map", "inputs": ["slices"], "attrs": {**one, "f": {"func": "double"}, "Targuments": []}},
        {
            "op": "FilterDataset",
            "name": "filter",
            "inputs": ["map"],
            "attrs": {**one, "predicate": {"func": "positive"}, "Targuments": []},
        },
    ]
    within = [
        {**node, "inputs": [f"{name}:{'output' if name == 'rows' else 'handle'}:0" for name in node.get("inputs", ())]}
        for node in pipeline
    ]
    number = [{"name": "x", "type": "float"}]
    functions = [
        {
            "name": "double",
            "inputs": number,
            "outputs": [{"name": "y", "type": "float", "value": "add:z:0"}],
            "nodes": [{"op": "AddV2", "name": "add", "inputs": ["x", "x"], "attrs": {"T": "float"}}],
        },
        {
            "name": "positive",
            "inputs": number,
            "outputs": [{"name": "y", "type": "bool", "value": "greater:z:0"}],
            "nodes": [
                {"op": "Const", "name": "zero", "dtype": "float", "shape": [], "value": 0.0},
                {"op": "Greater", "name": "greater", "inputs": ["x", "zero:output:0"], "attrs": {"T": "float"}},
            ],
        },
        {
            "name": "make",
            "inputs": [],
            "outputs": [{"name": "d", "type": "variant", "value": "filter:handle:0"}],
            "nodes": within,
        },
    ]
    nodes = [
        *pipeline,
        {"op": "IteratorV2", "name": "it", "attrs": {**one, "shared_name": "", "container": ""}},
        {"op": "MakeIterator", "name": "begin", "inputs": ["filter", "it"]},
        {"op": "IteratorGetNext", "name": "next", "inputs": ["it"], "attrs": one},
        {"op": "OneShotIterator", "name": "once", "attrs": {**one, "dataset_factory": {"func": "make"}}},
        {"op": "IteratorGetNext", "name": "next_of_once", "inputs": ["once"], "attrs": one},
    ]
    file = graph_file_from_mapping({"raw": True, "nodes": nodes, "functions": functions})
    session = GraphSession(file.graph, build_devices([TaskInventory(cpu=1)]), Config(), bare_fetch_is_target=True)
    session.run(GraphStep((Fetch("begin"),)))
    for name in ("next", "next_of_once"):
        for expected in (2.0, 6.0, 8.0):
            assert session.run(GraphStep((Fetch(name + ":0"),))).values[0].value == expected
        with pytest.raises(OutOfRangeError) as caught:
            session.run(GraphStep((Fetch(name + ":0"),)))
        assert caught.value.message == f"End of sequence\n\t [[{{{{node {name}}}}}]]"
