"""Reader of the nodes of an ONNX graph or function, which adds TensorFlow ops to a graph."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from placesim.core.dtypes import DataType
from placesim.core.errors import GraphBuildError
from placesim.formats.onnx.devices import DeviceOf, drop_device, request_where_possible
from placesim.formats.onnx.element_types import BY_ONNX_NUMBER, ONNX_NUMBER
from placesim.formats.onnx.known_values import known_outputs, shape_of_outputs
from placesim.formats.onnx.names import check_names, scope_name
from placesim.formats.onnx.onnx_node import OnnxNode, Outputs, Row, UnsupportedNodeError
from placesim.formats.onnx.opaque_ops import OpaqueOps
from placesim.formats.onnx.ordering import in_order
from placesim.formats.onnx.schema_checks import check_node
from placesim.formats.onnx.tensors import TensorReader
from placesim.formats.onnx.values import Value, dims_of, tensor_type
from placesim.formats.problems import FileProblems, spell
from placesim.graph.builder import ScopedGraphBuilder
from placesim.graph.graph import TensorRef
from placesim.ops.attributes import TensorValue

DEFAULT_DOMAINS = ("", "ai.onnx")
MOST_NESTED = 50
"""Maximum depth of nested functions. ONNX does not allow a function to call itself."""
_APPLIED_OPSET = 23
"""Opset of the ONNX ops that rows apply."""
_MOST_KNOWN = 4096
"""Maximum number of elements of a constant that is passed to type inference."""


FindRow = Callable[[str, str, int], Row | None]
"""Function that returns the converter of an op, by domain, name, and version of its definition; None if there is none."""
KnownVersions = Callable[[str, str], Sequence[int]]
"""Function that returns the versions of an op that have converters, by domain and name."""


def plain_domain(domain: str) -> str:
    """Return the domain of an op, with an empty text for ONNX's own."""
    return "" if domain in DEFAULT_DOMAINS else domain


def opset_versions(imports: Iterable[Any]) -> dict[str, int]:
    """Return the imported opset versions by domain."""
    return {plain_domain(entry.domain): entry.version for entry in imports}


@dataclass
class Model:
    """The data that all graphs of a model share.

    `opsets` has versions by domain, and `functions` FunctionProtos by domain, name and overload.
    """

    opsets: Mapping[str, int]
    functions: Mapping[tuple[str, str, str], Any]
    tensors: TensorReader
    problems: FileProblems
    find_row: FindRow
    known_versions: KnownVersions
    opaque_ops: OpaqueOps
    device_of: DeviceOf = drop_device
    kernels: dict[tuple[Any, ...], bool] = field(default_factory=dict)
    schemas: dict[tuple[str, str, int], Any] = field(default_factory=dict)


class GraphReader:
    """A reader of the nodes of one graph. `names` has its values so far; values of `outer` graphs are visible too.

    `inferred` has the types of values that ONNX infers, and `declared` those in the file. `by_ref` has known facts about
    tensors of the built graph. `given_attrs` are the attributes of a function's call.
    """

    def __init__(
        self,
        model: Model,
        builder: ScopedGraphBuilder,
        outer: GraphReader | None = None,
        opsets: Mapping[str, int] | None = None,
        given_attrs: Mapping[str, Any] | None = None,
        depth: int = 0,
    ) -> None:
        self.model = model
        self.builder = builder
        self.outer = outer
        self.opsets = model.opsets if opsets is None else opsets
        self.given_attrs = given_attrs or {}
        self.depth = depth
        self.device: str | None = None if outer is None else outer.device
        """Requested device of the current node, and of nested nodes without their own."""
        self.made: dict[str, tuple[int, int]] = {}
        """By an ONNX node's first output, the ids of the nodes made from it: the first, and the one after the last."""
        self.maker: Any = None
        """Maker of conditionals and loops in the builder's graph (see `bodies`); None until it is needed."""
        self.trials: int = 0 if outer is None else outer.trials
        """Number of loops around this graph whose body is only tried, to find constant sizes (see `bodies`)."""
        self.names: dict[str, Value | None] = {}
        self.inferred: dict[str, Any] = {}
        self.declared: dict[str, Any] = {}
        self.by_ref: dict[TensorRef, Value] = {} if outer is None or outer.builder is not builder else outer.by_ref

    # --- values -----------------------------------------------------------------------------------------------------

    def lookup(self, name: str) -> Value | None:
        """Return the value of a name here or outside; None if its node had a problem. Raises UnsupportedNodeError."""
        if name in self.names:
            return self.names[name]
        if self.outer is not None:
            return self.captured(name)
        got = "got an input that no graph input, initializer or earlier node defines"
        raise UnsupportedNodeError(f"unknown value '{name}': {got}")

    def captured(self, name: str) -> Value | None:
        """Return a value of the enclosing graph. The reader of a function's body overrides this."""
        assert self.outer is not None
        return self.outer.lookup(name)

    def define(self, name: str, value: Value) -> None:
        """Define a name from here on. Raises UnsupportedNodeError if it is defined already."""
        if name in self.names:
            raise UnsupportedNodeError(f"duplicate value '{name}': got a second definition, expected one")
        self.names[name] = value
        if value.ref is not None:
            self.by_ref.setdefault(value.ref, value)
        if value.type is not None:
            self.inferred[name] = value.type

    def know(self, ref: TensorRef, tensor: TensorValue) -> Value:
        """Record the content of a constant, and return its value."""
        kind = tensor_type(ONNX_NUMBER.get(tensor.dtype, 0), tensor.array.shape)
        value = self.by_ref[ref] = Value(ref, kind, tensor.array)
        return value

    def add_initializer(self, name: str, tensor: TensorValue, is_known: bool = True) -> None:
        """Add a Const with an initializer's name. Nothing but its type is known if its file is missing."""
        full = self.builder.claim_name("Const", scope_name(name, "Const"))
        made = self.builder.add_constant(full, tensor, {}, (), 0)
        value = self.know(TensorRef(made.id, 0), tensor)
        if not is_known:
            value.known = None
        self.define(name, value)

    def has_kernel(self, op: str, attrs: Mapping[str, DataType]) -> bool:
        """Whether an op is defined, and has a kernel on a CPU, for these types."""
        key = (op, *sorted((name, dtype.name) for name, dtype in attrs.items()))
        found = self.model.kernels.get(key)
        if found is None:
            found = self.model.kernels[key] = any(
                kernel.device_type in ("CPU", "DEFAULT")
                and all(dtype in kernel.constraint.get(name, (dtype,)) for name, dtype in attrs.items())
                for kernel in self.builder.registry.kernels(op)
            )
        return found

    def attribute(self, proto: Any) -> Any:
        """Return an AttributeProto's value: a number, text, TensorValue, GraphProto or TypeProto, or a tuple of them."""
        field_name = _ATTRIBUTE_FIELDS.get(proto.type)
        if field_name is None:
            raise UnsupportedNodeError(f"no such attribute: got '{proto.name}' of type {proto.type}")
        value, read_tensor = getattr(proto, field_name), self.model.tensors.read
        convert = {"s": _text, "strings": _text, "t": read_tensor, "tensors": read_tensor}.get(field_name)
        if field_name in _LIST_FIELDS:
            return tuple(value) if convert is None else tuple(map(convert, value))
        return value if convert is None else convert(value)

    # --- nodes ------------------------------------------------------------------------------------------------------

    def read_nodes(self, nodes: Iterable[Any]) -> None:
        """Add the ops of nodes in topological order. Problems are recorded in the model.

        Raises UnsupportedNodeError for a cycle of nodes, and for a problem in a body or function.
        """
        for index, proto in in_order(list(nodes)):
            try:
                self._read_node(proto)
            except GraphBuildError as error:
                for name in proto.output:
                    self.names.setdefault(name, None)
                if error is not REFUSED:
                    self._report(proto, index, error)

    def _report(self, proto: Any, index: int, error: GraphBuildError) -> None:
        if self.depth:
            raise UnsupportedNodeError(f"{_place(proto, index)}: {error.message}") from error
        self.model.problems.add(index + 1, f"{_place(proto, index)}: {error.message}")

    def _read_node(self, proto: Any) -> None:
        check_names(proto.name, proto.op_type, proto.domain, proto.overload, *proto.input, *proto.output)
        check_names(*(name for attr in proto.attribute for name in (attr.name, attr.ref_attr_name)))
        names = ["" if name in self.left_out else name for name in proto.input]
        values = [self.lookup(name) if name else None for name in names]
        if any(value is None and name for value, name in zip(values, names, strict=True)):
            raise REFUSED
        attrs = {attr.name: self._given(attr) for attr in proto.attribute}
        attrs = {name: attr for name, attr in attrs.items() if attr is not None}
        domain = plain_domain(proto.domain)
        base = scope_name(proto.name, scope_name(proto.op_type, "Node"))
        around, start = self.device, len(self.builder.graph)
        self.device = self.model.device_of(proto) or around
        try:
            with self.builder.attempt(), self.builder.name_scope(base):
                outputs = self._outputs(proto, domain, values, attrs)
            if self.device is not None:
                request_where_possible(self.builder.graph, start, self.device)
        finally:
            self.device = around
        self.made[next(filter(None, proto.output), "")] = (start, len(self.builder.graph))
        for name, value in zip(proto.output, outputs, strict=False):
            if name and value is not None:
                self.define(name, value)

    def _given(self, attr: Any) -> Any:
        """Return an attribute, or the attribute of the function's call to which it refers; None if the call lacks it."""
        if not attr.ref_attr_name:
            return attr
        found = self.given_attrs.get(attr.ref_attr_name)
        if found is None:
            return None
        renamed = type(attr)()
        renamed.CopyFrom(found)
        renamed.name = attr.name
        return renamed

    def _outputs(self, proto: Any, domain: str, values: Sequence[Value | None], attrs: dict[str, Any]) -> list[Value | None]:
        function = self.model.functions.get((domain, proto.op_type, proto.overload))
        if function is not None:
            return self.expand(function, values, attrs)
        schema = self._schema(proto, domain)
        since = 1 if schema is None else schema.since_version  # ONNX Runtime's own ops have one version
        resolved = self._resolved(proto, attrs)
        if schema is not None:
            check_node(schema, resolved, values, attrs)
        types = {} if schema is None else self._infer(schema, resolved, values)
        self.inferred.update(types)
        node = OnnxNode(self, resolved, proto.name, since, values, attrs)
        known = known_outputs(node) if not domain else None
        row = self.model.find_row(domain, proto.op_type, since)
        if row is not None:
            made = _listed(_applied(row, node))
        elif schema is not None and self._body(schema, resolved, values) is not None:
            made = list(self.composition(node))
        elif self.model.opaque_ops:
            made = list(self.model.opaque_ops.add(node, domain))
        else:
            raise UnsupportedNodeError(self._unknown(proto, domain, since))
        return [self._value(node, index, item, known) for index, item in enumerate(made)]

    def _resolved(self, proto: Any, attrs: dict[str, Any]) -> Any:
        """Return the node with the attributes of its function's call in place of references to them."""
        if not any(attr.ref_attr_name for attr in proto.attribute):
            return proto
        found = type(proto)()
        found.CopyFrom(proto)
        del found.attribute[:]
        found.attribute.extend(attrs.values())
        return found

    def _value(self, node: OnnxNode, index: int, made: Any, known: Sequence[Any] | None) -> Value | None:
        """Return the value of an output that a converter made, with all known facts."""
        if made is None:
            return None
        value = made if isinstance(made, Value) else Value(made)
        if value.type is None:
            value.type = node.output_type(index)
        declared = self.declared.get(node.proto.output[index]) if index < node.outputs else None
        if declared is not None and value.type is not None:
            value.type = _refined(value.type, declared)
        if value.known is None and known is not None and index < len(known):
            value.known = known[index]
        if value.ref is not None:
            earlier = self.by_ref.get(value.ref)
            if earlier is not None:
                value.known = earlier.known if value.known is None else value.known
                value.type = earlier.type if value.shape is None else value.type
            self.by_ref[value.ref] = value
            self._check_type(node, index, value)
        return value

    def _check_type(self, node: OnnxNode, index: int, value: Value) -> None:
        assert value.ref is not None
        expected = node.output_dtype(index)
        found = node.dtype(value.ref)
        if expected is not None and found is not expected:
            raise UnsupportedNodeError(f"wrong type of output {index}: got {found.name}, expected {expected.name}")

    # --- ONNX's definitions -----------------------------------------------------------------------------------------

    def _schema(self, proto: Any, domain: str) -> Any:
        """Return ONNX's definition of the op in the version that the model imports; None if ONNX has none."""
        from onnx import defs

        version = self.opsets.get(domain)
        if version is None:
            expected = "expected one in the model's opset_import"
            raise UnsupportedNodeError(f"no opset for domain {spell(domain)}: got none, {expected}")
        key = (domain, proto.op_type, version)
        if key not in self.model.schemas:
            try:
                self.model.schemas[key] = defs.get_schema(proto.op_type, version, domain)
            except defs.SchemaError:
                self.model.schemas[key] = None
        return self.model.schemas[key]

    def _infer(self, schema: Any, proto: Any, values: Sequence[Value | None]) -> dict[str, Any]:
        """Return the types that ONNX infers for a node's outputs, by name; empty if inference fails."""
        from onnx import helper, shape_inference

        pairs = [(name, value) for name, value in zip(proto.input, values, strict=True) if value is not None]
        types = {name: value.type for name, value in pairs if value.type is not None}
        data = {}
        for name, value in pairs:
            content = value.content
            if content is not None and content.size <= _MOST_KNOWN and content.dtype.name in _DATA:
                kind = _DATA[content.dtype.name]
                data[name] = helper.make_tensor(name, kind, content.shape, content.tobytes(), raw=True)
        if len(types) < len({name for name, _ in pairs}):
            return {}
        opsets = [helper.make_opsetid(name, version) for name, version in self.opsets.items()]
        try:
            found: dict[str, Any] = shape_inference.infer_node_outputs(schema, proto, types, data, opset_imports=opsets)
        except Exception:  # ONNX's errors of inference have no common class
            return {}
        for name, dims in shape_of_outputs(proto, values).items():
            if name in found and dims_of(found[name]) is None:
                found[name] = tensor_type(found[name].tensor_type.elem_type, dims)
        return found

    def composition(self, node: OnnxNode) -> list[Value | None]:
        """Add the ops that define a node's op in ONNX, and return the outputs. Raises UnsupportedNodeError if none exist."""
        schema = self._schema(node.proto, plain_domain(node.proto.domain))
        body = None if schema is None else self._body(schema, node.proto, node.values)
        if body is None:
            raise UnsupportedNodeError(f"no ONNX function body for op '{node.op}'")
        attrs = {attr.name: attr for attr in node.proto.attribute}
        return self.expand(body, node.values, {**_defaults(schema), **attrs}, is_definition=True)

    def _body(self, schema: Any, proto: Any, values: Sequence[Value | None]) -> Any:
        """Return ONNX's definition of an op by other ops, as a FunctionProto with opsets; None if there is none."""
        import onnx

        depends = schema.has_context_dependent_function
        versions = schema.context_dependent_function_opset_versions if depends else schema.function_opset_versions
        if not versions:
            return None
        current = self.opsets.get(plain_domain(schema.domain), 1)
        version = max((one for one in versions if one <= current), default=min(versions))
        if depends:  # an omitted input has an empty type
            types = [b"" if value is None or value.type is None else value.type.SerializeToString() for value in values]
            text = schema.get_context_dependent_function_with_opset_version(version, proto.SerializeToString(), types)
        else:
            text = schema.get_function_with_opset_version(version)
        if not text:
            return None
        body = onnx.FunctionProto()
        body.ParseFromString(text)
        return body

    def expand(
        self, function: Any, values: Sequence[Value | None], attrs: Mapping[str, Any], is_definition: bool = False
    ) -> list[Value | None]:
        """Add the nodes of a FunctionProto, and return its outputs."""
        if self.depth >= MOST_NESTED:
            raise UnsupportedNodeError(f"recursive function '{function.name}': expected functions that do not call themselves")
        defaults = {attr.name: attr for attr in function.attribute_proto}
        inner = self._within({**self.opsets, **opset_versions(function.opset_import)}, {**defaults, **attrs})
        for index, name in enumerate(function.input):
            value = values[index] if index < len(values) else None
            if value is not None:
                inner.define(name, value)
            else:
                inner.names[name] = None
        inner.is_definition = is_definition
        inner.left_out = {name for index, name in enumerate(function.input) if index >= len(values) or values[index] is None}
        inner.read_nodes(function.node)
        return [inner.names.get(name) for name in function.output]

    def apply(self, op: str, inputs: Sequence[Value | None], attrs: Mapping[str, Any], outputs: int) -> list[Value | None]:
        """Add a node of an ONNX op in the version of opset `_APPLIED_OPSET`, and return its outputs."""
        from onnx import helper

        given = ["" if value is None else f"x{index}" for index, value in enumerate(inputs)]
        made = [f"y{index}" for index in range(outputs)]
        inner = self._within({"": _APPLIED_OPSET}, {})
        inner.names.update(zip(given, inputs, strict=True))
        told = {name: attr for name, attr in attrs.items() if attr is not None}
        inner.read_nodes([helper.make_node(op, given, made, **told)])
        return [inner.names[name] for name in made]

    def _within(self, opsets: Mapping[str, int], attrs: Mapping[str, Any]) -> GraphReader:
        """Return a reader of a function's nodes into the same graph."""
        inner = GraphReader(self.model, self.builder, None, opsets, attrs, self.depth + 1)
        inner.by_ref, inner.maker, inner.device, inner.trials = self.by_ref, self.maker, self.device, self.trials
        return inner

    is_definition: bool = False
    """Whether the nodes are ONNX's definition of an op."""
    left_out: frozenset[str] | set[str] = frozenset()
    """Inputs of a function that its call omits. Its nodes then omit them too."""

    def _unknown(self, proto: Any, domain: str, since: int) -> str:
        full = f"{domain}::{proto.op_type}" if domain else proto.op_type
        versions = self.model.known_versions(domain, proto.op_type)
        if versions:
            have = ", ".join(map(str, versions))
            return f"unsupported ONNX op '{full}', version {since}: expected a version from {have}{_WAY_OUT}"
        return f"unsupported ONNX op '{full}': expected an op that `placesim manual onnx-ops` lists{_WAY_OUT}"


REFUSED = UnsupportedNodeError("an input was refused")
"""Error of a node with an input whose problem has been reported."""
_WAY_OUT = "; --allow-unknown cpu,gpu places it on these devices without computing it"
_LIST_FIELDS = ("floats", "ints", "strings", "tensors", "graphs")
_ATTRIBUTE_FIELDS = {1: "f", 2: "i", 3: "s", 4: "t", 5: "g", 13: "tp", **dict(enumerate(_LIST_FIELDS, 6))}
"""Fields of an AttributeProto by the number of its type. Source: `onnx.proto`."""
_DATA = {BY_ONNX_NUMBER[number].numpy.name: number for number in (*range(1, 8), *range(9, 14))}
"""ONNX's numbers of the element types whose content inference may use, by numpy name."""


def _applied(row: Row, node: OnnxNode) -> Outputs:
    """Return the outputs that a converter makes. Raises UnsupportedNodeError if it fails for the node's attributes."""
    try:
        return row(node)
    except GraphBuildError:
        raise
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise UnsupportedNodeError(f"invalid attributes or constants: {type(error).__name__}: {error}") from error


def _defaults(schema: Any) -> dict[str, Any]:
    return {name: attr.default_value for name, attr in schema.attributes.items() if attr.default_value.name}


def _refined(inferred: Any, declared: Any) -> Any:
    """Return the inferred type, with sizes of the declared shape where none could be inferred."""
    dims, said = dims_of(inferred), dims_of(declared)
    if said is None or (dims is not None and (len(dims) != len(said) or None not in dims)):
        return inferred
    merged = said if dims is None else [own if own is not None else other for own, other in zip(dims, said, strict=True)]
    if dims is not None and tuple(merged) == dims:
        return inferred
    return tensor_type(inferred.tensor_type.elem_type, merged)


def _listed(made: Outputs) -> list[Any]:
    if made is None or isinstance(made, TensorRef | Value):
        return [made]
    return list(made)


def _text(value: bytes) -> str | bytes:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value


def _place(proto: Any, index: int) -> str:
    """Return the place of a node for messages: `node 'conv1' (Conv, node 3)`."""
    name = f"node {spell(proto.name)}" if proto.name else "node without a name"
    return f"{name} ({proto.op_type}, node {index})"
