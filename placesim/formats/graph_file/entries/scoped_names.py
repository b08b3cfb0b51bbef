"""Lookup of names and ids while the entries of `nodes` are read: by scope, the innermost first."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain
from typing import Any, NamedTuple, Self

from placesim.core.errors import GraphBuildError
from placesim.formats.problems import FileProblems, spell, value_position
from placesim.graph.builder import ScopedGraphBuilder, is_op_name
from placesim.graph.graph import split_tensor_name

Targets = tuple[int | None, ...]
"""Nodes of a name, one for each copy of its scope; None for an invalid entry."""


class NodeOutput(int):
    """The id of a node, together with an output (`slot`), as the target of an id in the file."""

    slot: int

    def __new__(cls, node: int, slot: int) -> Self:
        made = super().__new__(cls, node)
        made.slot = slot
        return made


class Derivative(NodeOutput):
    """The derivative by `source`, which is a node of the same graph, or a tensor or variable of an enclosing graph."""

    source: Any

    def __new__(cls, node: int, slot: int, source: Any) -> Self:
        made = super().__new__(cls, node, slot)
        made.source = source
        return made


def slot_of(target: int) -> int:
    """Return the output that a name without slot refers to, usually the first."""
    return target.slot if isinstance(target, NodeOutput) else 0


class EntryBreak(Exception):  # internal to the modules of entries
    """Exception for an entry that can't become a node, raised after its problems have been reported."""


class UnresolvedName(NamedTuple):
    """An unknown name, the node that reads it, and the full names that it may stand for (`candidates`)."""

    position: int
    text: str
    candidates: tuple[str, ...]
    reader: str


class _Frame(NamedTuple):
    """A scope for name lookup: its prefix, and its bound ids and names."""

    prefix: str
    bindings: dict[str, Targets]


class _BrokenEntry(NamedTuple):
    """The position of an entry that could not become a node, and the unknown names that it refers to."""

    position: int
    waits: Sequence[UnresolvedName]


class ScopedNames:
    """The names of nodes and ids, while entries are read.

    With `is_flat`, a name can only be a node's full name. With `is_copy`, the entries are those of a repeated scope.
    """

    def __init__(self, builder: ScopedGraphBuilder, problems: FileProblems) -> None:
        self._builder = builder
        self._problems = problems
        self._root = _Frame("", {})
        self._frames = [self._root]
        self._closed_ids: dict[str, Targets] = {}
        self._is_named = bytearray()
        self._broken: dict[str, _BrokenEntry] = {}
        self.is_flat = True
        self.is_copy = False

    @property
    def bound(self) -> Mapping[str, Targets]:
        """Return the bindings in the innermost scope, in addition to full node names."""
        return self._frames[-1].bindings

    # --- claiming ---------------------------------------------------------------------------------------------------

    def claim(self, entry: dict[Any, Any], op: Any, name: Any, position: int) -> str:
        """Return a new node's full name, and report a duplicate in its scope. Raises EntryBreak for an invalid name."""
        builder = self._builder
        if name is None:
            return builder.unique_name(op) if isinstance(op, str) else builder.unique_name("?")
        if name.__class__ is not str:
            reading = "yes, no, on and off as booleans" if isinstance(name, bool) else "it as a number"
            quotes = f": YAML reads {reading} unless it is quoted" if isinstance(name, bool | int | float) else ""
            message = f"wrong type of 'name': got {spell(name)}, expected a string{quotes}"
            self._problems.add(value_position(entry, "name"), message)
            raise EntryBreak
        try:
            if is_op_name(name) and name[-1] != "/":
                full = builder.unique_name(name)
            else:
                full = builder.claim_name(op if isinstance(op, str) else "", name)
                builder.note_name(full)
        except GraphBuildError as error:
            self._problems.add_error(value_position(entry, "name"), error)
            self.mark_broken(entry, builder.prefix + name, position)
            raise EntryBreak from None
        if full != builder.prefix + name:
            self.check_claim(entry, builder.prefix + name, position)
        return full

    def check_claim(self, entry: dict[Any, Any], full: str, position: int) -> None:
        """Report a full name that another entry has, unless it is the same entry in another copy of its scope."""
        first = self._claimed_at(full)
        if first is None or (self.is_copy and first == position):
            return
        where = f" (the first is at {self._problems.location(first)})" if first else ""
        key = "name" if "name" in entry else "variable"
        message = f"duplicate name in one scope: got '{entry.get(key)}' again, expected it once{where}"
        self._problems.add(value_position(entry, key), message)

    def is_taken(self, full: str) -> bool:
        """Whether a node, or an entry that could not become one, has this name."""
        return full in self._builder.graph.ids or full in self._broken

    def is_broken(self, name: str) -> bool:
        """Whether a name belongs to an entry that failed and was reported."""
        found = self.resolve(name)
        return found is not None and None in found

    def _claimed_at(self, full: str) -> int | None:
        """Return the position of the entry that claimed this name; None if no entry did."""
        if full in self._broken:
            return self._broken[full].position
        node_id = self._builder.graph.ids.get(full)
        if node_id is None or node_id >= len(self._is_named) or not self._is_named[node_id]:
            return None
        return self._builder.graph.nodes[node_id].location

    def mark_named(self, node_id: int) -> None:
        """Record that this node has its name from the file. Nodes must be recorded in ascending order."""
        named = self._is_named
        if len(named) < node_id:
            named.extend(bytes(node_id - len(named)))
        named[node_id:] = b"\1"

    def mark_all_named(self, first: int) -> None:
        """Record that all nodes from id `first` on have their names from the file."""
        count = len(self._builder.graph) - first
        if count:
            self.mark_named(first)
            self._is_named.extend(b"\1" * (count - 1))

    def mark_broken(self, entry: dict[Any, Any], full: str, position: int, waits: Sequence[UnresolvedName] = ()) -> None:
        """Record an invalid entry, so that uses of its names are not reported too."""
        broken = self._broken[full] = _BrokenEntry(position, waits)
        if isinstance(entry.get("id"), str):
            self.bind(entry["id"], (None,))
            self._broken.setdefault(self._builder.prefix + entry["id"], broken)

    # --- binding ----------------------------------------------------------------------------------------------------

    def bind(self, name: str, targets: Targets) -> None:
        """Bind a name to nodes, for the rest of the scope."""
        self._frames[-1].bindings[name] = targets
        self.is_flat = False

    def bind_arguments(self, nodes: Mapping[str, int]) -> None:
        """Bind the names of a body's arguments. Every entry that binds the same name has priority."""
        self._closed_ids.update({name: (node,) for name, node in nodes.items()})

    def bind_entry(self, entry: dict[Any, Any], name: str | None, node_id: int) -> None:
        """Bind an entry's `id`, and its name if the name alone doesn't lead to the node."""
        if name is not None and (
            self.is_copy
            or name in self._frames[-1].bindings
            or self._builder.graph.nodes[node_id].name != self._builder.prefix + name
        ):
            self.bind(name, (node_id,))
        if "id" not in entry:
            return
        own_id = entry["id"]
        if isinstance(own_id, str) and own_id:
            self.bind(own_id, (node_id,))
        else:
            self._problems.add(value_position(entry, "id"), f"wrong type of 'id': got {spell(own_id)}, expected a string")

    @contextmanager
    def name_scope(self, prefix: str, bindings: dict[str, Targets] | None = None) -> Iterator[None]:
        """Look up names in this scope first during the block. After the block, ids of the scope have the lowest priority.

        For a copy of a repeated scope, `bindings` collects the ids, which become visible after the last copy.
        """
        frame = _Frame(prefix, {} if bindings is None else bindings)
        self._frames.append(frame)
        was_flat, self.is_flat = self.is_flat, False
        try:
            yield
        finally:
            self._frames.pop()
            if bindings is None:
                self._closed_ids.update(frame.bindings)
                self.is_flat = was_flat

    @contextmanager
    def copy(self) -> Iterator[dict[str, Targets]]:
        """Enter a copy of a repeated scope, and yield its bindings."""
        frame = _Frame(self._builder.prefix, {})
        self._frames.append(frame)
        was_copy, self.is_copy = self.is_copy, True
        try:
            yield frame.bindings
        finally:
            self._frames.pop()
            self.is_copy = was_copy

    # --- looking up -------------------------------------------------------------------------------------------------

    def resolve(self, name: str) -> Targets | None:
        """Return the nodes of a name: (None,) for an invalid entry, None for an unknown name."""
        ids, broken = self._builder.graph.ids, self._broken
        if name[:1] == "/":  # a full name, looked up in no scope
            full = name[1:]
            return (ids[full],) if full in ids else (None,) if full in broken else None
        for frame in reversed(self._frames):
            found = frame.bindings.get(name)
            if found is not None:
                return found
            full = frame.prefix + name
            if full in ids:
                return (ids[full],)
            if full in broken:
                return (None,)
        return self._closed_ids.get(name)

    def resolve_one(self, name: str) -> int | None:
        """Return the node of a name; None for an unknown name, an invalid entry, or several nodes."""
        found = self.resolve(name)
        return None if found is None or len(found) != 1 else found[0]

    def resolve_plain_node(self, name: str) -> int | None:
        """Return the node like `resolve_one`, but None if the name stands for an output other than the first."""
        found = self.resolve_one(name)
        return found if found.__class__ is int else None

    def has_any(self, names: Collection[str]) -> bool:
        """Whether one of the names is bound at the root."""
        known = (self._builder.graph.ids, self._root.bindings, self._closed_ids, self._broken)
        return not all(found.keys().isdisjoint(names) for found in known)

    def unresolved(self, position: int, text: str, reader: str, name: str = "") -> UnresolvedName:
        """Return an unknown name, to look up again after all entries are read; the default of `name` is the name in `text`."""
        name = name or split_tensor_name(text.removeprefix("^"))[0]
        if name[:1] == "/":
            return UnresolvedName(position, text, (name[1:],), reader)
        return UnresolvedName(
            position, text, tuple(dict.fromkeys(frame.prefix + name for frame in reversed(self._frames))), reader
        )

    def later_node(self, unresolved: UnresolvedName) -> int | None:
        """Look up an unknown name again, now among all nodes: return the node's id, or None if there is still no such node."""
        ids = self._builder.graph.ids
        return next((ids[full] for full in unresolved.candidates if full in ids), None)

    def broken_path(self, unresolved: UnresolvedName) -> list[str] | None:
        """Return the path, as full names, from the invalid entry meant by an unknown name to the node that reads the name.

        Each entry on the path reads the next one. The result is empty if no path leads to the reader. Returns None if the name
        does not stand for an invalid entry.
        """
        start = self._first_broken(unresolved)
        if start is None:
            return None
        came_from = {start: ""}
        waiting = [start]
        while waiting:
            name = waiting.pop()
            if name == unresolved.reader:
                path = [name]
                while came_from[path[-1]]:
                    path.append(came_from[path[-1]])
                return path[::-1]
            for following in map(self._first_broken, self._broken[name].waits):
                if following is not None and following not in came_from:
                    came_from[following] = name
                    waiting.append(following)
        return []

    def _first_broken(self, unresolved: UnresolvedName) -> str | None:
        return next((full for full in unresolved.candidates if full in self._broken), None)

    def handles(self) -> dict[str, tuple[str, ...]]:
        """After the last entry, map each id, and each name in a scope, to its nodes' names. Invalid entries are left out."""
        nodes = self._builder.graph.nodes
        return {name: tuple(nodes[node_id].name for node_id in targets) for name, targets in self._last_bindings()}

    def tensors(self) -> dict[str, tuple[str, ...]]:
        """Map ids and names to tensor names, like `handles`; only those that stand for an output other than the first."""
        nodes = self._builder.graph.nodes
        return {
            name: tuple(f"{nodes[node_id].name}:{slot_of(node_id)}" for node_id in targets)
            for name, targets in self._last_bindings()
            if any(map(slot_of, targets))
        }

    def _last_bindings(self) -> Iterator[tuple[str, list[int]]]:
        full_names = self._builder.graph.ids
        for name, targets in {**self._closed_ids, **self._root.bindings}.items():
            found = [node_id for node_id in targets if node_id is not None]
            if name not in full_names and len(found) == len(targets):
                yield name, found

    def all_names(self) -> Iterator[str]:
        """Return all names visible at the root, for suggestions."""
        return chain(self._root.bindings, self._builder.graph.ids, self._broken)
