"""Reader of `run`: the session steps with their fetches and feeds."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Protocol

import numpy as np

from placesim.core.dtypes import STRING, DataType
from placesim.core.errors import GraphBuildError
from placesim.core.suggestions import did_you_mean
from placesim.formats.graph_file.plain_values import figure_value, int_value, known_shape, literal
from placesim.formats.problems import FileProblems, InvalidValue, key_position, one_of, spell, value_position
from placesim.graph.constants import make_constant
from placesim.graph.graph import Graph, NodeDef, split_tensor_name
from placesim.graph.session_steps import Feed, Fetch, FileFeed, GeneratedFeed, GraphStep
from placesim.ops.attributes import TensorValue

STEP_KEYS = ("fetch", "feed", "repeat", "nodes")
GENERATORS = {"zeros": (), "ones": (), "random_normal": ("mean", "stddev"), "random_uniform": ("minval", "maxval")}
"""Generators of feeds, with their parameters other than shape and `seed`."""
_MAX_REPEAT = 10**9
_INT64 = 1 << 63


class NodeTaker(Protocol):
    """Protocol of a reader of `nodes`, which can then find the nodes that a name or an id stands for."""

    def take_all(self, entries: Any, position: int = 0) -> None:
        """Read a list of entries; problems are reported."""

    def finish(self) -> None:
        """Report problems that need the whole list."""

    def tensor_names(self, text: str) -> list[str] | None:
        """Return the full names of the tensors or nodes that a fetch or feed names; None for an unknown name."""


class StepReader:
    """A reader of steps, in order. The nodes of a step are built in the graph and then removed from it."""

    def __init__(self, graph: Graph, taker: NodeTaker, problems: FileProblems) -> None:
        self._graph = graph
        self._taker = taker
        self._problems = problems

    def read(self, tree: Any, position: int) -> tuple[GraphStep, ...]:
        """Read the list under `run`."""
        listed = self._problems.sequence(tree, position, "'run'")
        first = len(self._graph)
        steps = tuple(self._read_entry(listed, index) for index in range(len(listed)))
        cut_nodes(self._graph, first)
        return steps

    def _read_entry(self, listed: Any, index: int) -> GraphStep:
        step = self._problems.mapping(listed[index], value_position(listed, index), "a step")
        self._problems.unknown_keys(step, STEP_KEYS, "a step")
        return self.read_step(step)

    def read_step(self, step: dict[Any, Any], keys: Collection[str] = STEP_KEYS) -> GraphStep:
        """Return the step under these keys of a mapping; other keys are ignored."""
        first = len(self._graph)
        if "nodes" in step and "nodes" in keys:
            self._taker.take_all(step["nodes"], value_position(step, "nodes"))
            self._taker.finish()
        nodes = tuple(node_defs(self._graph, first))
        fetches = self._fetches(step) if "fetch" in step else ()
        feeds = self._feeds(step) if "feed" in step else ()
        own = step if "repeat" in keys else {}
        repeat = self._problems.read_or_default(own, "repeat", lambda value: int_value(value, 0, _MAX_REPEAT, "'repeat'"), 1)
        return GraphStep(fetches, feeds, repeat, nodes)

    def _fetches(self, step: dict[Any, Any]) -> tuple[Fetch, ...]:
        tree = step["fetch"]
        if isinstance(tree, str):
            return self._fetch(tree, value_position(step, "fetch"))
        found: list[Fetch] = []
        for index, text in enumerate(self._problems.sequence(tree, value_position(step, "fetch"), "'fetch'")):
            position = value_position(tree, index)
            if isinstance(text, str):
                found += self._fetch(text, position)
            elif isinstance(text, dict):
                found += self._labelled(text, position)
            else:
                message = f"wrong type of a fetch: got {spell(text)}, expected a name, or a label with a name"
                self._problems.add(position, message)
        return tuple(found)

    def _fetch(self, text: str, position: int) -> tuple[Fetch, ...]:
        target = text[:1] == "^"
        names = self._names(text.removeprefix("^"), position, "fetch")
        return tuple(Fetch(f"^{name}", position, name) if target else Fetch(name, position) for name in names)

    def _labelled(self, tree: dict[Any, Any], position: int) -> list[Fetch]:
        """Return the fetches of `{LABEL: NAME}`, whose results are printed under the label."""
        found: list[Fetch] = []
        for label, text in tree.items():
            if isinstance(label, str) and isinstance(text, str):
                found += [fetch._replace(label=label) for fetch in self._fetch(text, value_position(tree, label))]
            else:
                got = f"{spell(label)}: {spell(text)}"
                self._problems.add(position, f"wrong type of a labelled fetch: got {got}, expected a label and a name")
        return found

    def _names(self, text: str, position: int, what: str) -> list[str]:
        names = self._taker.tensor_names(text)
        if names is None:
            near = self._problems.did_you_mean(split_tensor_name(text)[0], self._graph.ids)
            self._problems.add(position, f"unknown {what}: got '{text}', expected the name or id of a node{near}")
            return []
        return names

    def _feeds(self, step: dict[Any, Any]) -> tuple[Feed, ...]:
        tree = self._problems.mapping_at(step, "feed")
        found: list[Feed] = []
        for text, value in tree.items():
            position = key_position(tree, text)
            if not isinstance(text, str):
                self._problems.add(position, f"wrong type of a feed: got {spell(text)}, expected a tensor's name")
                continue
            for name in self._names(text, position, "feed"):
                try:
                    found.append(Feed(name, self._feed_value(name, value), position))
                except InvalidValue as wrong:
                    self._problems.add(value_position(tree, text), f"feed {spell(text)}: {wrong}")
        return tuple(found)

    def _feed_value(self, name: str, value: Any) -> Any:
        if isinstance(value, np.ndarray | np.generic | FileFeed | GeneratedFeed):
            return value
        if isinstance(value, dict) and not {"bytes", "tensor"} & set(value):
            return _made_value(value)
        is_file_name = isinstance(value, str) and value.endswith((".npy", ".npz", ".csv", ".txt"))
        if is_file_name and self._dtype(name) not in (None, STRING):
            expected = f"expected {{file: {value.removeprefix('@')}}} to read that file"
            raise InvalidValue(f"wrong value: got the string {spell(value)}, {expected}")
        value = literal(value)
        if isinstance(value, TensorValue):
            return value.array
        try:
            return make_constant(value, self._dtype(name)).array
        except GraphBuildError as error:
            raise InvalidValue(error.message) from None

    def _dtype(self, tensor: str) -> DataType | None:
        """Return the type of a tensor; None if there is no such tensor."""
        name, slot = split_tensor_name(tensor)
        outputs = self._graph.node(name).signature.output_dtypes if name in self._graph.ids else ()
        return outputs[slot] if slot < len(outputs) else None


def _made_value(tree: dict[Any, Any]) -> FileFeed | GeneratedFeed:
    """Return the feed of `{file: F.npy}`, or of a generator with its shape and parameters. Raises InvalidValue."""
    kinds = [key for key in tree if key in ("file", *GENERATORS)]
    if len(kinds) != 1:
        got = ", ".join(map(str, tree)) or "nothing"
        near = did_you_mean(next(iter(tree), None), ("file", *GENERATORS)) if not kinds else ""
        raise InvalidValue(f"wrong value: got a mapping with {got}, expected one of file, {', '.join(GENERATORS)}{near}")
    ((kind),) = kinds
    known = () if kind == "file" else (*GENERATORS[kind], "seed")
    for key in tree:
        if key != kind and key not in known:
            expected = one_of(known) if known else "nothing else"
            raise InvalidValue(f"unknown key beside '{kind}': got {spell(key)}, expected {expected}{did_you_mean(key, known)}")
    if kind == "file":
        if not isinstance(tree[kind], str):
            raise InvalidValue(f"wrong type of 'file': got {spell(tree[kind])}, expected a path")
        return FileFeed(tree[kind])
    seed = tree.get("seed")
    figures = {key: figure_value(tree[key], f"'{key}'") for key in GENERATORS[kind] if key in tree}
    seed = None if seed is None else int_value(seed, -_INT64, _INT64 - 1, "'seed'")
    return GeneratedFeed(kind, known_shape(tree[kind]), seed, figures)


def node_defs(graph: Graph, first: int) -> list[NodeDef]:
    """Return the nodes from id `first` on, as NodeDefs."""
    return [
        NodeDef(node.name, node.op, tuple(graph.input_texts(node)), node.device, node.attrs, node.location)
        for node in graph.nodes[first:]
    ]


def cut_nodes(graph: Graph, first: int) -> None:
    """Remove the nodes from id `first` on from the graph."""
    for node in graph.nodes[first:]:
        if graph.ids.get(node.name) == node.id:
            del graph.ids[node.name]
    del graph.nodes[first:]
