"""The graph of a script as bytes, which the script's process sends to the caller: nodes, their lines, config and steps.

The bytes are a pickle, with the nodes as a GraphDef. Reading it creates only plain values, arrays and placesim's own records,
so that no code of a script runs in the calling process.
"""

from __future__ import annotations

import io
import pickle
from array import array
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np

from placesim.core.dtypes import DTYPES
from placesim.core.errors import GraphFileError, Location, Problem
from placesim.formats.recognition import ScriptGraph
from placesim.formats.tensorflow.graph_def import read_graph_def, write_graph_def
from placesim.graph.graph import DeviceScope
from placesim.graph.session_steps import Config, GraphFile, GraphStep
from placesim.machine.inventory import TaskInventory
from placesim.machine.links import NO_LINKS, MachineLinks
from placesim.ops.registry import Registry


@dataclass(frozen=True, slots=True)
class _RecordedParts:
    """The content of the bytes. `locations` has the location of each node, packed as in `Node.location`."""

    script: str
    files: tuple[str, ...]
    gradients_of: dict[str, str]
    scope_lines: dict[str, tuple[int, ...]]
    device_scopes: list[DeviceScope]
    graph_def: bytes
    locations: array[int]
    config: Config
    steps: tuple[GraphStep, ...] | None
    each_step: tuple[GraphStep, ...] | None
    inventory: tuple[TaskInventory, ...] | None
    links: MachineLinks


_OWN_MODULES = (
    "ml_dtypes.",
    "placesim.graph.",
    *(
        f"placesim.machine.{name}."
        for name in ("device_names", "gpu_memory", "gpu_models", "gpu_options", "host_models", "inventory", "links")
    ),
    "placesim.formats.script_graph.",
    "placesim.core.errors.",
)
_OTHERS = {
    ("array", "array"),
    ("array", "_array_reconstructor"),
    ("builtins", "bytes"),
    ("builtins", "complex"),
    ("builtins", "set"),
    ("builtins", "frozenset"),
    ("placesim.formats.script_graph", "_make_array"),
    ("placesim.formats.script_graph", "_make_scalar"),
}
"""Other functions and classes that a pickle may use to create values."""
_KINDS = "biufcSUmM"
"""numpy's letters for the kinds of its own types, without objects and records."""


@cache
def _types_by_name() -> dict[str, np.dtype[Any]]:
    """Return the numpy types of TensorFlow's number types, by name. This imports the package `ml_dtypes`."""
    return {known.numpy.name: known.numpy for known in DTYPES.values() if known.numpy.kind not in "OSU"}


def _make_array(dtype: str, shape: tuple[int, ...], elements: bytes | list[Any]) -> Any:
    """Return an array. Raises UnpicklingError for an unsupported type, and ValueError for a wrong number of bytes."""
    if isinstance(elements, list):
        found = np.empty(len(elements), object)
        found[:] = elements
        return found.reshape(shape)
    # numpy's own types are written with their byte order, others such as bfloat16 by name
    known = None if dtype[:1] in "<>|=" else _types_by_name().get(dtype)
    kind = np.dtype(dtype) if known is None else known
    if known is None and kind.kind not in _KINDS:
        raise pickle.UnpicklingError(f"unsupported type {dtype}")
    return np.frombuffer(bytearray(elements), kind).reshape(shape) if elements else np.empty(shape, kind)


def _make_scalar(*parts: Any) -> Any:
    return _make_array(*parts)[()]


class _Pickler(pickle.Pickler):
    """A pickler that writes arrays by type name and bytes. numpy's own pickles could make objects of arbitrary bytes."""

    def reducer_override(self, value: Any) -> Any:
        """Return how to make a value again: by `_make_array` for arrays, `_make_scalar` for numpy's numbers."""
        if isinstance(value, np.dtype):
            raise pickle.PicklingError("unsupported value: got a numpy type, expected an array or a number")
        if not isinstance(value, np.ndarray | np.generic):
            return NotImplemented
        array = np.asarray(value)
        elements = array.reshape(-1).tolist() if array.dtype.hasobject else array.tobytes()
        name = array.dtype.name if array.dtype.kind == "V" or array.dtype.name.startswith("float8") else array.dtype.str
        return (_make_array if isinstance(value, np.ndarray) else _make_scalar), (name, array.shape, elements)


class _Values(pickle.Unpickler):
    """An unpickler that creates only values."""

    def find_class(self, module: str, name: str) -> Any:
        """Return a class of values. Raises UnpicklingError for anything else, such as a module's functions."""
        if (module, name) in _OTHERS:
            return super().find_class(module, name)
        if "." not in name and f"{module}.".startswith(_OWN_MODULES):
            found = super().find_class(module, name)
            if isinstance(found, type) and found.__module__ == module:
                return found
        raise pickle.UnpicklingError(f"unsupported value {module}.{name}")


def write_script_graph(file: GraphFile) -> ScriptGraph:
    """Serialise the graph file of a script. Raises GraphFileError if a GraphDef can't hold the graph."""
    recorded = _RecordedParts(
        script=file.graph.file,
        files=tuple(file.graph.files),
        gradients_of=file.graph.gradients_of,
        scope_lines=file.graph.scope_lines,
        device_scopes=file.graph.device_scopes,
        graph_def=write_graph_def(file),
        locations=array("q", [node.location for node in file.graph.nodes]),
        config=replace(file.config, gpu_options_location=None),
        steps=file.steps,
        each_step=file.each_step,
        inventory=file.inventory,
        links=file.links,
    )
    written = io.BytesIO()
    _Pickler(written, pickle.HIGHEST_PROTOCOL).dump(recorded)
    return ScriptGraph(written.getvalue())


def read_script_graph(data: ScriptGraph, registry: Registry | None = None) -> GraphFile:
    """Return the graph file that `write_script_graph` wrote. Raises GraphFileError for invalid bytes."""
    try:
        recorded = _Values(io.BytesIO(data)).load()
    except (pickle.UnpicklingError, EOFError, AttributeError, ImportError, IndexError, TypeError, ValueError) as error:
        raise _unreadable(str(error)) from None
    if not isinstance(recorded, _RecordedParts):
        raise _unreadable(f"got a {type(recorded).__name__}")
    file = read_graph_def(recorded.graph_def, recorded.script, registry)
    file.graph.files, file.graph.gradients_of = list(recorded.files), recorded.gradients_of
    file.graph.scope_lines, file.graph.device_scopes = recorded.scope_lines, recorded.device_scopes
    for node, location in zip(file.graph.nodes, recorded.locations, strict=True):
        node.location = location
    return replace(
        file,
        config=recorded.config,
        steps=recorded.steps,
        each_step=recorded.each_step,
        inventory=recorded.inventory,
        links=recorded.links if recorded.links else NO_LINKS,
    )


def _unreadable(detail: str) -> GraphFileError:
    return GraphFileError((Problem(Location("<script>", 0, 0), f"cannot read what a script built: {detail}"),))
