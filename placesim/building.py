"""A graph built in Python, node by node, as the entries of a graph file are: `placesim.GraphBuilder`.

Nothing heavy is imported before a builder is made, so that the package starts as fast as a shell tool.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from placesim.graph.binding import Variable
    from placesim.graph.graph import Node, TensorRef
    from placesim.graph.steps import GraphFile


class Made:
    """A node of a builder, or a variable: an input of other nodes, by its first output, or with `[i]` by another.

    `name` is the full name of the node, as fetches and feeds have it.
    """

    __slots__ = ("_item", "name")

    def __init__(self, name: str, item: Node | TensorRef | Variable) -> None:
        self.name = name
        self._item = item

    def __repr__(self) -> str:
        return f"<placesim node {self.name}>"

    def __getitem__(self, index: int) -> Made:
        """Another output of the node.  Raises TypeError for a variable's value, which is one tensor."""
        from placesim.graph.graph import Node, TensorRef

        if not isinstance(self._item, Node):
            raise TypeError(f"no outputs to choose from: got {self!r}, expected a node")
        return Made(f"{self.name}:{index}", TensorRef(self._item.id, index))

    def __iter__(self) -> Iterator[Any]:
        """None: how many outputs a node has is not asked by unpacking it.  Raises TypeError."""
        raise TypeError(f"{self!r} is no list: choose an output with [i]")


class GraphBuilder:
    """Adds nodes in scopes, by the rules of TensorFlow's Python and with the builder that reads graph files.

        builder = placesim.GraphBuilder()
        with builder.device("/gpu:0"), builder.name_scope("tower"):
            x = builder.add("Placeholder", dtype="float32", shape=[None, 4], name="x")
            y = builder.add("MatMul", x, builder.variable("w", [4, 2]), name="y")
        placesim.place(builder, gpu=1)

    It is a source wherever a path is one.  Every method that adds a node raises GraphBuildError where TensorFlow's Python, or
    a graph file, would refuse it, and then adds nothing.  `tensorflow` is the release whose ops it has, such as "1.15".
    """

    def __init__(self, name: str = "<builder>", tensorflow: Any = None) -> None:
        from placesim.graph.builder import GraphBuilder as NodeBuilder
        from placesim.ops.registry import load_registry
        from placesim.releases import CURRENT, find_release

        self.name = name
        self.release = CURRENT if tensorflow is None else find_release(tensorflow)
        self._builder = NodeBuilder(load_registry(self.release.name), {}, name)

    def __repr__(self) -> str:
        return f"<placesim.GraphBuilder {self.name}: {len(self)} nodes>"

    def __len__(self) -> int:
        """How many nodes there are."""
        return len(self._builder.graph)

    def add(
        self,
        op: str,
        *inputs: Any,
        name: str | None = None,
        device: str | None = "",
        control_inputs: Iterable[Made] = (),
        attrs: Mapping[str, Any] | None = None,
        **more_attrs: Any,
    ) -> Made:
        """A node of a registered op.

        `inputs` are what this builder has made, lists of it, or literals (numbers, texts, lists, arrays), which become
        constants.
        Attrs are given by name, with values as a graph file has them (`dtype="float32"`, `shape=[None, 4]`), or under `attrs`
        where a name is a parameter's; type and count attrs may be left to be inferred.  `device` is merged into that of the
        scopes; None leaves the scopes' aside.
        """
        controls = tuple(self._node_id(made) for made in control_inputs)
        with ExitStack() as scopes:
            if device != "":
                scopes.enter_context(self._builder.device(device))
            operands = list(_operands(inputs))
            values = self._attrs(op, {**(attrs or {}), **more_attrs})
            with self._builder.attempt():
                node = self._builder.add(op, operands, name=name, attrs=values, control_inputs=controls)
        return Made(node.name, node)

    def constant(
        self, value: Any, dtype: str | None = None, shape: Sequence[int] | None = None, name: str | None = None
    ) -> Made:
        """A `Const`, as `tf.constant` makes it: the dtype is that of the value, where none is given."""
        from placesim.errors import GraphBuildError
        from placesim.formats.graph_file.plain_values import constant_value
        from placesim.formats.problems import Wrong

        try:
            tensor = constant_value(value, dtype, shape)
        except Wrong as wrong:
            raise GraphBuildError(str(wrong)) from None
        node = self._builder.constant(tensor, name=name)
        return Made(node.name, node)

    def variable(
        self,
        name: str,
        shape: Sequence[int] | None = None,
        dtype: str = "float32",
        initializer: Any = None,
        kind: str = "ref",
    ) -> Made:
        """A variable with its initializer; as an input it is its value.

        `initializer` is what a graph file's is (`"zeros"`, `{"random_normal": {"stddev": 0.1}}`, `{"value": [1.0, 2.0]}`),
        whose value may say shape and dtype; `kind` is `ref` or `resource`.
        """
        from placesim.errors import GraphBuildError
        from placesim.formats.graph_file.plain_values import constant_value, dtype_value, known_shape
        from placesim.formats.graph_file.variable_entries import initializer_value, kind_value
        from placesim.formats.problems import Wrong
        from placesim.graph.variables import VALUE_KINDS, Initializer, add_variable

        try:
            dims = None if shape is None else known_shape(shape)
            found, element = None if initializer is None else initializer_value(initializer), dtype_value(dtype)
            if found is not None and found.kind == "tensor":
                raise Wrong("no variable of a tensor here: got an initializer 'tensor', expected another")
            if found is not None and found.kind in VALUE_KINDS:
                tensor = constant_value(found.values[found.kind], None, dims)
                element, found = tensor.dtype, Initializer(found.kind, {found.kind: tensor.array})
            kind = kind_value(kind)
        except Wrong as wrong:
            raise GraphBuildError(str(wrong)) from None
        with self._builder.attempt():
            made = add_variable(self._builder, name, dims, element, found, kind)
        return Made(self._builder.graph.nodes[made.node].name, made)

    def initializer(self, name: str = "init") -> Made:
        """A node that runs the initializers of all variables made before it."""
        from placesim.graph.variables import add_global_initializer

        node = add_global_initializer(self._builder, name, 0)
        return Made(node.name, node)

    # --- scopes -----------------------------------------------------------------------------------------------------

    @contextmanager
    def device(self, device: str | None) -> Iterator[None]:
        """`tf.device`: merged into the enclosing device, the inner winning field by field; None clears it (2.1)."""
        with self._builder.device(device):
            yield

    @contextmanager
    def name_scope(self, name: str | None) -> Iterator[str]:
        """`tf.name_scope`: made unique; gives the scope with its trailing slash (2.3.3)."""
        with self._builder.name_scope(name) as scope:
            yield scope

    @contextmanager
    def colocate_with(self, *made: Made, ignore_existing: bool = False) -> Iterator[None]:
        """`tf.colocate_with` around each node in turn (2.2.1)."""
        with self._builder.colocate_with([self._node_id(node) for node in made], ignore_existing):
            yield

    @contextmanager
    def control_dependencies(self, made: Iterable[Made] | None) -> Iterator[None]:
        """`tf.control_dependencies`; None clears what encloses it."""
        with self._builder.control_dependencies(None if made is None else [self._node_id(node) for node in made]):
            yield

    # --- what was built ---------------------------------------------------------------------------------------------

    def graph_file(self) -> GraphFile:
        """The graph as it is now, as a file holds it."""
        from placesim.graph.steps import GraphFile

        return GraphFile(self.name, self._builder.graph)

    def _node_id(self, made: Made) -> int:
        from placesim.errors import GraphBuildError

        found = self._builder.graph.ids.get(made.name.partition(":")[0]) if isinstance(made, Made) else None
        if found is None:
            raise GraphBuildError(f"no node of this builder: got {made!r}, expected what it has made")
        return found

    def _attrs(self, op: str, given: Mapping[str, Any]) -> dict[str, Any]:
        from placesim.errors import GraphBuildError
        from placesim.formats.graph_file.node_attrs import AttrReader
        from placesim.ops.registry import said_elsewhere
        from placesim.suggestions import did_you_mean

        registry = self._builder.registry
        if registry.op(op) is None:
            near = said_elsewhere(op, registry) or did_you_mean(op, list(registry.op_names))
            raise GraphBuildError(f"unknown op: got '{op}', expected an op of TensorFlow {registry.release}{near}")
        wrong: list[str] = []
        found = AttrReader(registry, {}, lambda tree, key, message: wrong.append(message)).read(op, dict(given))
        if wrong or found is None:
            raise GraphBuildError("; ".join(wrong))
        return dict(found)


def _operands(inputs: Iterable[Any]) -> Iterator[Any]:
    """What the builder beneath takes: lists of nodes one after the other, as a NodeDef has them; literals as they are."""
    for item in inputs:
        if isinstance(item, Made):
            yield item._item
        elif isinstance(item, list | tuple) and any(isinstance(part, Made) for part in item):
            yield from _operands(item)
        else:
            yield item
