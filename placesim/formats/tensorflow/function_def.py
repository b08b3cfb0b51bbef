"""Reader and writer of FunctionDefs, as entries of the function library.

The attr `_function_def` of a LibraryFunction keeps as bytes what its fields can't hold: flags of the op definition, attrs of
arguments, and unknown fields.
"""

from __future__ import annotations

from placesim.core.dtypes import BY_NUMBER
from placesim.core.protobuf_wire import BYTES, WireError, fields
from placesim.formats.tensorflow.attr_value import UnrepresentableValue, read_entry, read_string, write_attr
from placesim.formats.tensorflow.messages import Buffer, Message, message_class, parse, serialise
from placesim.formats.tensorflow.node_def import NodeReader, NodeWriter, read_rest
from placesim.graph.graph import FunctionArg, LibraryFunction, NodeDef
from placesim.ops.attributes import AttrValue

REST = "_function_def"
"""Name of the attr that holds the other parts of a FunctionDef."""
_NODE_DEF = 3


# --- reading --------------------------------------------------------------------------------------------------------


def read_function(data: Buffer, nodes: NodeReader) -> LibraryFunction:
    """Read a FunctionDef. Raises WireError."""
    view = memoryview(data)
    spans: list[int] = []
    others = []
    for field in fields(view):
        if field.number == _NODE_DEF and field.wire_type == BYTES:
            spans += (field.value_start, field.end)
        else:
            others.append(view[field.start : field.end])
    message = parse("FunctionDef", b"".join(others))
    name = message.signature.name
    try:
        return _function(message, tuple(nodes.read_all(view, spans)))
    except WireError as error:
        raise WireError(f"function '{name}': {error}") from None


def _function(message: Message, body: tuple[NodeDef, ...]) -> LibraryFunction:
    signature = message.signature
    inputs = tuple(_read_arg(arg, "") for arg in signature.input_arg)
    outputs = tuple(_read_arg(arg, _result(message, arg.name)) for arg in signature.output_arg)
    ordered = [name for name in signature.control_output if name in message.control_ret]
    ordered += sorted(name for name in message.control_ret if name not in ordered)
    controls = {name: message.control_ret[name] for name in ordered}
    attrs, kept = _read_attrs(message)
    name = signature.name
    rest = _rest(message, kept, list(controls))
    if rest:
        attrs[REST] = read_string(rest)
    return LibraryFunction(name, inputs, outputs, body, controls, attrs)


def _result(message: Message, name: str) -> str:
    if name not in message.ret:
        raise WireError(f"Return value for output '{name}' is missing")
    return str(message.ret[name])


def _read_arg(arg: Message, value: str) -> FunctionArg:
    if arg.number_attr or arg.type_list_attr:
        raise WireError(f"argument '{arg.name}' stands for several tensors, which is not supported")
    if arg.type_attr:
        return FunctionArg(arg.name, None, arg.type_attr, value)
    dtype = BY_NUMBER.get(arg.type)
    if dtype is None:
        raise WireError(f"argument '{arg.name}' has no type: got number {arg.type}")
    return FunctionArg(arg.name, dtype, None, value)


def _read_attrs(message: Message) -> tuple[dict[str, AttrValue], list[str]]:
    """Return the attrs by name, sorted, and the names of the attrs that the attr REST must keep."""
    attrs: dict[str, AttrValue] = {}
    kept = []
    for name in sorted(message.attr):
        entry = message_class("AttrEntry")(key=name, value=message.attr[name])
        _, value, is_all = read_entry(entry.SerializeToString())
        if value is not UnrepresentableValue and name != REST:
            attrs[name] = value
        if not is_all or name == REST:
            kept.append(name)
    return attrs, kept


def _rest(message: Message, kept_attrs: list[str], control_names: list[str]) -> bytes:
    """Return the parts of a FunctionDef that a LibraryFunction can't hold, as bytes; this changes the message."""
    signature = message.signature
    for name in ("ret", "control_ret"):
        message.ClearField(name)
    for name in [name for name in message.attr if name not in kept_attrs]:
        del message.attr[name]
    if list(signature.control_output) == control_names:
        signature.ClearField("control_output")
    for args in (signature.input_arg, signature.output_arg):
        for arg in args:
            for name in ("name", "type", "type_attr"):
                arg.ClearField(name)
        if not any(arg.ByteSize() for arg in args):
            del args[:]
    signature.ClearField("name")
    if not signature.ByteSize():
        message.ClearField("signature")
    return serialise(message)


def stateful_attrs(is_stateful: bool) -> dict[str, AttrValue]:
    """Return the attr that marks a function as stateful; empty for a stateless function."""
    if not is_stateful:
        return {}
    rest = message_class("FunctionDef")()
    rest.signature.is_stateful = True
    return {REST: read_string(serialise(rest))}


# --- writing --------------------------------------------------------------------------------------------------------


def write_function(function: LibraryFunction, nodes: NodeWriter) -> bytes:
    """Return the bytes of a FunctionDef. Raises WireError for content that it can't hold."""
    try:
        message = read_rest("FunctionDef", function.attrs.get(REST)) or message_class("FunctionDef")()
        signature = message.signature
        signature.name = function.name
        _write_args(signature.input_arg, function.inputs)
        _write_args(signature.output_arg, function.outputs)
        if not signature.control_output:
            signature.control_output.extend(function.control_outputs)
        for output in function.outputs:
            message.ret[output.name] = output.value
        for name, node in function.control_outputs.items():
            message.control_ret[name] = node
        for name, value in function.attrs.items():
            if name != REST and name not in message.attr:
                message.attr[name].CopyFrom(write_attr(value))
        for body in function.nodes:
            written = nodes.write(body.name, body.op, body.inputs, body.device, body.attrs)
            message.node_def.append(parse("NodeDef", b"".join(written)))
        return serialise(message)
    except (WireError, ValueError, TypeError) as error:
        raise WireError(f"function '{function.name}': {error}") from None


def _write_args(written: Message, args: tuple[FunctionArg, ...]) -> None:
    if len(written) != len(args):
        del written[:]
        for _ in args:
            written.add()
    for message, arg in zip(written, args, strict=True):
        message.name = arg.name
        if arg.dtype is not None:
            message.type = arg.dtype.number
        if arg.type_attr:
            message.type_attr = arg.type_attr
