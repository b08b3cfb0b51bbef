"""Checks of a step's request against the graph: names become tensors and targets, and fed values become arrays."""

from __future__ import annotations

import math
import os
import warnings
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from placesim.core.dtypes import BOOL, DOUBLE, STRING, DataType
from placesim.core.errors import GraphBuildError, OpError, PlacesimError, RequestError
from placesim.core.files.access import FileAccess
from placesim.core.files.reader import open_file
from placesim.core.suggestions import SIMILAR_AMONG_FEW, did_you_mean, near_words
from placesim.graph.graph import Graph, Node, TensorRef, split_tensor_name
from placesim.graph.session_steps import Feed, Fetch, FileFeed, GeneratedFeed
from placesim.ops.categories import PLACEHOLDERS
from placesim.ops.process.memory_limit import AllocationRefusal, check_room, out_of_memory

_MOST_SHOWN = 80
"""Maximum characters of a `.npy` header that an error quotes."""


class RequestedName(NamedTuple):
    """One fetch of a step: a tensor, or a target (`tensor` is None)."""

    name: str
    node: int
    tensor: TensorRef | None


def resolve_fetch(graph: Graph, fetch: Fetch, bare_is_target: bool = False) -> RequestedName:
    """Resolve a fetch by name. Raises TensorFlow's RequestError for an unknown tensor or operation.

    A name without an output number means the first output. With `bare_is_target`, or if the node has no outputs, such a name
    is a target.
    """
    if fetch.name[:1] == "^":
        fetch = fetch._replace(name=fetch.name[1:])
        bare_is_target = True
    name, slot = split_tensor_name(fetch.name)
    node_id = graph.ids.get(name)
    if node_id is None:
        raise _unknown(graph, fetch, name)
    outputs = len(graph.nodes[node_id].signature.output_dtypes)
    # an op without outputs can only be a target, even if it is fetched
    if name == fetch.name and (bare_is_target or not outputs):
        return RequestedName(fetch.label or fetch.name, node_id, None)
    if slot >= outputs:
        detail = _missing_tensor(graph, fetch.name, name)
        raise _refuse(graph, fetch.location, f"Fetch argument '{fetch.name}' cannot be interpreted as a Tensor. (\"{detail}\")")
    return RequestedName(fetch.label or fetch.name, node_id, TensorRef(node_id, slot))


def _unknown(graph: Graph, fetch: Fetch, name: str) -> PlacesimError:
    if name == fetch.name:
        detail = f"The name '{name}' refers to an Operation not in the graph."
    else:
        detail = _missing_tensor(graph, fetch.name, name)
    error = _refuse(graph, fetch.location, f"Fetch argument '{fetch.name}' cannot be interpreted as a Tensor. (\"{detail}\")")
    error.help = nearest_names(graph, name)
    return error


def _missing_tensor(graph: Graph, tensor: str, op: str) -> str:
    """Return TensorFlow's sentences for a name `op:slot` that is not a tensor of the graph."""
    node_id = graph.ids.get(op)
    exists = "does not exist in the graph."
    if node_id is not None:
        exists = f"exists but only has {len(graph.nodes[node_id].signature.output_dtypes)} outputs."
    return f"The name '{tensor}' refers to a Tensor which does not exist. The operation, '{op}', {exists}"


def nearest_names(graph: Graph, name: str) -> tuple[str, ...]:
    """Return a line of help with the most similar node names, or an inner or longer name; empty if there are none."""
    close = near_words(name, graph.ids, 3, SIMILAR_AMONG_FEW)
    near = f"did you mean {' or '.join(close)}?" if close else did_you_mean(name, graph.ids).removeprefix("; ")
    return (near,) if near else ()


def _refuse(graph: Graph, location: int, message: str) -> RequestError:
    return RequestError(message, location=graph.located(location))


def default_fetches(graph: Graph, only_targets: bool = False) -> list[RequestedName]:
    """Return all outputs of all nodes without readers, in graph order; nodes without outputs are targets."""
    found = []
    for node in graph.sinks():
        count = 0 if only_targets else len(node.signature.output_dtypes)
        if not count:
            found.append(RequestedName(node.name, node.id, None))
        for slot in range(count):
            ref = TensorRef(node.id, slot)
            found.append(RequestedName(graph.tensor_name(ref), node.id, ref))
    return found


def resolve_feed(graph: Graph, feed: Feed, directory: Path, files: FileAccess) -> tuple[TensorRef, np.ndarray[Any, Any]]:
    """Return the tensor of a feed, and its value as an array of the tensor's type; file names are relative to `directory`.

    Raises PermissionDeniedError for a file that the graph may not read. Raises TensorFlow's RequestError for an unknown tensor,
    or for a type or shape that does not fit.
    """
    ref = resolve_fed_tensor(graph, feed)
    dtype = graph.nodes[ref.node].signature.output_dtypes[ref.slot]
    array = _convert(graph, feed, dtype, _load(graph, feed, dtype, directory, files))
    _check_shape(graph, feed, ref.node, ref.slot, array)
    return ref, array


def resolve_fed_tensor(graph: Graph, feed: Feed) -> TensorRef:
    """Return the tensor of a feed. Raises TensorFlow's RequestError if there is none."""
    name, slot = split_tensor_name(feed.tensor)
    node_id = graph.ids.get(name)
    if node_id is None or slot >= len(graph.nodes[node_id].signature.output_dtypes):
        detail = _missing_tensor(graph, f"{name}:{slot}", name)
        error = _refuse(graph, feed.location, f'Cannot interpret feed_dict key as Tensor: "{detail}"')
        error.help = () if node_id is not None else nearest_names(graph, name)
        raise error
    return TensorRef(node_id, slot)


def _load(graph: Graph, feed: Feed, dtype: DataType, directory: Path, files: FileAccess) -> Any:
    value = feed.value
    if isinstance(value, FileFeed):
        try:
            path = files.readable(directory / value.path)
        except OpError as error:
            error.location = graph.located(feed.location)
            raise
        return load_npy(path, lambda text: _refuse(graph, feed.location, text))
    if isinstance(value, GeneratedFeed):
        if not (dtype.is_floating or dtype.is_integer or dtype.is_complex or dtype is BOOL or dtype.is_quantized):
            what = f"no {value.kind} of type {dtype.python_name}: expected a placeholder of numbers or booleans"
            raise _refuse(graph, feed.location, f"Cannot feed {feed.tensor}: {what}")
        try:
            for made in (DOUBLE, dtype):
                check_room(value.shape, made)
            return generate(value, dtype)
        except GraphBuildError as error:
            raise _refuse(graph, feed.location, f"Cannot feed {feed.tensor}: {error.message}") from None
        except (AllocationRefusal, MemoryError):
            refusal = out_of_memory(value.shape, dtype.name)
            refusal.location = graph.located(feed.location)
            refusal.node = split_tensor_name(feed.tensor)[0]
            raise refusal from None
    return value


def load_npy(path: Path, refuse: Any) -> np.ndarray[Any, Any]:
    """Read the array of a `.npy` file.

    Raises the error that `refuse` returns for a file that is missing, incomplete, or contains pickled objects.
    """
    try:
        with open_file(path) as file:
            return _read_npy(file)
    except FileNotFoundError:
        raise refuse(f"no such file: {path}") from None
    except ValueError as error:
        is_pickled = "pickle" in str(error).lower() or "Python objects" in str(error)
        reason = "it holds pickled objects, which are not supported" if is_pickled else str(error)
        raise refuse(f"{path} is not a .npy file of numbers: {reason}{_as_npy(path)}") from None
    except (OSError, EOFError) as error:
        raise refuse(f"cannot read {path}: {getattr(error, 'strerror', None) or error}") from None


def _as_npy(path: Path) -> str:
    """Return a hint with a command that converts a file to a `.npy` file; empty for an unknown file type."""
    loaders = {".npz": f"numpy.load('{path.name}')['NAME']", ".csv": f"numpy.loadtxt('{path.name}', delimiter=',')"}
    loader = loaders.get(path.suffix.lower())
    return f"; create one with numpy.save('{path.stem}.npy', {loader})" if loader else ""


_NPY_HEADERS = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
    (3, 0): np.lib.format.read_array_header_2_0,  # version 3 changes only names of fields, which no tensor has
}


def _read_npy(file: BinaryIO) -> np.ndarray[Any, Any]:
    reader = _NPY_HEADERS.get(np.lib.format.read_magic(file))
    if reader is None:
        raise ValueError("unknown format version")
    shape, is_fortran, dtype = _read_header(reader, file)
    wanted = math.prod(shape) * dtype.itemsize
    # compare with the size in the header before memory of that size is allocated
    there = os.fstat(file.fileno()).st_size - file.tell()
    data = file.read(wanted) if 0 <= wanted <= there else b""
    if len(data) != wanted:
        raise ValueError(f"it has {there} bytes of data, its header says {wanted}")
    return np.frombuffer(data, dtype).reshape(shape, order="F" if is_fortran else "C")


def _read_header(reader: Any, file: BinaryIO) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Return shape, order and type from a header. Raises ValueError if the array's elements are not single numbers."""
    try:
        with warnings.catch_warnings(action="ignore"):  # numpy warns of headers that Python 2 wrote
            shape, is_fortran, dtype = reader(file)
    except Exception:  # a header is a Python literal; the errors of its parser are not documented, and may name addresses
        raise ValueError("invalid header") from None
    if dtype.hasobject:
        raise ValueError("Python objects")
    if dtype.subdtype is not None or dtype.names is not None or not dtype.itemsize:
        raise ValueError("its elements are not single numbers")
    if any(size.__class__ is not int or size < 0 for size in shape):
        raise ValueError(f"its shape is {str(shape)[:_MOST_SHOWN]}")
    return shape, is_fortran, dtype


def generate(generated: GeneratedFeed, dtype: DataType) -> np.ndarray[Any, Any]:
    """Generate an array; the same seed gives the same numbers on every machine.

    Raises GraphBuildError for integers without a `maxval` above `minval`, as `tf.random.uniform` does.
    """
    # numpy takes no negative seed; like TensorFlow's generators, use the seed's 64 bits as an unsigned number
    seed = generated.seed if generated.seed is None or generated.seed >= 0 else generated.seed & 0xFFFFFFFFFFFFFFFF
    rng = np.random.Generator(np.random.PCG64(seed))
    figures, shape = generated.figures, generated.shape
    made: Any
    if generated.kind == "random_normal":
        made = rng.standard_normal(shape) * figures.get("stddev", 1.0) + figures.get("mean", 0.0)
    elif generated.kind == "random_uniform" and dtype.is_integer:
        made = _whole_numbers(generated, dtype, rng)
    elif generated.kind == "random_uniform":
        low, high = figures.get("minval", 0.0), figures.get("maxval", 1.0)
        made = rng.random(shape) * (high - low) + low
    else:
        made = {"zeros": np.zeros, "ones": np.ones}[generated.kind](shape)
    # drawn as doubles and rounded, so that all floating types get the same numbers
    return np.asarray(made).astype(dtype.numpy)


def _whole_numbers(generated: GeneratedFeed, dtype: DataType, rng: np.random.Generator) -> np.ndarray[Any, Any]:
    """Return random integers from `minval` to below `maxval`."""
    low, high = generated.figures.get("minval", 0), generated.figures.get("maxval")
    if high is None:
        raise GraphBuildError(f"Must specify maxval for integer dtype {dtype.python_name}")
    limits = np.iinfo(dtype.numpy)
    if not limits.min <= low < high <= limits.max + 1 or low != int(low) or high != int(high):
        raise GraphBuildError(f"Need minval < maxval, whole numbers of {dtype.python_name}, got {low} >= {high}")
    return rng.integers(int(low), int(high), generated.shape, np.uint64 if high > 1 << 63 else np.int64)


def _convert(graph: Graph, feed: Feed, dtype: DataType, value: Any) -> np.ndarray[Any, Any]:
    """Convert a value as `Session.run` does, with `np.asarray(value, dtype)`. Raises RequestError for an unsuitable value."""
    if dtype is STRING:
        return _string_array(value)
    try:
        array = np.asarray(value) if not isinstance(value, int | float | bool | list) else np.asarray(value, dtype.numpy)
    except (ValueError, TypeError, OverflowError) as error:
        raise _refuse(graph, feed.location, f"Cannot feed {feed.tensor}: {error}") from None
    if array.dtype == dtype.numpy:
        return array
    if array.dtype.kind in "OSU" or not _same_kind(array.dtype, dtype):
        what = f"value of type {array.dtype} for Tensor {_tensor_name(feed)}, which has type {dtype.python_name}"
        raise _refuse(graph, feed.location, f"Cannot feed {what}")
    return array.astype(dtype.numpy)


def _same_kind(given: np.dtype[Any], dtype: DataType) -> bool:
    if dtype is BOOL or given.kind == "b":
        return dtype is BOOL and given.kind == "b"
    return given.kind in "iu" or (given.kind == "f" and (dtype.is_floating or dtype.is_complex)) or dtype.is_complex


def _string_array(value: Any) -> np.ndarray[Any, Any]:
    array = np.asarray(value, object)
    encoded = np.empty(array.shape, object)
    encoded.reshape(-1)[:] = [item if isinstance(item, bytes) else str(item).encode() for item in array.reshape(-1)]
    return encoded


def _tensor_name(feed: Feed) -> str:
    name, slot = split_tensor_name(feed.tensor)
    return f"{name}:{slot}"


def _check_shape(graph: Graph, feed: Feed, node_id: int, slot: int, array: np.ndarray[Any, Any]) -> None:
    dims = _static_dims(graph, node_id, slot)
    # in graphs of producers before 24, a scalar shape stands for an unknown one
    is_legacy = graph.versions.get("producer", 24) < 24 and graph.nodes[node_id].op == "Placeholder"
    if dims is None or (is_legacy and not dims):
        return
    fits = len(dims) == array.ndim and all(want < 0 or want == got for want, got in zip(dims, array.shape, strict=True))
    if not fits:
        wanted = ", ".join("None" if dim < 0 else str(dim) for dim in dims) + ("," if len(dims) == 1 else "")
        what = f"value of shape {array.shape} for Tensor {_tensor_name(feed)}, which has shape ({wanted})"
        raise _refuse(graph, feed.location, f"Cannot feed {what}")


def declared_dims(node: Node) -> tuple[int, ...] | None:
    """Return the shape that a placeholder declares; None if it declares none."""
    return getattr(node.attrs.get("shape"), "dims", None)


def _static_dims(graph: Graph, node_id: int, slot: int) -> tuple[int, ...] | None:
    """Return the known dimensions of a fed tensor; None if its rank is unknown."""
    node = graph.nodes[node_id]
    if node.op in PLACEHOLDERS and not slot:
        return declared_dims(node)
    from placesim.runtime.shapes.graph_shapes import GraphShapes

    return GraphShapes(graph).shape(TensorRef(node_id, slot))
