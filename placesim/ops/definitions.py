"""Definitions of ops: arguments, attrs, kernels, TensorFlow's notation for them, and checks of attrs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from placesim.core.dtypes import DataType
from placesim.ops.attributes import Attrs, AttrValue, format_attr_value


class ArgDef(NamedTuple):
    """An input or output of an op: one tensor, `number_attr` tensors of one type, or one for each type in `type_list_attr`."""

    name: str
    dtype: DataType | None = None
    type_attr: str | None = None
    number_attr: str | None = None
    type_list_attr: str | None = None
    is_ref: bool = False

    def dtypes(self, attrs: Mapping[str, AttrValue]) -> tuple[DataType, ...]:
        """Return the types of this argument's tensors."""
        if self.type_list_attr is not None:
            return tuple(attrs[self.type_list_attr])
        dtype: DataType = attrs[self.type_attr or ""] if self.dtype is None else self.dtype
        return (dtype,) if self.number_attr is None else (dtype,) * int(attrs[self.number_attr])


class AttrDef(NamedTuple):
    """An attr of an op: its type as TensorFlow writes it (`list(type)`), default, allowed values and minimum."""

    name: str
    type: str
    default: AttrValue = None
    has_default: bool = False
    allowed: tuple[AttrValue, ...] | None = None
    minimum: int | None = None


class OpDef(NamedTuple):
    """The definition of an op: its arguments, attrs and flags.

    `output_source` and `temporary_source` are lines of TensorFlow's source (`FILE:LINE`). TensorFlow's log names
    them if the kernel cannot allocate its first output, or a temporary tensor. They are None if no such failure was recorded.
    """

    name: str
    inputs: tuple[ArgDef, ...]
    outputs: tuple[ArgDef, ...]
    attrs: dict[str, AttrDef]
    is_stateful: bool = False
    is_commutative: bool = False
    is_aggregate: bool = False
    is_distributed_communication: bool = False
    allows_uninitialized_input: bool = False
    deprecated_at: int | None = None
    output_source: str | None = None
    temporary_source: str | None = None

    def defaults(self) -> dict[str, AttrValue]:
        """Return the default values of attrs, by name."""
        return {name: attr.default for name, attr in self.attrs.items() if attr.has_default}


class KernelDef(NamedTuple):
    """A kernel registration: `constraint` maps an attr to the values that the kernel accepts."""

    op: str
    device_type: str
    constraint: dict[str, tuple[AttrValue, ...]]
    host_memory: tuple[str, ...]
    priority: int
    label: str

    def accepts(self, attrs: Mapping[str, AttrValue]) -> bool:
        """Whether every constrained attr has an allowed value; for a list attr, every element must have one (4.2d)."""
        for name, allowed in self.constraint.items():
            if name not in attrs:
                return False
            value = attrs[name]
            if isinstance(value, tuple):
                if not all(element in allowed for element in value):
                    return False
            elif value not in allowed:
                return False
        return True


# --- as text --------------------------------------------------------------------------------------------------------


def format_op_def(op: OpDef) -> str:
    """Return a definition in TensorFlow's notation: `Op<name=Abs; signature=x:T -> y:T; attr=T:type,allowed=[...]>`."""
    text = f"Op<name={op.name}; signature={_format_args(op.inputs)} -> {_format_args(op.outputs)}"
    for attr in op.attrs.values():
        text += f"; attr={attr.name}:{attr.type}"
        if attr.has_default:
            text += f",default={format_attr_value(attr.default)}"
        if attr.minimum is not None:
            text += f",min={attr.minimum}"
        if attr.allowed is not None:
            text += f",allowed=[{', '.join(map(format_attr_value, attr.allowed))}]"
    flags = ("is_commutative", "is_aggregate", "is_stateful", "allows_uninitialized_input", "is_distributed_communication")
    return text + "".join(f"; {flag}=true" for flag in flags if getattr(op, flag)) + ">"


def _format_args(args: tuple[ArgDef, ...]) -> str:
    return ", ".join(f"{arg.name}:{_format_arg_type(arg)}" for arg in args)


def _format_arg_type(arg: ArgDef) -> str:
    name = "" if arg.type_list_attr else arg.type_attr or (arg.dtype.name if arg.dtype else "")
    text = f"{arg.number_attr}*{name}" if arg.number_attr else name
    return f"Ref({text})" if arg.is_ref else text


# --- checks of attrs -------------------------------------------------------------------------------------------------


def attr_problem(op: OpDef, attrs: Attrs, node: str) -> str | None:
    """Return TensorFlow's message for the first attr that the op definition does not allow, or None."""
    for attr in op.attrs.values():
        if attr.name not in attrs:
            continue
        problem = value_problem(attr, attrs[attr.name])
        if problem:
            return f"{problem}\n\t; NodeDef: {{{{node {node}}}}}; {format_op_def(op)}"
    return None


def missing_attrs(op: OpDef, attrs: Attrs) -> list[str]:
    """Return the attrs without a default that a node lacks."""
    return [name for name, attr in op.attrs.items() if not attr.has_default and name not in attrs]


def missing_problem(op: OpDef, missing: Sequence[str]) -> str:
    """Return TensorFlow's message for missing attrs."""
    names = ("s '" if len(missing) > 1 else " '") + "', '".join(missing)
    return f"NodeDef missing attr{names}' from {format_op_def(op)}"


def value_problem(attr: AttrDef, value: AttrValue) -> str | None:
    """Return TensorFlow's message for a value that is below the minimum, too short or not allowed; None for a valid one."""
    is_list = isinstance(value, tuple) and attr.type.startswith("list(")
    if attr.minimum is not None:
        if is_list and len(value) < attr.minimum:
            return f"Length for attr '{attr.name}' of {len(value)} must be at least minimum {attr.minimum}"
        if not is_list and isinstance(value, int) and value < attr.minimum:
            return f"Value for attr '{attr.name}' of {value} must be at least minimum {attr.minimum}"
    if attr.allowed is None:
        return None
    for element in value if is_list else (value,):
        if element not in attr.allowed:
            shown, allowed = (_plain(element), ", ".join(map(_plain, attr.allowed)))
            return f"Value for attr '{attr.name}' of {shown} is not in the list of allowed values: {allowed}"
    return None


def _plain(value: AttrValue) -> str:
    return value.name if isinstance(value, DataType) else format_attr_value(value)
