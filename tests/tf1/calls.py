"""One call of a public function, and everything that it makes: written down as text, so that a difference can be read.

`calls.json.gz` holds what TensorFlow 2.21's `tf.compat.v1` (v2 behaviour off) made of each call, on these inputs; nodes are
`name = Op(inputs) {attrs} -> types and shapes of outputs`.  A call may follow statements (`v = tf.Variable([1.0]); v + x`).

`contrib-calls.json.gz` holds the outlines of calls of `tf.contrib`, which TensorFlow 1.15 had last: their results, and what the
graph's collections have then.  The nodes between differ from release to release.

`library-calls.json.gz` holds, as `calls.json.gz` does, calls of what packages build on: matrices as operators, modules, version
2's functions, ragged tensors.

`mixed-calls.json.gz` holds, in the same form, calls on variables as conditions, and of signals, boxes,
cells and Keras' models and recurrent layers.

`model-calls.json.gz` holds, in the same form, calls of strategies, feature columns and distributions.  A call that ends in
`session.run` compares values.  Calls of `tf.contrib` there are recorded from TensorFlow 1.15's Python on TensorFlow 2.21's ops
(`contrib_sources.py`).

`option-calls.json.gz` holds, in the same form, calls with options and mistakes: of saving, training, sessions, queues, data,
gradients, layers, cells; and outlines of such calls of `tf.contrib`.

A call runs in an empty folder, so files have relative paths.

`TF_USE_LEGACY_KERAS=1 TENSORFLOW_PYTHON -m tests.tf1.calls FILE RECORDINGS` adds the calls of a file, with blank lines between
them, as a Python with tensorflow-cpu and tf_keras makes them, to `calls`, `library-calls`,
`mixed-calls`, `model-calls` or `option-calls`.  The folder `tensorflow_core` of TensorFlow 1.15 as a third argument sets
`tf.contrib`.
"""

from __future__ import annotations

import ast
import contextlib
import gzip
import json
import os
import re
import sys
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from tests.tf1.contrib_sources import load_contrib

_DATA = Path(__file__).parent.parent / "data" / "tf1"
_LONGEST = 400
"""Values that are longer as text are cut, and their length is told."""
_INPUTS: dict[str, tuple[str, list[int | None] | None]] = {
    **{name: ("float32", [2, 3]) for name in ("x", "y")},
    "u": ("float32", [None, 3]),
    "t": ("float32", None),
    "c": ("float32", [4, 2, 3]),
    "v": ("float32", [3]),
    "f": ("float32", []),
    "sq": ("float32", [3, 3]),
    "bsq": ("float32", [2, 3, 3]),
    "usq": ("float32", [None, None]),
    "img": ("float32", [5, 6, 3]),
    "imgs": ("float32", [2, 5, 6, 3]),
    "uimg": ("float32", [None, None, 3]),
    "uimgs": ("float32", [None, None, None, 3]),
    "timg": ("float32", None),
    "u8": ("uint8", [5, 6, 3]),
    "uu8": ("uint8", [None, None, 3]),
    "big": ("float32", [2, 200, 200, 3]),
    "gray": ("float32", [2, 5, 6, 1]),
    "i": ("int32", [3]),
    "j": ("int64", [3]),
    "i2": ("int32", [2, 3]),
    "n": ("int32", []),
    "p": ("bool", [3]),
    "p2": ("bool", [2, 3]),
    "s": ("string", [3]),
    "s0": ("string", []),
    "s2": ("string", [2, 3]),
    "ts": ("string", None),
    "us": ("string", [None]),
    "d": ("float64", [2, 3]),
    "z": ("complex64", [2, 4]),
    "uz": ("complex64", [None, None]),
    "sig": ("float32", [2, 64]),
    "usig": ("float32", [None, None]),
    "tsig": ("float32", None),
    "pred": ("float32", [4]),
    "lab": ("int64", [4]),
    "lab2": ("int64", [4, 1]),
    "logits": ("float32", [4, 3]),
    "wts": ("float32", [4]),
    "labb": ("bool", [4]),
    "boxes": ("float32", [6, 4]),
    "scores": ("float32", [6]),
    "bbox": ("float32", [2, 3, 4]),
    "ii": ("int64", [2, 3]),
    "ti": ("int32", None),
    "uid": ("int64", [None]),
    "one": ("float32", [1]),
}
_NUMBERED = re.compile(
    r"(CustomGradient-|pyfunc_|__inference_\w+_)\d+"
    r"|(_make_dataset_|hash_table_(?=\w{8}-)|\b(?:body|cond)_(?=\w{11}_Wrapper))[\w-]+"
)
"""Names that end in a number of the process, or in a digest, which the recordings leave out."""
_SPARSE = ("sp", "sp2", "usp", "spi", "sps")


def calls() -> dict[str, dict[str, Any]]:
    """Each call -> `nodes`, `gnodes` (what its gradients make), `result`, `grad`."""
    return _read(_DATA / "calls.json.gz")


def library_calls() -> dict[str, dict[str, Any]]:
    """Each call of what packages build on, as `calls` has them."""
    return _read(_DATA / "library-calls.json.gz")


def mixed_calls() -> dict[str, dict[str, Any]]:
    """Each call about conditions and loops on variables, signals, boxes, cells and models, as `calls` has them."""
    return _read(_DATA / "mixed-calls.json.gz")


def model_calls() -> dict[str, dict[str, Any]]:
    """Each call of strategies, feature columns and distributions, as `calls` has them."""
    return _read(_DATA / "model-calls.json.gz")


def option_calls() -> dict[str, dict[str, Any]]:
    """Each call with options or mistakes, as `calls` has them, and as `contrib_calls` has them."""
    return _read(_DATA / "option-calls.json.gz")


def contrib_calls() -> dict[str, dict[str, Any]]:
    """Each call of `tf.contrib` -> its `outline`."""
    return _read(_DATA / "contrib-calls.json.gz")


def _read(path: Path) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = json.loads(gzip.decompress(path.read_bytes()))
    return found


def record(tf: Any, call: str) -> dict[str, Any]:
    """What a call makes in a new graph and an empty folder; an exception is told in `result`."""
    found: dict[str, Any] = {}
    with contextlib.chdir(_empty_folder().name), tf.Graph().as_default() as graph:
        tf.set_random_seed(7)
        scope = _scope(tf, call)
        before = len(graph.get_operations())
        found["result"], made = _result(tf, call, scope)
        middle = len(graph.get_operations())
        found["nodes"] = [_node(tf, operation) for operation in graph.get_operations()[before:]]
        of = [tensor for name, tensor in scope.items() if name in _INPUTS and _has_gradients(tensor)]
        if of and (ys := [tensor for tensor in _flat(tf, made) if _has_gradients(tensor)]) and "#nograd" not in call:
            try:
                found["grad"] = _told(tf, tf.gradients(ys, of))
            except Exception as error:
                found["grad"] = f"ERR {type(error).__name__}: {error}"[:300]
            found["gnodes"] = [_node(tf, operation) for operation in graph.get_operations()[middle:]]
    return found


@cache
def _folder() -> TemporaryDirectory[str]:
    return TemporaryDirectory()


def _empty_folder() -> TemporaryDirectory[str]:
    """The folder of the call before, if that left nothing in it: to make and remove one takes longer than many a call."""
    if os.listdir(_folder().name):
        _folder().cleanup()
        _folder.cache_clear()
    return _folder()


def outline(tf: Any, call: str) -> dict[str, Any]:
    """What releases have in common: the result of a call in a new graph and an empty folder, and what collections have then."""
    with contextlib.chdir(_empty_folder().name), tf.Graph().as_default() as graph:
        result, _ = _result(tf, call, _scope(tf, call))
        keys = sorted(key for key in graph.get_all_collection_keys() if isinstance(key, str) and tf.get_collection(key))
        return {"result": result, "collections": {key: [_item(tf, one) for one in tf.get_collection(key)] for key in keys}}


def _item(tf: Any, item: Any) -> str:
    shape = f" {item.shape}" if hasattr(item, "shape") else ""
    return f"{item.name}{shape}" if hasattr(item, "name") else type(item).__name__


def refusal(function: Any, *arguments: Any, **options: Any) -> str:
    """Type and text of the exception that a function raises; `accepted` if it raises none."""
    try:
        function(*arguments, **options)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "accepted"


def _scope(tf: Any, call: str) -> dict[str, Any]:
    """The names that a call may use, with the inputs that it names."""
    scope: dict[str, Any] = {"tf": tf, "np": np, "refusal": refusal}
    for name in sorted({*re.findall(r"\b[a-z][a-z0-9]*\b", call)} & {*_INPUTS, *_SPARSE}):
        if re.search(rf"(?<![\w.'\"]){name}\b(?!\s*=[^=])", call):
            scope[name] = _input(tf, name)
    return scope


def _result(tf: Any, call: str, scope: dict[str, Any]) -> tuple[str, Any]:
    """The value of a call as text, and the value; the exception, and None."""
    try:
        made = _value(call, scope)
        return _told(tf, made), made
    except Exception as error:
        return f"ERR {type(error).__name__}: {_without_addresses(str(error))}"[:500], None


def _value(call: str, scope: dict[str, Any]) -> Any:
    """The value of the last expression, once the statements before it are run."""
    *statements, last = ast.parse(call).body
    assert isinstance(last, ast.Expr)
    exec(compile(ast.Module(statements, []), "<call>", "exec"), scope)
    return eval(compile(ast.Expression(last.value), "<call>", "eval"), scope)


def _input(tf: Any, name: str) -> Any:
    if name in _INPUTS:
        return tf.placeholder(*_INPUTS[name], name=name)
    if name == "usp":
        return tf.sparse_placeholder(tf.float32, name=name)
    places = [[0, 0], [1, 2]] if name == "sp2" else [[0, 1], [1, 2]]
    if name == "spi":
        return tf.SparseTensor(places, tf.constant([1, 2], tf.int64), [2, 3])
    return tf.SparseTensor(places, ["a", "b"] if name == "sps" else [1.0, 2.0], [2, 3])


def _has_gradients(tensor: Any) -> bool:
    return bool(tensor.dtype.is_floating or tensor.dtype.is_complex)


def _without_addresses(text: str) -> str:
    return re.sub(r"0x[0-9a-f]{6,}", "0x", text)


def _node(tf: Any, operation: Any) -> str:
    definition = operation.node_def
    attrs = []
    for key, value in sorted(definition.attr.items()):
        if key == "_output_shapes" or (key == "container" and not value.s):
            continue
        if operation.type == "Const" and key == "value":
            attrs.append("value=" + _literal(tf.get_static_value(operation.outputs[0])))
        else:
            attrs.append(f"{key}={_attr_text(str(value))}")
    inputs = [name.removesuffix(":0") for name in definition.input if not name.startswith("^")]
    inputs += sorted(name for name in definition.input if name.startswith("^"))
    outputs = " ".join(f"{tensor.dtype.name}{tensor.shape}" for tensor in operation.outputs)
    device = f" @{definition.device}" if definition.device else ""
    return f"{operation.name} = {operation.type}({', '.join(inputs)}) {{{'; '.join(attrs)}}}{device} -> {outputs}"


@cache
def _attr_text(text: str) -> str:
    return _NUMBERED.sub(r"\1\2", " ".join(text.split()).replace("type: ", ""))


def _literal(value: Any) -> str:
    array = np.asarray(value)
    if array.dtype.kind == "c":
        text = str([_rounded(array.real), _rounded(array.imag)])
    else:
        text = str(_rounded(array) if array.dtype.kind in "fV" else array.tolist())
    return text if len(text) < _LONGEST else f"{text[:_LONGEST]}#{len(text)}"


def _rounded(array: Any) -> Any:
    numbers = np.asarray(array).astype("float64").tolist()
    return json.loads(json.dumps(numbers), parse_float=lambda text: float(f"{float(text):.6g}"))


def _told(tf: Any, value: Any) -> str:
    if isinstance(value, tf.SparseTensor):
        return f"Sparse({','.join(_told(tf, part) for part in _flat(tf, value))};{value.shape})"
    if isinstance(value, tf.Tensor):
        return f"{value.name}:{value.dtype.name}{value.shape}"
    if isinstance(value, tf.Operation):
        return f"op {value.name}"
    if isinstance(value, tf.IndexedSlices):
        return f"Slices({','.join(_told(tf, part) for part in (value.values, value.indices, value.dense_shape))})"
    if hasattr(value, "_fields"):
        fields = ",".join(f"{key}={_told(tf, item)}" for key, item in zip(value._fields, value, strict=True))
        return f"{type(value).__name__}({fields})"
    if isinstance(value, list | tuple):
        return f"{type(value).__name__}({','.join(_told(tf, item) for item in value)})"
    if isinstance(value, np.ndarray | np.generic):
        return f"{value.dtype}{_literal(value)}"
    return _without_addresses(repr(value))[:600]


def _flat(tf: Any, value: Any) -> list[Any]:
    if isinstance(value, tf.SparseTensor):
        return [value.indices, value.values, value.dense_shape]
    if isinstance(value, tf.Tensor):
        return [value]
    if isinstance(value, list | tuple):
        return [leaf for item in value for leaf in _flat(tf, item)]
    return []


def _add(path: Path, recordings: Path, contrib: Path | None = None) -> None:
    """Record the calls of a file, and keep those that are there."""
    import tensorflow.compat.v1 as tf

    tf.disable_v2_behavior()
    if contrib is not None:
        load_contrib(tf, contrib)
    recorded = _read(recordings) | {call: record(tf, call) for call in path.read_text().strip().split("\n\n")}
    recordings.write_bytes(gzip.compress(json.dumps(recorded).encode(), mtime=0))


if __name__ == "__main__":
    _add(Path(sys.argv[1]), _DATA / f"{sys.argv[2]}.json.gz", *map(Path, sys.argv[3:]))
