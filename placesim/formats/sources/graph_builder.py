"""The builder of a graph in Python, node by node, like the entries of a graph file: `placesim.GraphBuilder`.

Large modules are imported only when a builder is made, so that `import placesim` is fast enough for a shell tool.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

from placesim.core.errors import GraphBuildError
from placesim.core.suggestions import did_you_mean

if TYPE_CHECKING:
    from placesim.formats.graph_file.entries.node_makers import FunctionMaker
    from placesim.graph.argument_binding import VariableNodes
    from placesim.graph.builder import ScopedGraphBuilder as NodeBuilder
    from placesim.graph.graph import Node, TensorRef
    from placesim.graph.session_steps import GraphFile


class NodeHandle:
    """A node or variable of a builder, as an input of other nodes. It stands for the first output; `[i]` gives another output.

    `name` is the full name of the node in its graph, for fetches and feeds.
    """

    __slots__ = ("_builder", "_item", "name")

    def __init__(self, name: str, item: Node | TensorRef | VariableNodes, builder: NodeBuilder) -> None:
        self.name = name
        self._item = item
        self._builder = builder

    def __repr__(self) -> str:
        return f"<placesim node {self.name}>"

    def __getitem__(self, index: int) -> NodeHandle:
        """Return another output of the node. Raises TypeError for a variable, whose value is a single tensor."""
        from placesim.graph.graph import Node, TensorRef

        if not isinstance(self._item, Node):
            raise TypeError(f"no outputs to index: got {self!r}, expected a node")
        return NodeHandle(f"{self.name}:{index}", TensorRef(self._item.id, index), self._builder)

    def __iter__(self) -> Iterator[Any]:
        """Raise TypeError, because the number of outputs can't be found by unpacking a node."""
        raise TypeError(f"{self!r} is not iterable: select an output with [i]")


class _Level:
    """A graph to which nodes are added: the graph of the file, of a function, or of the body of a conditional or loop."""

    def __init__(self, builder: NodeBuilder, functions: FunctionMaker | None = None, open_types: Any = None) -> None:
        self.builder = builder
        self.is_body = functions is not None
        self.open_types: Mapping[str, Any] = open_types or {}
        self.error: Exception | None = None
        """The error that rejected a node of a body, which rejects the whole body."""
        self._functions = functions

    @property
    def functions(self) -> FunctionMaker:
        """Return the maker of conditionals and loops for this graph."""
        from placesim.formats.graph_file.entries.node_makers import make_functions

        if self._functions is None:
            self._functions = make_functions(self.builder)
        return self._functions


class _BodyExit(Exception):
    """An exception that the caller's function for a body raised."""

    def __init__(self, error: Exception) -> None:
        super().__init__(str(error))
        self.error = error


@contextmanager
def _build_errors() -> Iterator[None]:
    """Raise GraphBuildError in place of the InvalidValue of the block."""
    from placesim.formats.problems import InvalidValue

    try:
        yield
    except InvalidValue as wrong:
        raise GraphBuildError(str(wrong)) from None


class GraphBuilder:
    """A builder that adds nodes in scopes, by the rules of TensorFlow's Python and of graph files.

        builder = placesim.GraphBuilder()
        with builder.device("/gpu:0"), builder.name_scope("tower"):
            x = builder.add("Placeholder", dtype="float32", shape=[None, 4], name="x")
            y = builder.add("MatMul", x, builder.variable("w", [4, 2]), name="y")
        placesim.place(builder, gpu=1)

    All functions that take a path take a builder too. A method that adds a node adds nothing and raises GraphBuildError if
    TensorFlow's Python, or a graph file, would refuse the node. `tensorflow` is the release that provides the ops, such as
    "1.15".
    """

    def __init__(self, name: str = "<builder>", tensorflow: Any = None) -> None:
        from placesim.core.releases import CURRENT, find_release
        from placesim.graph.builder import ScopedGraphBuilder as NodeBuilder
        from placesim.ops.registry import load_registry

        self.name = name
        self.release = CURRENT if tensorflow is None else find_release(tensorflow)
        self._file = NodeBuilder(load_registry(self.release.name), {}, name)
        self._levels = [_Level(self._file)]

    @property
    def _builder(self) -> NodeBuilder:
        """Return the builder of the current graph: the file's builder, or the builder of the innermost body."""
        return self._levels[-1].builder

    def __repr__(self) -> str:
        return f"<placesim.GraphBuilder {self.name}: {len(self)} nodes>"

    def __len__(self) -> int:
        """Return the number of nodes outside functions."""
        return len(self._file.graph)

    def add(
        self,
        op: str,
        *inputs: Any,
        name: str | None = None,
        device: str | None = "",
        control_inputs: Iterable[NodeHandle] = (),
        attrs: Mapping[str, Any] | None = None,
        **more_attrs: Any,
    ) -> NodeHandle:
        """Add a node of a registered op.

        `inputs` are results of this builder, lists of them, or literals (numbers, texts, lists, arrays), which become
        constants. Attrs are given by name, with values as in a graph file (`dtype="float32"`, `shape=[None, 4]`). An attr with
        the name of a parameter goes into `attrs`. Type and count attrs may be left out; they are inferred. `device` is merged
        into the device of the scopes; with None, the device of the scopes is ignored.
        """
        controls = self._controls(control_inputs)
        builder = self._builder
        with ExitStack() as scopes:
            if device != "":
                scopes.enter_context(builder.device(device))
            values = self._attrs(op, {**(attrs or {}), **more_attrs})
            with self._adding():
                full = builder.claim_name(op, name)
                node = builder.add_named(op, full, self._operands(op, full, inputs), values, controls, 0)
        return NodeHandle(node.name, node, builder)

    def constant(
        self, value: Any, dtype: str | None = None, shape: Sequence[int] | None = None, name: str | None = None
    ) -> NodeHandle:
        """Add a `Const` as `tf.constant` does. By default, the value determines the dtype."""
        from placesim.formats.graph_file.plain_values import constant_value

        with _build_errors():
            tensor = constant_value(value, dtype, shape)
        with self._adding():
            node = self._builder.constant(tensor, name=name)
        return NodeHandle(node.name, node, self._builder)

    def variable(
        self,
        name: str,
        shape: Sequence[int] | None = None,
        dtype: str = "float32",
        initializer: Any = None,
        kind: str = "ref",
    ) -> NodeHandle:
        """Add a variable with its initializer, always outside functions and bodies. As an input, it stands for its value.

        `initializer` is as in a graph file (`"zeros"`, `{"random_normal": {"stddev": 0.1}}`, `{"value": [1.0, 2.0]}`); a value
        may determine shape and dtype. `kind` is `ref` or `resource`.
        """
        from placesim.formats.graph_file.entries.variable_entries import initializer_value, kind_value
        from placesim.formats.graph_file.plain_values import constant_value, dtype_value, known_shape
        from placesim.formats.problems import InvalidValue
        from placesim.graph.variables import VALUE_KINDS, InitializerSpec, add_variable

        with _build_errors():
            dims = None if shape is None else known_shape(shape)
            found, element = None if initializer is None else initializer_value(initializer), dtype_value(dtype)
            if found is not None and found.kind == "tensor":
                raise InvalidValue("initializer not supported here: got 'tensor', expected another")
            if found is not None and found.kind in VALUE_KINDS:
                tensor = constant_value(found.values[found.kind], None, dims)
                element, found = tensor.dtype, InitializerSpec(found.kind, {found.kind: tensor.array})
            kind = kind_value(kind)
        if len(self._levels) > 1:
            raise GraphBuildError("variable in a body: got one, expected it outside of functions, conditionals and loops")
        with self._adding():
            made = add_variable(self._builder, name, dims, element, found, kind)
        return NodeHandle(self._builder.graph.nodes[made.node].name, made, self._builder)

    def initializer(self, name: str = "init") -> NodeHandle:
        """Add a node that runs the initializers of all variables so far; in a body, the calls of the body wait for them."""
        from placesim.graph.variables import add_global_initializer

        level = self._levels[-1]
        if level.builder.is_of_function:
            raise GraphBuildError("initializer in a function: got one, expected it outside of functions")
        if level.is_body:
            node = level.builder.graph.nodes[level.functions.initialize(name, 0)]
        else:
            node = add_global_initializer(level.builder, name, 0)
        return NodeHandle(node.name, node, level.builder)

    # --- functions --------------------------------------------------------------------------------------------------

    def function(
        self,
        name: str,
        inputs: Mapping[str, Any],
        body: Callable[..., Any],
        attrs: Mapping[str, Any] | None = None,
    ) -> str:
        """Add a function to the library and return its name, for use as an `op` or in attrs as `{"func": name}`.

        `inputs` are arguments with their types, as in a graph file (`{"x": "float32"}`, `{"x": {"type_attr": "T"}}`). `body` is
        called with them, and adds its nodes to this builder. It returns `{NAME: node}`, a node, or a list of nodes. Unnamed
        results are called `output`, or `output_0` and so on.
        """
        from placesim.formats.graph_file.entries.function_bodies import function_builder, write_body_function
        from placesim.formats.graph_file.entries.node_attrs import any_value

        library = self._file.graph.functions
        if name in library:
            raise GraphBuildError(f"duplicate function: got '{name}' again, expected it once")
        if self._file.registry.op(name) is not None:
            raise GraphBuildError(f"Cannot add function '{name}' because an op with the same name already exists.")
        with _build_errors():
            own = {key: any_value(value) for key, value in (attrs or {}).items()}
            builder, arguments, open_types = function_builder(self._file, inputs)
        levels, self._levels = self._levels, [_Level(builder, None, open_types)]
        try:
            given = body(*(NodeHandle(text, builder.graph.nodes[node], builder) for node, text in arguments.items()))
            results = [(text, self._result_ref(item)) for text, item in _named(given)]
        finally:
            self._levels = levels
        library[name] = write_body_function(builder.graph, name, arguments, results, {}, own)
        for added, function in builder.graph.functions.items():
            library.setdefault(added, function)
        self._file.last_number = max(self._file.last_number, builder.last_number)
        return name

    def cond(self, pred: Any, then: Callable[[], Any], otherwise: Callable[[], Any], name: str | None = None) -> Any:
        """Add a `tf.cond` of version 2, and return the results of `then` if `pred` is true, else those of `otherwise`.

        Both functions are called at once, and add their nodes to this builder. Nodes from outside that they use become
        arguments. Both return a node, or lists of the same length, and so does this method.
        """
        single: list[bool] = []
        with self._making("cond") as functions:
            found = functions.cond(self._outer(pred), self._writer(then, single), self._writer(otherwise, single), name, 0)
        made = self._made(found)
        return made[0] if all(single) else made

    def while_loop(
        self,
        cond: Callable[..., Any],
        body: Callable[..., Any],
        loop_vars: Sequence[Any],
        shape_invariants: Sequence[Sequence[int | None] | str | None] | None = None,
        maximum_iterations: Any = None,
        parallel_iterations: int = 10,
        name: str | None = None,
    ) -> list[NodeHandle]:
        """Add a `tf.while_loop` of version 2, and return the final values of the loop variables.

        `cond` and `body` are called at once with the variables, and add their nodes to this builder. `cond` returns whether
        another iteration follows, and `body` a list of the variables' new values. `shape_invariants` has the shape of each
        variable whose shape changes. An item is None if the shape stays, and "unknown" if even the rank changes.
        """
        from placesim.formats.graph_file.plain_values import shape_value

        with _build_errors():
            shapes = {i: shape_value(each).dims for i, each in enumerate(shape_invariants or ()) if each is not None}
        options = {"parallel_iterations": parallel_iterations}
        if maximum_iterations is not None:
            options["maximum_iterations"] = self._outer(maximum_iterations)
        with self._making("while_loop") as functions:
            firsts = [self._outer(item) for item in loop_vars]
            found = functions.while_loop(self._writer(cond), self._writer(body), firsts, shapes, options, name, 0)
        return self._made(found)

    @contextmanager
    def _making(self, what: str) -> Iterator[FunctionMaker]:
        """Yield the maker of a conditional or loop. If the block fails, none of its nodes and functions remain."""
        level = self._levels[-1]
        if self._levels[0].open_types:
            raise GraphBuildError(f"'{what}' in a function with type attrs: got one, expected arguments with 'type'")
        known = dict(level.builder.graph.functions)
        try:
            with self._adding():
                yield level.functions
        except BaseException as error:
            level.builder.graph.functions.clear()
            level.builder.graph.functions.update(known)
            if isinstance(error, _BodyExit):
                raise error.error from None
            raise

    def _writer(self, body: Callable[..., Any], single: list[bool] | None = None) -> Callable[..., list[Any]]:
        """Return a function that calls `body` while this builder adds nodes to the body's graph.

        The function appends to `single` whether `body` returned one result instead of a list.
        """

        def write(functions: FunctionMaker, nodes: Sequence[int]) -> list[Any]:
            level = _Level(functions.builder, functions)
            self._levels.append(level)
            try:
                all_nodes = functions.builder.graph.nodes
                given = body(*(NodeHandle(all_nodes[node].name, all_nodes[node], level.builder) for node in nodes))
                listed = list(given) if isinstance(given, list | tuple) else [given]
                if single is not None:
                    single.append(not isinstance(given, list | tuple))
                found = [self._outer(item) for item in listed]
            except GraphBuildError:
                raise
            except Exception as error:
                raise _BodyExit(error) from None
            finally:
                self._levels.pop()
            if level.error is not None:
                raise level.error
            return found

        return write

    def _made(self, found: Iterable[TensorRef]) -> list[NodeHandle]:
        nodes = self._builder.graph.nodes
        texts = ((ref, nodes[ref.node].name + (f":{ref.slot}" if ref.slot else "")) for ref in found)
        return [NodeHandle(text, ref if ref.slot else nodes[ref.node], self._builder) for ref, text in texts]

    @contextmanager
    def _adding(self) -> Iterator[None]:
        """Remove the nodes of the block if it fails. A body in which this happens fails too."""
        level = self._levels[-1]
        if level.error is not None:
            raise level.error
        try:
            with level.builder.attempt():
                yield
        except Exception as error:
            if level.is_body:
                level.error = error
            raise

    # --- scopes -----------------------------------------------------------------------------------------------------

    @contextmanager
    def device(self, device: str | None) -> Iterator[None]:
        """Open a `tf.device` scope: its fields override those of the enclosing device; None clears the device (2.1)."""
        with self._builder.device(device):
            yield

    @contextmanager
    def name_scope(self, name: str | None) -> Iterator[str]:
        """Open a `tf.name_scope` with a unique name, and yield the scope with its trailing slash (2.3.3)."""
        with self._builder.name_scope(name) as scope:
            yield scope

    @contextmanager
    def colocate_with(self, *made: NodeHandle, ignore_existing: bool = False) -> Iterator[None]:
        """Open a `tf.colocate_with` scope for each node, the last one innermost (2.2.1)."""
        from placesim.formats.graph_file.entries.scope_entries import enter_colocation

        builder = self._builder
        with ExitStack() as scopes:
            if ignore_existing:
                scopes.enter_context(builder.colocate_with((), ignore_existing=True))
            targets = [self._node_id(node) if self._level_of(node).builder is builder else _node_name(node) for node in made]
            enter_colocation(scopes, builder, targets)
            yield

    @contextmanager
    def control_dependencies(self, made: Iterable[NodeHandle] | None) -> Iterator[None]:
        """Open a `tf.control_dependencies` scope; None clears the enclosing scopes."""
        with self._builder.control_dependencies(None if made is None else self._controls(made)):
            yield

    # --- the graph --------------------------------------------------------------------------------------------------

    def graph_file(self) -> GraphFile:
        """Return the current graph as a graph file."""
        from placesim.graph.session_steps import GraphFile

        return GraphFile(self.name, self._file.graph)

    # --- nodes of other graphs --------------------------------------------------------------------------------------

    def _level_of(self, made: NodeHandle) -> _Level:
        """Return the graph of a node. Raises GraphBuildError if the current graph can't use the node."""
        for level in reversed(self._levels):
            graph = level.builder.graph
            if isinstance(made, NodeHandle) and made._builder is level.builder and _node_name(made) in graph.ids:
                return level
        where = "function" if self._levels[0].builder is not self._file else "builder"
        raise GraphBuildError(f"node from elsewhere: got {made!r}, expected a node of this {where}, not of a finished body")

    def _node_id(self, made: NodeHandle) -> int:
        """Return the id of a node of the current graph."""
        return self._level_of(made).builder.graph.ids[_node_name(made)]

    def _controls(self, awaited: Iterable[NodeHandle]) -> tuple[int, ...]:
        """Return the ids of awaited nodes in the current graph. Calls of the body wait for awaited nodes outside the body."""
        level, found = self._levels[-1], []
        for made in awaited:
            outside = self._level_of(made)
            if outside is level:
                found.append(self._node_id(made))
            else:
                level.functions.wait_for(outside.functions, self._node_id(made))
        return tuple(found)

    def _operands(self, op: str, full_name: str, inputs: Iterable[Any]) -> list[Any]:
        """Convert inputs for the graph's own builder. Outer variables are read before other tensors are captured."""
        from placesim.formats.graph_file.entries.references import takes_handle

        level, items = self._levels[-1], list(_flat(inputs))
        handles = [takes_handle(level.builder.registry, op, index) for index in range(len(items))]
        is_read = [_is_resource(item) and not as_handle for item, as_handle in zip(items, handles, strict=True)]
        found: dict[int, Any] = {}
        for index in sorted(range(len(items)), key=lambda index: not is_read[index]):
            found[index] = self._operand(items[index], full_name, handles[index])
        return [found[index] for index in range(len(items))]

    def _operand(self, item: Any, full_name: str, as_handle: bool) -> Any:
        from placesim.formats.graph_file.entries.control_flow_entries import capture_outer

        if not isinstance(item, NodeHandle):
            return item
        level, outside = self._levels[-1], self._level_of(item)
        if outside is level:
            return item._item
        return capture_outer(level.functions, outside.functions, _tensor_of(item), full_name, as_handle)

    def _outer(self, item: Any) -> Any:
        """Convert an input or result of a conditional or loop: a tensor, a variable, an op without outputs, or a literal."""
        from placesim.formats.graph_file.entries.control_flow_entries import OP_ITSELF, capture_outer
        from placesim.graph.graph import Node, TensorRef

        if not isinstance(item, NodeHandle):
            return item
        level, outside = self._levels[-1], self._level_of(item)
        if outside is not level:
            return capture_outer(level.functions, outside.functions, _tensor_of(item), "")
        if isinstance(item._item, Node):
            return TensorRef(item._item.id, 0 if item._item.signature.output_dtypes else OP_ITSELF)
        return item._item

    def _result_ref(self, item: Any) -> TensorRef:
        """Return the tensor of a function's result. Raises GraphBuildError for anything else."""
        from placesim.graph.graph import TensorRef

        found = self._outer(item)
        if not isinstance(found, TensorRef) or found.slot < 0:
            raise GraphBuildError(f"not a function result: got {item!r}, expected a node with a tensor output")
        self._builder.operand(*found)
        return found

    def _attrs(self, op: str, given: Mapping[str, Any]) -> dict[str, Any]:
        from placesim.formats.graph_file.entries.node_attrs import AttrReader
        from placesim.ops.registry import describe_other_releases

        registry, library = self._builder.registry, self._file.graph.functions
        if op in library:
            self._builder.graph.functions.setdefault(op, library[op])
        elif registry.op(op) is None:
            near = describe_other_releases(op, registry) or did_you_mean(op, [*registry.op_names, *library])
            raise GraphBuildError(f"unknown op: got '{op}', expected an op of TensorFlow {registry.release}{near}")
        wrong: list[str] = []
        reader = AttrReader(
            registry, library, lambda tree, key, message: wrong.append(message), open_types=self._levels[0].open_types
        )
        found = reader.read(op, dict(given))
        if wrong or found is None:
            raise GraphBuildError("; ".join(wrong))
        return dict(found)


def _flat(inputs: Iterable[Any]) -> Iterator[Any]:
    """Yield the inputs, with lists of nodes flattened as in a NodeDef; literals stay."""
    for item in inputs:
        if isinstance(item, list | tuple) and any(isinstance(part, NodeHandle) for part in item):
            yield from _flat(item)
        else:
            yield item


def _tensor_of(made: NodeHandle) -> Any:
    from placesim.graph.graph import Node, TensorRef

    return TensorRef(made._item.id, 0) if isinstance(made._item, Node) else made._item


def _is_resource(item: Any) -> bool:
    return isinstance(item, NodeHandle) and getattr(item._item, "kind", "") == "resource"


def _node_name(made: NodeHandle) -> str:
    return made.name.partition(":")[0]


def _named(given: Any) -> list[tuple[str, Any]]:
    """Return the results of a function's body with their names."""
    if isinstance(given, Mapping):
        return list(given.items())
    if isinstance(given, list | tuple):
        return [(f"output_{i}", item) for i, item in enumerate(given)]
    return [] if given is None else [("output", given)]
