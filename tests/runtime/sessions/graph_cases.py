"""Sessions of several steps that TensorFlow 2.21 ran: run one, compare each step, and say how it differs.

`python -m tests.runtime.sessions.graph_cases [FILE ...]` prints agreed / total and the first differences; the exit code is 1
where there are any.  A case is one of `tests.runtime.sessions.list_cases`, but for `steps`: each has its own fetches, outputs,
error and shapes.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from placesim.core.errors import OpError, PlacesimError
from placesim.formats.graph_file.reader import graph_file_from_mapping
from placesim.graph.graph import Graph, TensorRef
from placesim.graph.session_steps import Fetch, GraphStep
from placesim.machine.inventory import TaskInventory, build_devices
from placesim.runtime.sessions.session import GraphSession
from placesim.runtime.shapes.graph_shapes import GraphShapes
from tests.runtime.sessions.list_cases import comparable_message, read_cases, value_differences

FILE = Path(__file__).parent.parent.parent / "data" / "recorded-graphs.jsonl.gz"
SHOWN = 40


def differences(case: Mapping[str, Any], gpus: int = 0) -> list[str]:
    """How what placesim makes of a case differs from the recording; nothing where it does not."""
    file = graph_file_from_mapping(case["graph"], case["id"])
    session = GraphSession(file.graph, build_devices((TaskInventory(gpu=gpus),)), file.config, bare_fetch_is_target=True)
    shapes = GraphShapes(file.graph)
    return [
        text
        for step in case["steps"]
        for text in (*_step_differences(session, step), *_shape_differences(shapes, file.graph, step))
    ]


def _step_differences(session: GraphSession, step: Mapping[str, Any]) -> Iterator[str]:
    expected = step["error"]
    try:
        values = session.run(GraphStep(tuple(map(Fetch, step["fetch"])), ())).values
    except OpError as error:
        found = (error.type_name, comparable_message(error.message))
        if expected is None or found != (expected["type"], comparable_message(expected["message"])):
            yield f"{step['fetch']}: {': '.join(found)}\n      expected {expected or 'no error'}"
        return
    except Exception as error:  # a kernel's own mistake
        yield f"{step['fetch']}: {type(error).__name__}: {error}, expected {expected or 'no error'}"
        return
    if expected is not None:
        yield f"{step['fetch']}: no error, expected {expected}"
        return
    for value, recorded in zip(values, step["outputs"], strict=True):
        if recorded is not None:
            yield from value_differences(value.name, value.value, recorded)


def _shape_differences(shapes: GraphShapes, graph: Graph, step: Mapping[str, Any]) -> Iterator[str]:
    tensors = [tensor for tensor in step["fetch"] if ":" in tensor]
    for tensor, expected in zip(tensors, step["static_shape"], strict=True):
        name, _, slot = tensor.partition(":")
        try:
            dims = shapes.shape(TensorRef(graph.ids[name], int(slot)))
        except PlacesimError as error:
            yield f"{tensor}: static shape: {error}"
            continue
        if (None if dims is None else list(dims)) != expected:
            yield f"{tensor}: static shape {dims}, expected {expected}"


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
