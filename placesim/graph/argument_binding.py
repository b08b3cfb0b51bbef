"""Binding of an op's inputs and attrs to its arguments. Type and count attrs are inferred as in TensorFlow's Python."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from placesim.core.dtypes import RESOURCE, DataType, OpenType
from placesim.core.errors import GraphBuildError
from placesim.graph.constants import make_constant
from placesim.graph.functions import function_definition
from placesim.graph.graph import LibraryFunction
from placesim.ops.attributes import Attrs, AttrValue
from placesim.ops.definitions import ArgDef, AttrDef, OpDef


class Operand(NamedTuple):
    """A tensor of the graph as an input: its node, the index of the output, and its type."""

    node: int
    slot: int
    dtype: DataType
    is_ref: bool


class VariableNodes(NamedTuple):
    """The nodes of a variable.

    `node` is the variable or its handle, `value` gives its value, and `initializer` is the op that initializes it.
    """

    node: int
    value: int
    initializer: int
    kind: str
    dtype: DataType
    trainable: bool = True


class OpBinding(NamedTuple):
    """An op's inputs as tensors, and its attrs, except attrs that equal their defaults."""

    operands: tuple[Operand, ...]
    attrs: Attrs


class InputError(GraphBuildError):
    """An invalid input. `index` is its position among the given inputs."""

    def __init__(self, message: str, index: int) -> None:
        super().__init__(message)
        self.index = index


class InputTypeError(InputError):
    """An invalid input for which TensorFlow's Python raises TypeError."""

    known_as = "TypeError"


class AttrError(GraphBuildError):
    """An invalid attr. `attr` is its name."""

    def __init__(self, message: str, attr: str) -> None:
        super().__init__(message)
        self.attr = attr


MAX_TENSORS = 1 << 20
"""Maximum number of inputs or outputs that one count attr (`N`, `num_split`) may give a node."""

Converter = Callable[[Any, str, DataType | None, DataType | None], Operand]
"""Function that converts an input to a tensor.

Its arguments are the input, the argument's name, the required type and the preferred type.
"""


def bind(
    definition: OpDef | LibraryFunction, attrs: Attrs, inputs: Sequence[Operand | VariableNodes | Any], convert: Converter
) -> OpBinding:
    """Match inputs to arguments, convert literals and variables to tensors, and infer missing attrs.

    Raises GraphBuildError, with TensorFlow's message if there is one.
    """
    if isinstance(definition, LibraryFunction):
        definition = function_definition(definition)
    return _Binder(definition, attrs, inputs, convert).bind()


class _Binder:
    """Binder of one op's inputs to its arguments. `inferred_from` maps each attr to the argument that determined it."""

    def __init__(self, definition: OpDef, attrs: Attrs, inputs: Sequence[Any], convert: Converter) -> None:
        self.definition = definition
        self.attrs: dict[str, AttrValue] = dict(attrs)
        self.inputs = inputs
        self.convert = convert
        self.inferred_from: dict[str, str] = {}

    def bind(self) -> OpBinding:
        for name, value in self.attrs.items():
            if name in self.definition.attrs:
                self._check_attr(self.definition.attrs[name], value)
        counts = self._counts()
        operands: list[Operand] = []
        for arg, count in zip(self.definition.inputs, counts, strict=True):
            operands += self._bind_arg(arg, len(operands), count)
        self._check_complete()
        return OpBinding(tuple(operands), self._without_defaults())

    def _check_attr(self, attr: AttrDef, value: AttrValue) -> None:
        op, is_list = self.definition.name, attr.type.startswith("list(")
        # a count of a billion would be spelled out as a billion types
        if attr.type == "int" and value > MAX_TENSORS and self._counts_tensors(attr.name):
            message = f"Attr '{attr.name}' of '{op}' Op passed a number that is more than {MAX_TENSORS} tensors."
            raise AttrError(message, attr.name)
        if attr.minimum is not None:
            if is_list and len(value) < attr.minimum:
                message = (
                    f"Attr '{attr.name}' of '{op}' Op passed list of length {len(value)} less than minimum {attr.minimum}."
                )
                raise AttrError(message, attr.name)
            if not is_list and value < attr.minimum:
                raise AttrError(f"Attr '{attr.name}' of '{op}' Op passed {value} less than minimum {attr.minimum}.", attr.name)
        if attr.allowed is None:
            return
        for element in value if is_list else (value,):
            if _takes(attr, element):
                continue
            if isinstance(element, DataType):
                raise AttrError(type_message(attr.name, element, attr), attr.name)
            allowed = '", "'.join(map(str, attr.allowed))
            raise AttrError(f"Attr '{attr.name}' of '{op}' Op passed string '{element}' not in: \"{allowed}\".", attr.name)

    def _counts_tensors(self, name: str) -> bool:
        return any(arg.number_attr == name for arg in (*self.definition.inputs, *self.definition.outputs))

    # --- how many inputs each argument takes ------------------------------------------------------------------------

    def _counts(self) -> list[int]:
        known = [self._known_count(arg) for arg in self.definition.inputs]
        unknown = {
            arg.number_attr or arg.type_list_attr or "": None
            for arg, n in zip(self.definition.inputs, known, strict=True)
            if n is None
        }
        total, settled = len(self.inputs), sum(n or 0 for n in known)
        # two lists of unknown length cannot be told apart in a flat list of inputs
        if len(unknown) > 1:
            attr = next(iter(unknown))
            op = self.definition.name
            raise AttrError(f"attr '{attr}' of '{op}' can't be inferred: got nothing, expected it in 'attrs'", attr)
        if unknown:
            shares = sum(n is None for n in known)
            if total < settled or (total - settled) % shares:
                raise self._wrong_count(settled, total)
            return [(total - settled) // shares if n is None else n for n in known]
        if total != settled:
            raise self._wrong_count(settled, total)
        return [n or 0 for n in known]

    def _known_count(self, arg: ArgDef) -> int | None:
        if arg.type_list_attr is not None:
            given = self.attrs.get(arg.type_list_attr)
            return None if given is None else len(given)
        if arg.number_attr is not None:
            number = self.attrs.get(arg.number_attr)
            return None if number is None else int(number)
        return 1

    def _wrong_count(self, expected: int, got: int) -> GraphBuildError:
        names = ", ".join(arg.name for arg in self.definition.inputs) or "none"
        few = "few" if got < expected else "many"
        message = f"too {few} inputs of '{self.definition.name}': got {got}, expected {expected} ({names})"
        return InputError(message, expected) if got > expected else GraphBuildError(message)

    # --- one argument -----------------------------------------------------------------------------------------------

    def _bind_arg(self, arg: ArgDef, first: int, count: int) -> list[Operand]:
        items = self.inputs[first : first + count]
        if arg.type_list_attr is not None:
            return self._bind_type_list(arg, first, items)
        if arg.number_attr is not None:
            return self._bind_repeated(arg, first, items)
        dtype = arg.dtype if arg.type_attr is None else self.attrs.get(arg.type_attr)
        operand = self._tensor(items[0], arg, arg.name, dtype, first)
        self._check_ref(arg, operand, first)
        if dtype is not None and operand.dtype is not dtype:
            raise InputTypeError(self._type_conflict(arg, operand.dtype, dtype), first)
        if arg.type_attr is not None and dtype is None:
            self._infer_type(arg, operand.dtype, first)
        return [operand]

    def _tensor(self, item: Any, arg: ArgDef, name: str, dtype: DataType | None, index: int) -> Operand:
        # a tensor is never converted: its type is checked by the caller
        if isinstance(item, Operand):
            return item
        if isinstance(item, VariableNodes):
            # an op that changes a variable takes the variable itself, all others its value
            if arg.is_ref or dtype is RESOURCE:
                is_ref = item.kind == "ref"
                return Operand(item.node, 0, item.dtype if is_ref else RESOURCE, is_ref)
            return self.convert(item, name, dtype, None)
        if arg.is_ref:
            raise InputTypeError(self._not_mutable(arg), index)
        if isinstance(dtype, OpenType):
            raise InputError(f"literal of an open type: got one of type '{dtype.attr}', expected a tensor", index)
        # TensorFlow's Python tries the default type of the attr first, and falls back to the literal's own
        preferred = self.definition.attrs[arg.type_attr].default if arg.type_attr in self.definition.attrs else None
        try:
            return self.convert(item, name, dtype, preferred if isinstance(preferred, DataType) else None)
        except GraphBuildError as error:
            own = None if dtype is None else _own_type(item)
            # TensorFlow's Python converts again without a type, only to name that type in a TypeError
            if dtype is None or own is None or own is dtype or arg.number_attr or arg.type_list_attr:
                raise InputError(error.message, index) from None
            raise InputTypeError(self._type_conflict(arg, own, dtype), index) from None

    def _check_ref(self, arg: ArgDef, operand: Operand, index: int) -> None:
        if arg.is_ref and not operand.is_ref:
            raise InputTypeError(self._not_mutable(arg), index)

    def _not_mutable(self, arg: ArgDef) -> str:
        op = self.definition.name
        return f"'{op}' Op requires that input '{arg.name}' be a mutable tensor (e.g.: a tf.Variable)"

    def _type_conflict(self, arg: ArgDef, got: DataType, wanted: DataType) -> str:
        op = self.definition.name
        prefix = f"Input '{arg.name}' of '{op}' Op has type {got.python_name} that does not match"
        if arg.type_attr is None:
            return f"{prefix} expected type of {wanted.python_name}."
        source = self.inferred_from.get(arg.type_attr)
        origin = f"attr '{arg.type_attr}'" if source is None else f"argument '{source}'"
        return f"{prefix} type {wanted.python_name} of {origin}."

    def _infer_type(self, arg: ArgDef, dtype: DataType, index: int) -> None:
        assert arg.type_attr is not None
        attr = self.definition.attrs[arg.type_attr]
        if not _takes(attr, dtype):
            raise InputTypeError(type_message(arg.name, dtype, attr), index)
        self.attrs[arg.type_attr] = dtype
        self.inferred_from[arg.type_attr] = arg.name

    def _bind_repeated(self, arg: ArgDef, first: int, items: Sequence[Any]) -> list[Operand]:
        number = arg.number_attr or ""
        minimum = self.definition.attrs[number].minimum or 0
        if len(items) < minimum:
            op = self.definition.name
            message = f"List argument '{arg.name}' to '{op}' Op with length {len(items)} shorter than minimum length {minimum}."
            raise AttrError(message, number)
        wanted = arg.dtype if arg.type_attr is None else self.attrs.get(arg.type_attr)
        # literals in a list take the type of the first tensor, wherever it stands
        dtype = wanted or next((item.dtype for item in items if isinstance(item, Operand | VariableNodes)), None)
        operands: list[Operand] = []
        for i, item in enumerate(items):
            operands.append(self._tensor(item, arg, f"{arg.name}_{i}", dtype, first + i))
            dtype = dtype or operands[0].dtype
            self._check_ref(arg, operands[-1], first + i)
        # all are converted before types are compared, since the message lists the types of all
        odd = next((i for i, operand in enumerate(operands) if operand.dtype is not dtype), None)
        if odd is not None:
            raise InputTypeError(self._list_conflict(arg, operands, wanted), first + odd)
        self.attrs[number] = len(items)
        if arg.type_attr is not None and wanted is None and dtype is not None:
            self._infer_type(arg, dtype, first)
        return operands

    def _list_conflict(self, arg: ArgDef, operands: Sequence[Operand], wanted: DataType | None) -> str:
        types = ", ".join(operand.dtype.python_name for operand in operands)
        prefix = f"Tensors in list passed to '{arg.name}' of '{self.definition.name}' Op have types [{types}] that"
        if wanted is None:
            return f"{prefix} don't all match."
        if arg.type_attr is None:
            return f"{prefix} do not match expected type {wanted.python_name}."
        return f"{prefix} do not match type {wanted.python_name} inferred from earlier arguments."

    def _bind_type_list(self, arg: ArgDef, first: int, items: Sequence[Any]) -> list[Operand]:
        name = arg.type_list_attr or ""
        given = self.attrs.get(name)
        operands: list[Operand] = []
        for i, item in enumerate(items):
            wanted = None if given is None else given[i]
            operands.append(self._tensor(item, arg, f"{arg.name}_{i}", wanted, first + i))
            if wanted is not None and operands[-1].dtype is not wanted:
                got = operands[-1].dtype.python_name
                message = f"Input '{arg.name}' of '{self.definition.name}' Op has type {got} that does not match"
                raise InputTypeError(f"{message} type {wanted.python_name} of attr '{name}'.", first + i)
        types = tuple(operand.dtype for operand in operands)
        attr = self.definition.attrs[name]
        odd = next((i for i, dtype in enumerate(types) if not _takes(attr, dtype)), None)
        if odd is not None:
            raise InputTypeError(type_message(arg.name, types[odd], attr), first + odd)
        if given is None:
            self._check_attr(attr, types)
            self.attrs[name] = types
        return operands

    # --- what remains -----------------------------------------------------------------------------------------------

    def _check_complete(self) -> None:
        for attr in self.definition.attrs.values():
            if attr.name not in self.attrs and not attr.has_default:
                message = (
                    f"attr '{attr.name}' of '{self.definition.name}' can't be inferred: got nothing, expected a {attr.type}"
                )
                raise AttrError(message, attr.name)

    def _without_defaults(self) -> Attrs:
        definitions = self.definition.attrs
        return {name: value for name, value in self.attrs.items() if not _is_default(definitions.get(name), value)}


def _own_type(item: Any) -> DataType | None:
    """Return the default type of a literal; None if it has none."""
    try:
        return make_constant(item).dtype
    except GraphBuildError:
        return None


def _is_default(attr: AttrDef | None, value: AttrValue) -> bool:
    # 1, True and 1.0 are equal in Python, but different attrs
    if attr is None or not attr.has_default or type(attr.default) is not type(value):
        return False
    # arrays compare element by element
    return attr.type not in ("tensor", "list(tensor)") and bool(attr.default == value)


def _takes(attr: AttrDef, value: AttrValue) -> bool:
    """Whether an attr allows a value. Types that the caller of a function chooses are checked when the function is called."""
    return attr.allowed is None or value in attr.allowed or isinstance(value, OpenType)


def type_message(param: str, dtype: DataType, attr: AttrDef) -> str:
    """Return TensorFlow's message for a type that an argument does not allow."""
    names = ", ".join(allowed.python_name for allowed in attr.allowed or ())
    return f"Value passed to parameter '{param}' has DataType {dtype.python_name} not in list of allowed values: {names}"
