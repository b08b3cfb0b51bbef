"""An op's definition and kernels as a paragraph of text, in a notation close to TensorFlow's own.

    MatMul(a: T, b: T) -> (product: T)
      attr transpose_a: bool = false
      attr T: {bfloat16, half, float, double}
      kernel CPU: T in {double, float}
      kernel GPU: T in {double, float}

The sources of the op tables use this notation (`source.py` reads it), and `placesim ops` prints it.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from placesim.core.dtypes import DataType
from placesim.ops.attributes import AttrValue, FunctionName, Shape, TensorValue, as_float32
from placesim.ops.definitions import ArgDef, AttrDef, KernelDef, OpDef

FLAGS = {
    "stateful": "is_stateful",
    "commutative": "is_commutative",
    "aggregate": "is_aggregate",
    "distributed_communication": "is_distributed_communication",
    "uninitialized_input": "allows_uninitialized_input",
}
"""The words of a `flags` line, and the field of `OpDef` that each sets."""
SOURCES = {"": "output_source", "temporary": "temporary_source"}
"""The words of a `source` line, and the field of `OpDef` that each sets."""


class Line(NamedTuple):
    """A line under an op's signature: its topic and its text."""

    keyword: str
    text: str


def format_op(op: OpDef, kernels: Iterable[KernelDef]) -> str:
    """Return an op's paragraph: its signature, and indented lines for flags, attrs, kernels and source lines of TensorFlow."""
    return format_paragraph(op, (*op_lines(op, kernels), *_source_lines(op)))


def format_paragraph(op: OpDef, lines: Iterable[Line]) -> str:
    """Return a paragraph: an op's name and signature, and the lines under them."""
    return f"{op.name}{format_signature(op)}\n" + "".join(f"  {line.keyword} {line.text}\n" for line in lines)


def format_signature(op: OpDef) -> str:
    """Return an op's signature, such as `(a: T, b: T) -> (product: T)`."""
    return f"({_format_args(op.inputs)}) -> ({_format_args(op.outputs)})"


def op_lines(op: OpDef, kernels: Iterable[KernelDef]) -> Iterator[Line]:
    """Yield the lines under the signature."""
    flags = flag_words(op)
    if flags:
        yield Line("flags", ", ".join(flags))
    if op.deprecated_at is not None:
        yield Line("deprecated", str(op.deprecated_at))
    for attr in op.attrs.values():
        yield Line("attr", format_attr(attr))
    for kernel in kernels:
        yield Line("kernel", format_kernel_line(kernel))


def _source_lines(op: OpDef) -> Iterator[Line]:
    for word, field in SOURCES.items():
        source = getattr(op, field)
        if source is not None:
            yield Line("source", f"{word} {json.dumps(source)}".lstrip())


def flag_words(op: OpDef) -> tuple[str, ...]:
    """Return a word such as `stateful` for each flag that is set."""
    return tuple(word for word, field in FLAGS.items() if getattr(op, field))


def _format_args(args: Iterable[ArgDef]) -> str:
    return ", ".join(f"{arg.name}: {format_arg_type(arg)}" for arg in args)


def format_arg_type(arg: ArgDef) -> str:
    """Return an argument's type: `T`, `float`, `N * T`, `Ref(T)`; for a list of types, the name of its attr."""
    name = arg.type_list_attr or arg.type_attr or str(arg.dtype)
    text = f"{arg.number_attr} * {name}" if arg.number_attr else name
    return f"Ref({text})" if arg.is_ref else text


def format_attr(attr: AttrDef) -> str:
    """Return an attr's definition, such as `padding: {"SAME", "VALID"} = "SAME"` or `N: int >= 1`."""
    text = f"{attr.name}: {_format_attr_type(attr)}"
    if attr.minimum is not None:
        text += f" >= {attr.minimum}"
    return f"{text} = {format_value(attr.default)}" if attr.has_default else text


def _format_attr_type(attr: AttrDef) -> str:
    if attr.allowed is None:
        return attr.type
    allowed = _format_set(attr.allowed)
    return f"list({allowed})" if attr.type.startswith("list(") else allowed


def format_kernel_line(kernel: KernelDef) -> str:
    """Return a registration, such as `GPU: T in {int32}; host axis; priority 1; label "eager"`."""
    parts = [f"{attr} in {_format_set(allowed)}" for attr, allowed in kernel.constraint.items()]
    if kernel.host_memory:
        parts.append(f"host {', '.join(kernel.host_memory)}")
    if kernel.priority:
        parts.append(f"priority {kernel.priority}")
    if kernel.label:
        parts.append(f"label {json.dumps(kernel.label)}")
    return f"{kernel.device_type}: {'; '.join(parts)}" if parts else kernel.device_type


def _format_set(values: Iterable[AttrValue]) -> str:
    return f"{{{', '.join(map(format_value, values))}}}"


def format_value(value: AttrValue) -> str:
    """Return an attr's value as text: types by name, strings in quotes, `?` for unknown parts of a shape."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return repr(_shortest_float32(value))
    if isinstance(value, str):
        return json.dumps(value)
    if isinstance(value, Shape):
        return "?" if value.dims is None else _format_dims(value.dims)
    if isinstance(value, TensorValue):
        values = f", {value.array.reshape(-1).tolist()}" if value.array.any() else ""
        return f"tensor({value.dtype}, {_format_dims(value.array.shape)}{values})"
    if isinstance(value, FunctionName):
        return f"func({json.dumps(value.name)})"
    if isinstance(value, tuple):
        return f"[{', '.join(map(format_value, value))}]"
    assert isinstance(value, int | DataType), value
    return str(value)


def _format_dims(dims: Iterable[int]) -> str:
    return f"[{', '.join('?' if dim < 0 else str(dim) for dim in dims)}]"


def _shortest_float32(value: float) -> float:
    """Return the shortest decimal with the same float32 value: 0.0001 rather than 9.999999747378752e-05."""
    if not math.isfinite(value):
        return value
    return next(near for near in (float(f"{value:.{digits}g}") for digits in range(1, 18)) if as_float32(near) == value)
