"""A script's graph is a pickle of values: it comes from a script's process alone, and nothing but values come of it."""

from __future__ import annotations

import io
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import placesim
from placesim.core.dtypes import DTYPES
from placesim.core.errors import GraphFileError, Location, PlacesimError
from placesim.formats.recognition import ScriptGraph
from placesim.formats.script_graph import _make_array, _Pickler, _Values, read_script_graph

MAGIC = b"\x93placesim script graph 1\n"
"""With it a file was once taken for a script's graph."""
CALLABLES = [
    ("ml_dtypes", "_finfo.np.lib._datasource.os.system"),
    ("ml_dtypes", "finfo.__init__"),
    ("os", "system"),
    ("builtins", "eval"),
    ("placesim.graph.graph", "attrgetter"),
    ("placesim.graph.node_patterns", "translate"),
    ("placesim.core.errors", "Location.__new__"),
    ("placesim.core.errors", "escape_line"),
    ("numpy", "dtype"),
    ("numpy", "ndarray"),
    ("numpy._core.multiarray", "scalar"),
]


def call(module: str, name: str, argument: str) -> bytes:
    """A pickle that calls a name of a module."""
    texts = b"".join(pickle.SHORT_BINUNICODE + bytes([len(text)]) + text.encode() for text in (module, name))
    given = pickle.SHORT_BINUNICODE + bytes([len(argument)]) + argument.encode()
    return pickle.PROTO + b"\x04" + texts + pickle.STACK_GLOBAL + given + pickle.TUPLE1 + pickle.REDUCE + pickle.STOP


@pytest.mark.parametrize("kind", ["a file", "a stream"])
@pytest.mark.parametrize("start", [MAGIC, b""])
def test_no_file_or_stream_is_a_scripts_graph(kind: str, start: bytes, tmp_path: Path) -> None:
    canary = tmp_path / "canary"
    graph = tmp_path / "graph.pb"
    graph.write_bytes(start + call(*CALLABLES[0], f"touch {canary}"))
    with pytest.raises(PlacesimError):
        placesim.place(str(graph) if kind == "a file" else io.BytesIO(graph.read_bytes()))
    assert not canary.exists()


@pytest.mark.parametrize(("module", "name"), CALLABLES)
def test_a_script_answers_with_no_code(module: str, name: str, tmp_path: Path) -> None:
    canary = tmp_path / "canary"
    with pytest.raises(GraphFileError, match=f"unsupported value {module}.{name}"):
        read_script_graph(ScriptGraph(call(module, name, f"touch {canary}")))
    assert not canary.exists()


class _Forged:
    """A pickle of an array whose type takes numbers for the addresses of objects."""

    def __init__(self, dtype: str) -> None:
        self._dtype = dtype

    def __reduce__(self) -> Any:
        return _make_array, (self._dtype, (1,), b"A" * 16)


@pytest.mark.parametrize("dtype", ["O", "V8", "i4,O", "O8,O8"])
def test_no_type_of_an_array_has_objects(dtype: str) -> None:
    with pytest.raises(GraphFileError, match="cannot read what a script built: unsupported type"):
        read_script_graph(ScriptGraph(pickle.dumps(_Forged(dtype))))


@pytest.mark.parametrize(
    "value",
    [
        np.array([[1, 2]], np.int16),
        np.array([], np.float32),
        np.zeros((0, 3), np.complex64),
        np.float64(1.5),
        np.array([b"a", [1]], object),
        np.array(["a", "bc"]),
        np.array(True),
        *(np.zeros(2, known.numpy) for known in DTYPES.values()),
    ],
    ids=lambda value: str(value.dtype),
)
def test_arrays_are_made_again(value: Any) -> None:
    written = io.BytesIO()
    _Pickler(written).dump(value)
    found = _Values(io.BytesIO(written.getvalue())).load()
    assert type(found) is type(value)
    assert found.dtype == value.dtype
    assert found.shape == value.shape
    assert found.tolist() == value.tolist()


def test_an_answer_that_is_no_graph() -> None:
    with pytest.raises(GraphFileError, match="cannot read what a script built: got a Location"):
        read_script_graph(ScriptGraph(pickle.dumps(Location("f", 1, 1))))
