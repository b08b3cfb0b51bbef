"""Make an operation from the arguments of an op's function, like TensorFlow's `_apply_op_helper`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from typing import Any, cast

from placesim.core.dtypes import DataType as ElementType
from placesim.graph.argument_binding import type_message
from placesim.ops.attributes import AttrValue
from placesim.ops.definitions import ArgDef, OpDef
from placesim.tf1.graphs.graph import Graph, get_default_graph
from placesim.tf1.graphs.tensor import Operation, OwningGraph, SymbolicTensor, Tensor
from placesim.tf1.graphs.tensor_likes import TensorLike
from placesim.tf1.ops.conversion import convert_n_to_tensor, convert_to_tensor
from placesim.tf1.ops.signatures import snake_case


def apply_op(
    definition: OpDef, args: Sequence[Any], attrs: dict[str, AttrValue] | None = None, name: str | None = None
) -> Operation:
    """Make an operation from a script's arguments; values other than tensors become Consts in the op's scope.

    `attrs` are in placesim's form; attrs that the arguments determine may be absent.
    """
    op = definition.name
    for arg in args:
        if arg.__class__ is not SymbolicTensor:
            return _apply_converting(definition, args, attrs or {}, name)
    graph = graph_of(args)
    full = graph.claim_name(op, name or None)
    return graph.make(op, full, args, attrs)


def _apply_converting(definition: OpDef, args: Sequence[Any], attrs: dict[str, AttrValue], name: str | None) -> Operation:
    op = definition.name
    graph = graph_of(_flat(args))
    with nullcontext() if graph is get_default_graph() else graph.as_default():
        full = graph.claim_name(op, name or None)
        builder = graph.builder
        saved = builder.prefix
        builder.prefix = full + "/"
        try:
            tensors = _Arguments(definition, attrs).convert(args)
        finally:
            builder.prefix = saved
        return graph.make(op, full, tensors, attrs)


class _Arguments:
    """Conversion of one op's arguments to tensors; `inferred_from` maps an attr to the argument that determined it."""

    def __init__(self, definition: OpDef, attrs: dict[str, AttrValue]) -> None:
        self.definition = definition
        self.op = definition.name
        self.attrs = attrs
        self.inferred_from: dict[str, str] = {}

    def convert(self, args: Sequence[Any]) -> list[Tensor]:
        tensors: list[Tensor] = []
        for arg, value in zip(self.definition.inputs, args, strict=True):
            if arg.number_attr is None and arg.type_list_attr is None:
                tensors.append(self._convert_one(arg, value))
            else:
                tensors += self._convert_list(arg, value)
        return tensors

    def _convert_one(self, arg: ArgDef, value: TensorLike) -> Tensor:
        wanted = arg.dtype if arg.type_attr is None else self.attrs.get(arg.type_attr)
        try:
            tensor = self._tensor(arg, value, wanted)
        except TypeError as error:
            if wanted is None:
                raise
            raise TypeError(
                f"Expected {wanted.python_name} passed to parameter '{arg.name}' of op '{self.op}', got {value!r} of type "
                f"'{type(value).__name__}' instead. Error: {error}"
            ) from None
        except ValueError:
            raise self._mismatch(arg, value) from None
        self._check_ref(arg, [tensor])
        self._settle_type(arg, tensor.element)
        return tensor

    def _tensor(self, arg: ArgDef, value: Any, wanted: ElementType | None) -> Tensor:
        """Convert a value to a tensor; if its own type is not allowed, to the attr's default type."""
        attr = self.definition.attrs.get(arg.type_attr or "")
        if wanted is not None or attr is None or not attr.has_default:
            return convert_to_tensor(value, wanted, arg.name, as_ref=arg.is_ref)
        try:
            found = convert_to_tensor(value, None, arg.name, as_ref=arg.is_ref)
            if attr.allowed is None or found.element in attr.allowed:
                return found
        except (TypeError, ValueError):
            pass
        return convert_to_tensor(value, None, arg.name, attr.default, as_ref=arg.is_ref)

    def _mismatch(self, arg: ArgDef, value: TensorLike) -> Exception:
        """Error for a value of the wrong type, or for a value that can't be converted to any tensor."""
        try:
            observed = convert_to_tensor(value, as_ref=arg.is_ref).dtype.name
        except ValueError as error:
            return ValueError(f"Tried to convert '{arg.name}' to a tensor and failed. Error: {error}")
        prefix = f"Input '{arg.name}' of '{self.op}' Op has type {observed} that does not match"
        if arg.type_attr is None:
            assert arg.dtype is not None
            return TypeError(f"{prefix} expected type of {arg.dtype.python_name}.")
        dtype: ElementType = self.attrs[arg.type_attr]
        source = self.inferred_from.get(arg.type_attr, "Default in OpDef")
        return TypeError(f"{prefix} type {dtype.python_name} of argument '{source}'.")

    def _convert_list(self, arg: ArgDef, value: TensorLike) -> list[Tensor]:
        if not isinstance(value, list | tuple):
            op = self.op if arg.number_attr is None else snake_case(self.op)
            raise TypeError(f"Expected list for '{arg.name}' argument to '{op}' Op, not {value}.")
        tensors = self._convert_types(arg, value) if arg.type_list_attr is not None else self._convert_repeated(arg, value)
        self._check_ref(arg, tensors)
        return tensors

    def _convert_types(self, arg: ArgDef, value: Sequence[Any]) -> list[Tensor]:
        name = arg.type_list_attr or ""
        try:
            tensors = convert_n_to_tensor(value, None, arg.name, as_ref=arg.is_ref)
        except (TypeError, ValueError):
            raise TypeError(f"{self._list_types(arg, value)} that are invalid. Tensors: {value}") from None
        found = tuple(tensor.element for tensor in tensors)
        given = self.attrs.get(name)
        if given is not None and tuple(given) != found:
            shown = ", ".join(dtype.python_name for dtype in found)
            wanted = ", ".join(dtype.python_name for dtype in given)
            raise TypeError(
                f"Input '{arg.name}' of '{self.op}' Op has type list of {shown} that does not match type list "
                f"{wanted} of argument '{self.inferred_from.get(name, name)}'."
            )
        if given is None:
            self.attrs[name] = found
            self.inferred_from[name] = arg.name
        return tensors

    def _convert_repeated(self, arg: ArgDef, value: Sequence[Any]) -> list[Tensor]:
        number = arg.number_attr or ""
        wanted = arg.dtype if arg.type_attr is None else self.attrs.get(arg.type_attr)
        known = wanted is not None
        if wanted is None:
            wanted = next((item.dtype.base_dtype.element for item in value if isinstance(item, Tensor)), None)
        try:
            tensors = convert_n_to_tensor(value, wanted, arg.name, as_ref=arg.is_ref)
            if len({tensor.element for tensor in tensors}) > 1:
                raise TypeError
        except (TypeError, ValueError):
            prefix = self._list_types(arg, value)
            if arg.type_attr is None and wanted is not None:
                raise TypeError(f"{prefix} that do not match expected type {wanted.python_name}.") from None
            if known and wanted is not None:
                raise TypeError(
                    f"{prefix} that do not match type {wanted.python_name} inferred from earlier arguments."
                ) from None
            raise TypeError(f"{prefix} that don't all match.") from None
        given = self.attrs.get(number)
        if given is not None and given != len(tensors):
            raise ValueError(
                f"List argument '{arg.name}' to '{self.op}' Op with length {len(tensors)} must match length {given} of "
                f"argument '{self.inferred_from.get(number, number)}'."
            )
        minimum = self.definition.attrs[number].minimum or 0
        if len(tensors) < minimum:
            raise ValueError(
                f"List argument '{arg.name}' to '{self.op}' Op with length {len(tensors)} shorter than minimum length "
                f"{minimum}."
            )
        if given is None:
            self.attrs[number] = len(tensors)
            self.inferred_from[number] = arg.name
        if tensors:
            self._settle_type(arg, tensors[0].element)
        return tensors

    def _list_types(self, arg: ArgDef, values: Iterable[Any]) -> str:
        """Beginning of an error about a list argument: the types of its elements."""
        found = []
        for value in values:
            try:
                found.append(convert_to_tensor(value, as_ref=arg.is_ref).dtype.base_dtype.name)
            except (TypeError, ValueError):
                found.append("<NOT CONVERTIBLE TO TENSOR>")
        return f"Tensors in list passed to '{arg.name}' of '{self.op}' Op have types [{', '.join(found)}]"

    def _check_ref(self, arg: ArgDef, tensors: Sequence[Tensor]) -> None:
        if arg.is_ref and not all(tensor._is_ref for tensor in tensors):
            raise TypeError(f"'{self.op}' Op requires that input '{arg.name}' be a mutable tensor (e.g.: a tf.Variable)")

    def _settle_type(self, arg: ArgDef, dtype: ElementType) -> None:
        name = arg.type_attr
        if name is None:
            return
        if name in self.attrs:
            if self.attrs[name] is not dtype:
                source = self.inferred_from.get(name, "Default in OpDef")
                raise TypeError(
                    f"Input '{arg.name}' of '{self.op}' Op has type {dtype.python_name} that does not match type "
                    f"{self.attrs[name].python_name} of argument '{source}'."
                )
            return
        attr = self.definition.attrs[name]
        if attr.allowed is not None and dtype not in attr.allowed:
            raise TypeError(type_message(arg.name, dtype, attr))
        self.attrs[name] = dtype
        self.inferred_from[name] = arg.name


# --- the graph of arguments -----------------------------------------------------------------------------------------


def graph_of(values: Iterable[Any]) -> Graph:
    """The graph of the tensors among `values`, else the default graph.  Raises ValueError if they are of several graphs.

    Inside a function it is always the function's graph, which captures outer tensors.
    """
    default = get_default_graph()
    if default.building_function:
        return default
    found: OwningGraph | None = None
    first: Any = None
    for value in values:
        element = value if isinstance(value, Tensor | Operation) else _element_of(value)
        if element is None:
            continue
        if found is None:
            found, first = element.graph, element
        elif element.graph is not found:
            raise ValueError(f"{element} must be from the same graph as {first} (graphs are {element.graph} and {found}).")
    return cast("Graph", found or default)


def _element_of(value: TensorLike) -> Any:
    find = getattr(value, "_as_graph_element", None)
    return None if find is None else find()


def _flat(values: Any) -> Iterable[Any]:
    for value in values:
        if isinstance(value, list | tuple):
            yield from _flat(value)
        else:
            yield value
