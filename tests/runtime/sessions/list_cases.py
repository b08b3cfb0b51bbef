"""Programs over tensor arrays, tensor lists and stacks that TensorFlow 2.21 ran: run one, compare it, and say how it differs.

`python -m tests.runtime.sessions.list_cases [FILE ...]` prints agreed / total and the first differences; the exit code is 1
where there are any.
"""

from __future__ import annotations

import gzip
import json
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from placesim.core.dtypes import STRING, parse_dtype
from placesim.core.errors import OpError
from placesim.formats.graph_file.reader import graph_file_from_mapping
from placesim.graph.graph import Graph, TensorRef
from placesim.graph.session_steps import Fetch, GraphFile, GraphStep
from placesim.machine.inventory import TaskInventory, build_devices
from placesim.runtime.sessions.session import GraphSession
from placesim.runtime.shapes.graph_shapes import GraphShapes

FILE = Path(__file__).parent.parent.parent / "data" / "list-graphs.jsonl.gz"
SHOWN = 20


def read_cases(path: Path = FILE) -> Iterator[dict[str, Any]]:
    """The cases of a file: a raw graph, what to fetch, and what came of it, or the error."""
    with gzip.open(path, "rt") as lines:
        yield from map(json.loads, lines)


def differences(case: Mapping[str, Any]) -> list[str]:
    """How what placesim makes of a case differs from the recording; nothing where it does not."""
    file = graph_file_from_mapping(case["graph"], case["id"])
    return _shape_differences(file.graph, case) + _run_differences(file, case)


def _run_differences(file: GraphFile, case: Mapping[str, Any]) -> list[str]:
    session = GraphSession(file.graph, build_devices((TaskInventory(),)), file.config, bare_fetch_is_target=True)
    try:
        values = session.run(GraphStep(tuple(map(Fetch, case["fetch"])), ())).values
    except OpError as error:
        found, expected = (error.type_name, error.message), case["error"] and (case["error"]["type"], case["error"]["message"])
        is_same = expected and found[0] == expected[0] and comparable_message(found[1]) == comparable_message(expected[1])
        return [] if is_same else [f"{': '.join(found)}\n      expected {': '.join(expected or ('no error',))}"]
    if case["error"] is not None:
        return [f"no error, expected {case['error']}"]
    pairs = zip(values, case["outputs"], strict=True)
    return [text for value, expected in pairs for text in value_differences(value.name, value.value, expected)]


def comparable_message(message: str) -> str:
    """A message without what names the node, and without the number in an array's name, which counts over a whole process."""
    return re.sub(r"((?:TensorArray |Stack\[|_tensor_array_grads)\w*?)_\d+\b", r"\1", message.partition("\n\t [[")[0])


def _shape_differences(graph: Graph, case: Mapping[str, Any]) -> list[str]:
    """How the static shapes of what is fetched differ from those that TensorFlow inferred."""
    shapes = GraphShapes(graph)
    found = []
    for tensor, expected in zip(case["fetch"], case["static_shape"], strict=False):  # an op that is fetched has no shape
        name, _, slot = tensor.partition(":")
        dims = shapes.shape(TensorRef(graph.ids[name], int(slot)))
        if (None if dims is None else list(dims)) != expected:
            found.append(f"{tensor}: static shape {dims}, expected {expected}")
    return found


def value_differences(name: str, value: Any, expected: Mapping[str, Any]) -> Iterator[str]:
    """How a value differs from the one recorded."""
    array, dtype = np.asarray(value), parse_dtype(expected["dtype"])
    if list(array.shape) != expected["shape"]:
        yield f"{name}: shape {list(array.shape)}, expected {expected['shape']}"
        return
    flat: list[Any] = array.reshape(-1).tolist()
    if dtype is STRING:
        flat = [text.decode("latin1") for text in flat]
    elif dtype.numpy.kind == "c":
        flat = [[number.real, number.imag] for number in flat]
    if flat != expected["value"]:
        yield f"{name}: {flat}, expected {expected['value']}"


def main(arguments: Sequence[str] = tuple(sys.argv[1:])) -> int:
    """Print the figures of the files named, or of the recording; 1 where a case differs."""
    differing = 0
    for path in map(Path, arguments or [str(FILE)]):
        found = {case["id"]: differences(case) for case in read_cases(path)}
        problems = {case_id: texts for case_id, texts in found.items() if texts}
        for case_id, texts in list(problems.items())[:SHOWN]:
            print(case_id, *texts, sep="\n    ")
        print(f"{path.name}: {len(found) - len(problems)} / {len(found)} agreed")
        differing += len(problems)
    return 1 if differing else 0


if __name__ == "__main__":
    raise SystemExit(main())
