"""What is many and small counts as well: strings, queues, batches, compressed files; and datasets that give nothing end."""

from __future__ import annotations

import gzip
import json
import random
import sys
import zlib
from pathlib import Path
from typing import Any

import pytest

import placesim
from placesim.ops.kernels.data import values
from placesim.ops.kernels.resources.file_access import decompress
from placesim.ops.process.memory_limit import OWN_BYTES
from tests.processes import run_process

Node = dict[str, Any]
LIMIT = 32 << 20
_RUN = "from placesim.ops.process import memory_limit; memory_limit.OWN_BYTES = 24 << 20; import placesim.__main__"


def const(name: str, value: Any, dtype: str) -> Node:
    return {"op": "Const", "name": name, "value": value, "dtype": dtype}


def ended(tmp_path: Path, graph: dict[str, Any], *options: str) -> tuple[int, str]:
    """Exit code and complaint of a run in a process of its own, whose memory nobody else has used, and little is its own."""
    (tmp_path / "graph.json").write_text(json.dumps(graph))
    code, _, complaint = run_process((sys.executable, "-c", _RUN, "run", tmp_path / "graph.json", *options))
    return code, complaint


def loop(start_value: Node, body: list[Node], result: str, dtype: str) -> dict[str, Any]:
    """A While that never ends: `body` makes `result` of the argument `a`."""
    attrs = {"T": [dtype], "cond": {"func": "Always"}, "body": {"func": "Body"}, "output_shapes": [], "parallel_iterations": 10}
    argument = {"name": "a", "type": dtype}
    true = {"op": "Const", "name": "t", "dtype": "bool", "value": True}
    return {
        "nodes": [start_value, {"op": "While", "name": "w", "inputs": [start_value["name"]], "attrs": attrs}],
        "functions": [
            {
                "name": "Always",
                "inputs": [argument],
                "outputs": [{"name": "o", "type": "bool", "value": "t:output:0"}],
                "nodes": [true],
            },
            {"name": "Body", "inputs": [argument], "outputs": [{"name": "o", "type": dtype, "value": result}], "nodes": body},
        ],
        "fetch": ["w:0"],
    }


DOUBLED = loop(
    const("s", "0123456789", "string"),
    [{"op": "StringJoin", "name": "j", "inputs": ["a", "a"], "attrs": {"N": 2, "separator": ""}}],
    "j:output:0",
    "string",
)


@pytest.mark.slow
def test_a_string_that_doubles(tmp_path: Path) -> None:
    code, complaint = ended(tmp_path, DOUBLED, "--memory-limit", str(LIMIT), "--timeout", "60")
    assert code == 1
    assert complaint.startswith("ResourceExhaustedError: OOM when allocating tensor with shape[] and type string on /job:")
    assert "node j (" in complaint


QUEUE = {"op": "FIFOQueueV2", "name": "q", "attrs": {"component_types": ["float"], "shapes": []}}
ENQUEUE = {"op": "QueueEnqueueV2", "name": "e", "inputs": ["q", "x"], "attrs": {"Tcomponents": ["float"]}}


@pytest.mark.slow
def test_a_queue_that_grows_step_by_step(tmp_path: Path) -> None:
    fill = {"op": "Fill", "name": "x", "inputs": [[10_000], 0.5]}
    graph = {"nodes": [QUEUE, fill, ENQUEUE], "run": [{"fetch": ["e"], "repeat": 1_000_000_000}]}
    code, complaint = ended(tmp_path, graph, "--memory-limit", str(LIMIT), "--timeout", "60")
    assert (code, complaint.splitlines()[0].partition(" [[")[0].strip()) == (
        1,
        f"ResourceExhaustedError: OOM: the tensors, strings and resources of this run take more than {LIMIT} bytes",
    )


def dataset(op: str, name: str, *inputs: str, **attrs: Any) -> Node:
    return {
        "op": op,
        "name": name,
        "inputs": list(inputs),
        "attrs": {"output_types": ["int64"], "output_shapes": [[]], **attrs},
    }


RANGE = [
    const("zero", 0, "int64"),
    const("one", 1, "int64"),
    const("many", 1 << 62, "int64"),
    const("ever", -1, "int64"),
    const("name", "", "string"),
    dataset("RangeDataset", "range", "zero", "many", "one"),
    dataset("RepeatDataset", "source", "range", "ever"),
]


def iterated(made: list[Node], shape: list[int] | None = None) -> dict[str, Any]:
    """The first element of the dataset that the last of some nodes makes."""
    attrs = {"output_types": ["int64"], "output_shapes": [[] if shape is None else shape]}
    nodes = [
        {"op": "IteratorV2", "name": "i", "attrs": {"shared_name": "i", "container": "", **attrs}},
        *made,
        {"op": "MakeIterator", "name": "m", "inputs": [made[-1]["name"], "i"]},
        {"op": "IteratorGetNext", "name": "n", "inputs": ["i"], "attrs": attrs},
    ]
    return {"nodes": nodes, "run": [{"fetch": ["m"]}, {"fetch": ["n:0"]}]}


@pytest.mark.slow
def test_a_batch_without_end(tmp_path: Path) -> None:
    graph = iterated([*RANGE, dataset("BatchDataset", "d", "source", "many", output_shapes=[[-1]])], [-1])
    code, complaint = ended(tmp_path, graph, "--memory-limit", str(LIMIT // 4), "--timeout", "60")
    assert code == 1
    assert complaint.startswith("ResourceExhaustedError: OOM: the tensors, strings and resources of this run take more than")
    assert "node n (" in complaint


PASSING_OVER: dict[str, list[Node]] = {
    "skip": [dataset("SkipDataset", "d", "source", "many")],
    "shard": [const("last", (1 << 62) - 1, "int64"), dataset("ShardDataset", "d", "source", "many", "last")],
    "skip of a range": [dataset("SkipDataset", "d", "range", "many")],
}


@pytest.mark.parametrize("case", ["skip", "shard", "skip of a range"])
def test_a_dataset_that_gives_nothing(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(values, "MAX_PASSED_OVER", 1000)
    with pytest.raises(placesim.ResourceExhaustedError, match="1000 elements of a dataset were passed over") as caught:
        placesim.run(iterated([*RANGE, *PASSING_OVER[case]]))
    assert caught.value.node == "n"


NEVER = {
    "name": "Never",
    "inputs": [{"name": "a", "type": "int64"}],
    "outputs": [{"name": "o", "type": "bool", "value": "f:output:0"}],
    "nodes": [{"op": "Const", "name": "f", "dtype": "bool", "value": False}],
}
FILTERED = iterated([*RANGE, dataset("FilterDataset", "d", "source", predicate={"func": "Never"}, Targuments=[])]) | {
    "functions": [NEVER]
}


def test_a_filter_that_lets_nothing_through(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(values, "MAX_PASSED_OVER", 1000)
    with pytest.raises(placesim.ResourceExhaustedError, match="1000 elements of a dataset were passed over"):
        placesim.run(FILTERED)


def test_what_is_passed_over_within_bounds_is_not_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(values, "MAX_PASSED_OVER", 1000)
    count = const("count", 999, "int64")
    found = placesim.run(iterated([*RANGE, count, dataset("SkipDataset", "d", "source", "count")])).results["n"]
    assert found == 999


@pytest.mark.slow
@pytest.mark.parametrize("case", ["skip", "filter", "batch"])
def test_a_timeout_ends_an_iteration(case: str) -> None:
    graph = {
        "skip": iterated([*RANGE, *PASSING_OVER["skip"]]),
        "filter": FILTERED,
        "batch": iterated([*RANGE, dataset("BatchDataset", "d", "source", "many", output_shapes=[[-1]])], [-1]),
    }[case]
    with pytest.raises(placesim.DeadlineExceededError, match=r"^Timed out waiting for notification$") as caught:
        placesim.run(graph, timeout=0.2)
    assert caught.value.help == ("step 1 was running",)


# --- compressed files -----------------------------------------------------------------------------------------------


def files_graph(kind: str) -> dict[str, Any]:
    nodes = [const("f", "bomb", "string"), const("k", kind, "string"), const("b", 0, "int64")]
    made = {"op": "TextLineDataset", "name": "d", "inputs": ["f", "k", "b"]}
    found = iterated([*nodes, made])
    for node in found["nodes"]:
        if "output_types" in node.get("attrs", {}):
            node["attrs"]["output_types"] = ["string"]
    return found


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "compress"), [("GZIP", gzip.compress), ("ZLIB", zlib.compress)])
def test_a_compressed_file_that_becomes_too_large(kind: str, compress: Any, tmp_path: Path) -> None:
    (tmp_path / "bomb").write_bytes(compress(b"x" * (2 * LIMIT), 1))
    graph = files_graph(kind)
    graph["nodes"][1]["value"] = str(tmp_path / "bomb")
    code, complaint = ended(tmp_path, graph, "--memory-limit", str(LIMIT))
    assert code == 1
    assert complaint.startswith("ResourceExhaustedError: OOM when allocating tensor with shape[] and type string on /job:")


@pytest.mark.slow
@pytest.mark.parametrize("size", [0, 1, 1 << 16, (1 << 20) - 1, 1 << 20, (3 << 20) + 5])
@pytest.mark.parametrize("letters", [b"x", bytes(range(256))])
def test_streams_one_behind_the_other_are_read_in_pieces(size: int, letters: bytes) -> None:
    data = random.Random(size).randbytes(size) if len(letters) > 1 else letters * size
    stream = gzip.compress(data, 1)
    assert decompress(stream + gzip.compress(data[:7]), "GZIP") == data + data[:7]
    assert decompress(zlib.compress(data, 1), "ZLIB") == data
    assert data.startswith(decompress(stream[:-9], "GZIP"))


def test_a_file_larger_than_the_limit(tmp_path: Path) -> None:
    with (tmp_path / "huge").open("wb") as file:
        file.truncate(1 << 40)
    nodes = [const("f", str(tmp_path / "huge"), "string"), {"op": "ReadFile", "name": "o", "inputs": ["f"]}]
    with pytest.raises(placesim.ResourceExhaustedError, match="OOM when allocating tensor"):
        placesim.run({"nodes": nodes, "fetch": ["o"]}, allow_all_files=True)


def test_ordinary_work_fits_beside_a_small_limit() -> None:
    assert OWN_BYTES > LIMIT
    fill = {"op": "Fill", "name": "x", "inputs": [[10], 0.5]}
    graph = {"nodes": [QUEUE, fill, ENQUEUE], "run": [{"fetch": ["e"], "repeat": 2000}]}
    assert placesim.run(graph, memory_limit=1 << 20).error is None


# --- strings --------------------------------------------------------------------------------------------------------


LONG = "x" * 1000
BLOWN: dict[str, tuple[list[Node], Node]] = {
    "AsString": ([const("a", [1, 2], "int32")], {"inputs": ["a"], "attrs": {"width": 1_000_000_000}}),
    "AsString precision": ([const("a", 1.5, "float")], {"inputs": ["a"], "attrs": {"precision": 1_000_000_000}}),
    "StringFormat": (
        [{"op": "Fill", "name": "a", "inputs": [[3_000_000], 0.5]}],
        {"inputs": ["a"], "attrs": {"template": "{}", "placeholder": "{}", "summarize": -1, "T": ["float"]}},
    ),
    "StringJoin": (
        [const("t", LONG, "string"), {"op": "Fill", "name": "a", "inputs": [[100_000], "t"]}],
        {"inputs": ["a", "a"], "attrs": {"separator": LONG}},
    ),
    "ReduceJoin": (
        [const("t", LONG, "string"), {"op": "Fill", "name": "a", "inputs": [[100_000], "t"]}, const("r", 0, "int32")],
        {"inputs": ["a", "r"]},
    ),
    "RegexReplace": (
        [const("a", "x" * 100_000, "string"), const("p", "x", "string"), const("w", LONG, "string")],
        {"inputs": ["a", "p", "w"]},
    ),
    "StaticRegexReplace": (
        [const("a", LONG, "string")],
        {"inputs": ["a"], "attrs": {"pattern": "x", "rewrite": "y" * 100_000}},
    ),
    "EncodeBase64": (
        [const("t", LONG, "string"), {"op": "Fill", "name": "a", "inputs": [[100_000], "t"]}],
        {"inputs": ["a"]},
    ),
    "StringNGrams": (
        [const("a", ["x"], "string"), const("s", [0, 1], "int64")],
        {
            "inputs": ["a", "s"],
            "attrs": {
                "separator": "",
                "ngram_widths": [1_000_000_000],
                "left_pad": "l",
                "right_pad": "r",
                "pad_width": -1,
                "preserve_short_sequences": False,
            },
        },
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("case", BLOWN)
def test_strings_that_have_no_room(case: str) -> None:
    nodes, node = BLOWN[case]
    with pytest.raises(placesim.ResourceExhaustedError, match="OOM when allocating tensor with shape") as caught:
        placesim.run(
            {"nodes": [*nodes, {"op": case.partition(" ")[0], "name": "o", **node}], "fetch": ["o"]}, memory_limit=LIMIT
        )
    assert caught.value.node == "o"


# --- numbers at the ends of their type --------------------------------------------------------------------------------

LEAST, MOST = -(1 << 63), (1 << 63) - 1
SMALL = [const("five", 5, "int64"), const("most", MOST, "int64"), dataset("RangeDataset", "r", "zero", "five", "one")]
ENDS: dict[str, tuple[list[Node], Any]] = {
    "range": ([const("a", LEAST, "int64"), dataset("RangeDataset", "d", "a", "most", "one")], LEAST),
    "range down": ([const("a", LEAST, "int64"), dataset("RangeDataset", "d", "most", "a", "ever")], MOST),
    "take": ([dataset("TakeDataset", "d", "r", "most")], 0),
    "repeat": ([dataset("RepeatDataset", "d", "r", "most")], 0),
    "shuffle": ([dataset("ShuffleDataset", "d", "r", "most", "one", "one")], 0),
}


@pytest.mark.parametrize("case", ENDS)
def test_a_dataset_at_the_ends_of_its_numbers(case: str) -> None:
    made, first = ENDS[case]
    found = placesim.run(iterated([*RANGE, *SMALL, *made])).results["n"]
    assert found == first or (case == "shuffle" and 0 <= found < 5)


def test_the_number_of_elements_may_be_more_than_python_counts() -> None:
    nodes = [
        *RANGE,
        *SMALL,
        const("a", LEAST, "int64"),
        dataset("RangeDataset", "d", "a", "most", "one"),
        {"op": "DatasetCardinality", "name": "o", "inputs": ["d"]},
    ]
    assert placesim.run({"nodes": nodes, "fetch": ["o"]}).results["o"] == MOST


@pytest.mark.parametrize("sizes", [("most", "one", "one"), ("one", "most", "one"), ("two", "one", "most"), ("most",) * 3])
def test_windows_at_the_ends_of_their_numbers(sizes: tuple[str, str, str]) -> None:
    made = dataset("WindowDataset", "d", "r", *sizes, "no")
    graph = iterated([*RANGE, *SMALL, const("two", 2, "int64"), const("no", False, "bool"), made])
    for node in graph["nodes"]:
        if node["name"] in ("d", "i", "n"):
            node["attrs"]["output_types"] = ["variant"]
    assert placesim.run(graph | {"run": [{"fetch": ["m"]}, {"fetch": ["n"]}]}).error is None


def test_a_batch_that_is_padded_to_a_huge_shape() -> None:
    made = [
        dataset("BatchDataset", "b", "r", "one", output_shapes=[[-1]]),
        const("to", [1 << 27], "int64"),
        {
            "op": "PaddedBatchDataset",
            "name": "d",
            "inputs": ["b", "one", "to", "zero"],
            "attrs": {"Toutput_types": ["int64"], "output_shapes": [[-1, -1]], "N": 1},
        },
    ]
    with pytest.raises(placesim.ResourceExhaustedError, match=r"shape\[1,134217728\] and type int64"):
        placesim.run(iterated([*RANGE, *SMALL, *made], [-1, -1]), memory_limit=LIMIT)


@pytest.mark.parametrize("buckets", [1 << 62, 1 << 40, 1 << 31])
def test_a_table_of_too_many_buckets(buckets: int) -> None:
    attrs = {"value_dtype": "int64", "initial_num_buckets": buckets}
    table = {"op": "MutableDenseHashTableV2", "name": "t", "inputs": ["empty", "deleted"], "attrs": attrs}
    nodes = [const("empty", -1, "int64"), const("deleted", -2, "int64"), table]
    size = {"op": "LookupTableSizeV2", "name": "o", "inputs": ["t"]}
    with pytest.raises(placesim.ResourceExhaustedError, match="OOM when allocating tensor") as caught:
        placesim.run({"nodes": [*nodes, size], "fetch": ["o"]}, memory_limit=LIMIT)
    assert caught.value.node == "t"


@pytest.mark.parametrize("shape", [(1,), (2, 2)])
def test_seeds_that_are_no_scalars(shape: tuple[int, ...]) -> None:
    seed = {"op": "Fill", "name": "s", "inputs": ["dims", "one"]}
    made = {"op": "AnonymousRandomSeedGenerator", "name": "g", "inputs": ["one", "s"]}
    nodes = [const("one", 1, "int64"), const("dims", list(shape), "int32"), seed, made]
    with pytest.raises(placesim.InvalidArgumentError, match="scalar"):
        placesim.run({"nodes": nodes, "fetch": ["g"]})
