"""Reader of scopes in a graph file, which opens the builder's scopes, and repeats a scope for a list of devices."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

from placesim.core.errors import GraphBuildError
from placesim.formats.graph_file.entries.references import EntryContext
from placesim.formats.graph_file.entries.scope_copies import numbered_scope
from placesim.formats.graph_file.entries.scoped_names import Targets, UnresolvedName
from placesim.formats.problems import own_position, spell, value_position
from placesim.graph.builder import DeviceFunction, ScopedGraphBuilder
from placesim.graph.graph import DeviceScope

MAX_EXPANSION = 1_000_000
"""Maximum number of entries that lists of devices may produce from a file's entries."""
SCOPE_KEYS = dict.fromkeys(("scope", "device", "colocate_with", "control_inputs", "nodes")).keys()


class ScopeEntries:
    """A reader of scopes, which also enters the device and control scopes of other entries."""

    def __init__(self, context: EntryContext, take_all: Callable[[Any, int], None]) -> None:
        self._builder, self._problems, self._names, self._references = context
        self._take_all = take_all
        self._copied = 0

    def take(self, entry: dict[Any, Any]) -> None:
        """Read an entry with `nodes` once, or once for each device of a list."""
        self._problems.unknown_keys(entry, SCOPE_KEYS, "a scope")
        device = entry.get("device", "")
        if isinstance(device, list | tuple):
            self._take_copies(entry, device)
            return
        with self.entered(entry), self._name_scope(entry):
            self._take_all(entry["nodes"], value_position(entry, "nodes"))

    def _take_copies(self, entry: dict[Any, Any], devices: Any) -> None:
        copies: dict[str, Targets] = {}
        if not devices:
            self._problems.add(value_position(entry, "device"), "scope without copies: got an empty list, expected devices")
        if not self._names.is_copy and _copies_of(entry) > MAX_EXPANSION:
            self._refuse_copies(entry)
            return
        for index in range(len(devices)):
            if self._copied > MAX_EXPANSION:
                break
            own = numbered_scope(entry, index)
            with self._names.copy() as bindings, self._entered(own, devices, index), self._name_scope(own, bindings):
                self._take_all(own["nodes"], value_position(own, "nodes"))
            for name, targets in bindings.items():
                copies[name] = (*copies.get(name, ()), *targets)
        for name, targets in copies.items():
            self._names.bind(name, targets)

    def count_copy(self, entry: Any) -> bool:
        """Count an entry of a repeated scope. Returns whether the total is within the limit."""
        self._copied += 1
        if self._copied == MAX_EXPANSION + 1:
            self._refuse_copies(entry)
        return self._copied <= MAX_EXPANSION

    def _refuse_copies(self, entry: Any) -> None:
        message = f"too many copies of scopes: got more than {MAX_EXPANSION:,} entries, expected at most that many"
        self._problems.add(own_position(entry), message)

    @contextmanager
    def entered(self, entry: dict[Any, Any]) -> Iterator[None]:
        """Enter an entry's scopes for colocation, device and control inputs. An invalid scope is reported and left out."""
        with self._entered(entry, entry, "device"):
            yield

    @contextmanager
    def _entered(self, entry: dict[Any, Any], device_tree: Any, device_key: Any) -> Iterator[None]:
        builder = self._builder
        waits: list[UnresolvedName] = []
        with ExitStack() as scopes:
            if "colocate_with" in entry:
                enter_colocation(scopes, builder, self._references.colocated(entry, "", waits))
            if "device" in entry:
                self._enter_device(scopes, device_tree, device_key)
            if "control_inputs" in entry:
                scopes.enter_context(builder.control_dependencies(self._references.nodes(entry, "control_inputs", "", waits)))
            yield

    def _enter_device(self, scopes: ExitStack, tree: Any, key: Any) -> None:
        device = tree[key]
        try:
            if is_device_text(device):
                scopes.enter_context(self._builder.device(make_device_function(device["text"])))
            elif device is None or isinstance(device, str):
                scopes.enter_context(self._builder.device(device))
                scopes.callback(self._note_device_scope, len(self._builder.graph), device, value_position(tree, key))
            else:
                message = f"wrong type of 'device': got {spell(device)}, expected a device specification"
                self._problems.add(value_position(tree, key), message)
        except GraphBuildError as error:
            self._problems.add_error(value_position(tree, key), error)

    def _note_device_scope(self, first: int, device: str | None, position: int) -> None:
        graph = self._builder.graph
        graph.device_scopes.append(DeviceScope(first, len(graph), device, position))

    @contextmanager
    def _name_scope(self, entry: dict[Any, Any], bindings: dict[str, Targets] | None = None) -> Iterator[None]:
        """Enter the name scope of an entry, if it has one. An invalid name is reported and left out."""
        with ExitStack() as scopes:
            prefix = self._enter_name_scope(scopes, entry) if "scope" in entry else None
            if prefix is not None:
                scopes.enter_context(self._names.name_scope(prefix, bindings))
            yield

    def _enter_name_scope(self, scopes: ExitStack, entry: dict[Any, Any]) -> str | None:
        name = entry["scope"]
        if name is not None and not isinstance(name, str):
            message = f"wrong type of 'scope': got {spell(name)}, expected a string"
            self._problems.add(value_position(entry, "scope"), message)
            return None
        try:
            return scopes.enter_context(self._builder.name_scope(name))
        except GraphBuildError as error:
            self._problems.add_error(value_position(entry, "scope"), error)
            return None


def enter_colocation(scopes: ExitStack, builder: ScopedGraphBuilder, targets: Sequence[int | str]) -> None:
    """Open a `tf.colocate_with` scope for each node. For a node outside the function, given by name, set only the label."""
    if not any(isinstance(target, str) for target in targets):
        scopes.enter_context(builder.colocate_with([target for target in targets if isinstance(target, int)]))
        return
    for target in targets:
        if isinstance(target, str):
            scopes.enter_context(builder.colocate_with((), ignore_existing=True))
            scopes.enter_context(builder.class_attr(target))
        else:
            scopes.enter_context(builder.colocate_with([target]))


def is_device_text(device: Any) -> bool:
    """Whether a device is `{text: D}`, which sets the text of a request, as a device function of TensorFlow's Python does."""
    return isinstance(device, dict) and list(device) == ["text"] and isinstance(device["text"], str)


def make_device_function(device: str) -> DeviceFunction:
    """Return a device function that returns this text for every node."""
    return lambda node: device


def _copies_of(entry: Any) -> int:
    """Return the number of entries that a scope expands to: the scope itself, and its contents for each device of a list."""
    if not isinstance(entry, dict) or not isinstance(entry.get("nodes"), list | tuple):
        return 1
    device = entry.get("device")
    return 1 + (len(device) if isinstance(device, list | tuple) else 1) * sum(map(_copies_of, entry["nodes"]))
