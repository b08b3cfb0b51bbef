"""Facts about ops: a line for each, the text about one, and the JSON object of `placesim ops`."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Any

from placesim.core.dtypes import DataType
from placesim.inspection.op_facts import OpFacts
from placesim.ops.attributes import AttrValue, FunctionName, Shape, TensorValue
from placesim.ops.definitions import ArgDef, AttrDef, KernelDef
from placesim.ops.deprecation import advice
from placesim.ops.notation import Line, flag_words, format_paragraph, format_signature, op_lines
from placesim.report.text.tables import NOTHING

COLUMNS = ("op", "signature", "kernels", "numpy")


def op_row(facts: OpFacts) -> tuple[str, str, str, str]:
    """Return an op's name, its signature, the device types with a TensorFlow kernel, and `numpy` or `-`."""
    kinds = ",".join(facts.device_types) or NOTHING
    return facts.op.name, format_signature(facts.op), kinds, NOTHING if facts.family is None else "numpy"


def format_facts(facts: OpFacts) -> str:
    """Return the text about an op: its paragraph of the op table, and the module of its numpy kernel."""
    return format_paragraph(facts.op, fact_lines(facts))


def fact_lines(facts: OpFacts) -> Iterator[Line]:
    """Yield the lines under an op's signature."""
    op = facts.op
    for line in op_lines(op, facts.kernels):
        is_removal = line.keyword == "deprecated" and op.deprecated_at is not None
        yield line._replace(text=f"{line.text}: {advice(op.name, op.deprecated_at or 0)}") if is_removal else line
    if not facts.kernels:
        yield Line("kernel", "none")
    yield Line("numpy", "none" if facts.family is None else f"{facts.family} ({facts.file})")


def ops_document(release: str, listed: Iterable[OpFacts]) -> dict[str, Any]:
    """Return the JSON object: the release, and the ops by name."""
    return {"tensorflow": release, "ops": list(map(op_document, listed))}


def op_document(facts: OpFacts) -> dict[str, Any]:
    """Return an op's JSON object: definition, kernels, and the family and file of its numpy kernel (null without one)."""
    op = facts.op
    return {
        "name": op.name,
        "signature": format_signature(op),
        "inputs": list(map(_arg_document, op.inputs)),
        "outputs": list(map(_arg_document, op.outputs)),
        "attrs": list(map(_attr_document, op.attrs.values())),
        "flags": list(flag_words(op)),
        "deprecated_at": op.deprecated_at,
        "kernels": list(map(_kernel_document, facts.kernels)),
        "numpy": None if facts.family is None else {"family": facts.family, "file": facts.file},
    }


def _arg_document(arg: ArgDef) -> dict[str, Any]:
    return arg._asdict() | {"dtype": None if arg.dtype is None else arg.dtype.name}


def _attr_document(attr: AttrDef) -> dict[str, Any]:
    return {
        "name": attr.name,
        "type": attr.type,
        "has_default": attr.has_default,
        "default": _plain(attr.default),
        "minimum": attr.minimum,
        "allowed": None if attr.allowed is None else list(map(_plain, attr.allowed)),
    }


def _kernel_document(kernel: KernelDef) -> dict[str, Any]:
    return {
        "device_type": kernel.device_type,
        "constraint": {attr: list(map(_plain, allowed)) for attr, allowed in kernel.constraint.items()},
        "host_memory": list(kernel.host_memory),
        "priority": kernel.priority,
        "label": kernel.label,
    }


def _plain(value: AttrValue) -> Any:
    """Return an attr value for JSON.

    Types become names, infinities become text, and shapes become lists of dimensions (-1 if unknown) or null (unknown rank).
    """
    if isinstance(value, Shape):
        return None if value.dims is None else list(value.dims)
    if isinstance(value, TensorValue):
        return {"dtype": value.dtype.name, "shape": list(value.array.shape)}
    if isinstance(value, DataType | FunctionName):
        return value.name
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return list(map(_plain, value)) if isinstance(value, tuple) else value
