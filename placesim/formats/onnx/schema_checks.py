"""Check of a node by ONNX's definition of its op: numbers of inputs and outputs, types, attributes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

from placesim.formats.onnx.onnx_node import UnsupportedNodeError
from placesim.formats.onnx.values import Value
from placesim.formats.problems import one_of, spell


class _FormalInput(NamedTuple):
    """The definition of an op's input."""

    name: str
    is_required: bool
    types: frozenset[str]


class _Rules(NamedTuple):
    """The parts of an op's definition that nodes must match; `attributes` maps names to pairs: type number, is required."""

    inputs: tuple[_FormalInput, ...]
    least_inputs: int
    most_inputs: int
    least_outputs: int
    most_outputs: int
    attributes: Mapping[str, tuple[int, bool]]


_RULES: dict[tuple[str, str, int], _Rules] = {}


def _rules(schema: Any) -> _Rules:
    key = (schema.domain, schema.name, schema.since_version)
    if key not in _RULES:
        _RULES[key] = _read_rules(schema)
    return _RULES[key]


def _read_rules(schema: Any) -> _Rules:
    inputs = tuple(_FormalInput(given.name, given.option.name == "Single", frozenset(given.types)) for given in schema.inputs)
    attributes = {name: (int(attr.type.value), bool(attr.required)) for name, attr in schema.attributes.items()}
    return _Rules(inputs, schema.min_input, schema.max_input, schema.min_output, schema.max_output, attributes)


def check_node(schema: Any, proto: Any, values: Sequence[Value | None], attrs: Mapping[str, Any]) -> None:
    """Raise UnsupportedNodeError for a node that violates its op's definition."""
    rules = _rules(schema)
    _check_number("inputs", len(proto.input), rules.least_inputs, rules.most_inputs)
    _check_number("outputs", len(proto.output), rules.least_outputs, rules.most_outputs)
    for index, value in enumerate(values):
        formal = rules.inputs[min(index, len(rules.inputs) - 1)]
        if value is None:
            if formal.is_required:
                raise UnsupportedNodeError(f"no input {index}: got none, expected '{formal.name}'")
        elif (kind := type_text(value.type)) and formal.types and kind not in formal.types:
            expected = one_of(sorted(formal.types))
            raise UnsupportedNodeError(f"wrong type of input '{formal.name}': got {kind}, expected {expected}")
    for name, attr in attrs.items():
        if name not in rules.attributes:
            raise UnsupportedNodeError(f"unknown attribute: got {spell(name)}, expected {one_of(rules.attributes)}")
        if attr.type != rules.attributes[name][0]:
            got, wanted = _attribute_type(attr.type), _attribute_type(rules.attributes[name][0])
            raise UnsupportedNodeError(f"wrong type of attribute '{name}': got {got}, expected {wanted}")
    for name, (number, is_required) in rules.attributes.items():
        if is_required and name not in attrs:
            raise UnsupportedNodeError(f"no attribute '{name}': expected one, of type {_attribute_type(number)}")


def _check_number(what: str, count: int, least: int, most: int) -> None:
    if not least <= count <= most:
        wanted = f"{least}" if least == most else f"{least} or more" if most > 1 << 20 else f"{least} to {most}"
        raise UnsupportedNodeError(f"wrong number of {what}: got {count}, expected {wanted}")


@cache
def _attribute_type(number: int) -> str:
    from onnx import AttributeProto

    return str(AttributeProto.AttributeType.Name(number)) if number in AttributeProto.AttributeType.values() else str(number)


def type_text(kind: Any) -> str:
    """Return a TypeProto in the notation of op definitions, such as `seq(tensor(float))`; empty if unset."""
    if kind is None:
        return ""
    which = kind.WhichOneof("value")
    if which == "tensor_type":
        return _tensor_text(kind.tensor_type.elem_type)
    if which in ("sequence_type", "optional_type"):
        inner = type_text(getattr(kind, which).elem_type)
        return f"{which.removesuffix('_type').replace('sequence', 'seq')}({inner})" if inner else ""
    return ""


@cache
def _tensor_text(number: int) -> str:
    from onnx import TensorProto

    if number == TensorProto.UNDEFINED or number not in TensorProto.DataType.values():
        return ""
    return f"tensor({TensorProto.DataType.Name(number).lower()})"
