"""Conversion of a plan to device requests in the scopes and nodes of a graph file, with as few new requests as possible.

The text and its comments are kept. If it cannot express the plan, the result is None, and the raw form is written.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import NamedTuple

from placesim.core.dtypes import DataType
from placesim.core.errors import PlacesimError
from placesim.formats.device_annotations import assign_devices
from placesim.formats.graph_file.reader import read_graph_file
from placesim.formats.graph_file.writing.text_edits import (
    ABSENT,
    EditableText,
    EntryRun,
    Literals,
    NodeEntry,
    Own,
    UneditableText,
    wrap_runs,
)
from placesim.graph.graph import Graph, Node
from placesim.graph.session_steps import GraphFile
from placesim.machine.device_names import ANY, DeviceName, enclose, parse_python_spec, parse_runtime_name
from placesim.machine.inventory import DeviceSet
from placesim.ops.categories import CONSTANTS
from placesim.placement.placer import Placement
from placesim.placement.session_placer import SessionPlacer
from placesim.planning.graphs.plan_annotations import devices_by_name, find_misplaced_nodes
from placesim.planning.graphs.problem_building import possible_devices
from placesim.planning.graphs.requests_by_name import request, request_text

MAX_CHARACTERS = 20_000_000
"""Maximum length of an edited text, since each attempt reads and places all of it; longer ones are written in raw form."""
_ROUNDS = 12
_CHANGED, _DEEPER = 1e-4, 1e-7
"""Small costs that choose between equal numbers of new requests: existing requests stay, and outer scopes come first."""
_WRAP = 1 + 3 * _CHANGED
"""Cost of a new scope: one request, and a little more."""
_NEVER = 1e6
_Context = DeviceName | None
"""Request of the scopes around an entry; None within a colocation, which determines the device."""


def annotated_text(text: str, base: GraphFile, asked: Mapping[str, str], device_set: DeviceSet, *, soft: bool) -> str | None:
    """Return the text of a graph file with the devices of a plan; None if the text cannot express it.

    `base` is the text's graph without the dropped requests and with the options applied. `asked` has the device requests, by
    node, that produce the plan. Placing the returned text gives the planned device for every node.
    """
    if base.is_raw or len(text) > MAX_CHARACTERS:
        return None
    try:
        return _ScopeEditor(text, base, asked, device_set, soft).written()
    except (UneditableText, PlacesimError):
        return None


class _Copy(NamedTuple):
    """One use of a list of entries in the graph: a use of each entry, and the device request of the scopes around it."""

    uses: list[_Use]
    context: _Context


@dataclass(eq=False, slots=True)
class _Use:
    """One use of an entry. YAML aliases, or a list of devices of a scope around it, use an entry several times.

    `nodes` are the nodes that the entry makes; a scope makes none. `copies` has the uses of a scope's entries: a list for each
    device in the scope's list, else one list.
    """

    entry: NodeEntry
    nodes: tuple[Node, ...]
    copies: list[list[_Use]]
    depth: int
    wanted: frozenset[str] = frozenset()


class _Rules(NamedTuple):
    """Rules for requests, by node name.

    - `target`: the planned device.
    - `held`: requests that must stay.
    - `required`: the nodes that need a request.
    - `default`: the device of a node without requests; None if requests that cannot be satisfied must not be written.
    """

    target: Mapping[str, str]
    held: Mapping[str, DeviceName]
    required: frozenset[str]
    default: Mapping[str, str] | None
    choices: Mapping[str, frozenset[str]]
    specs: Mapping[str, DeviceName]


class _ScopeEditor:
    def __init__(self, text: str, base: GraphFile, asked: Mapping[str, str], device_set: DeviceSet, soft: bool) -> None:
        self._text = text
        self._base = base
        self._device_set = device_set
        self._soft = soft
        self._file = base.graph.file
        self._specs = {device.name: request(device.name, device_set) for device in device_set.devices}
        self._graph = self._read(text)
        own = self._place(base.graph)
        planned = self._place(assign_devices(base, asked).graph)
        if planned.error is not None:
            raise planned.error
        self._planned = planned
        # the placement of initializer groups does not matter, and follows from the variables
        initializers = EditableText(text).initializers
        waits = {node.name for node in self._graph.nodes if node.location in initializers}
        self._target = {name: device for name, device in devices_by_name(planned).items() if name not in waits}
        self._default = devices_by_name(own) if own.error is None and soft else None
        self._choices = _choices(own) if self._default is not None else {}
        self._members: dict[int, list[str]] = {}
        for node in self._graph.nodes:
            if not _follows(node):
                self._members.setdefault(self._group(node.name), []).append(node.name)
        # the planned request of a node replaces its own
        self._held = {
            node.name: parse_runtime_name(node.device) or ANY
            for node in base.graph.nodes
            if node.device and node.name not in asked and not _follows(node)
        }
        free = {name for members in self._members.values() for name in members}
        groups = {self._group(name) for name in asked if name not in free}
        self._required = {name for name in asked if name in free}
        self._required |= {self._members[group][0] for group in groups if group in self._members}

    def written(self) -> str | None:
        """Return the text, checked by placing it; None if no attempt succeeds."""
        if self._wrong(self._place(self._graph)) == []:
            return self._text  # fewer requests might suffice, but the author knows this text, so it is not edited
        for _ in range(_ROUNDS):
            edited = self._edited()
            wrong = self._wrong(self._place(self._read(edited)))
            if wrong == []:
                return edited
            if wrong is None or not self._require(wrong):
                if self._default is None:
                    return None
                self._default = None
        return None

    def _wrong(self, placement: Placement) -> list[str] | None:
        """Return the nodes on another device than planned; None if placing fails."""
        return None if placement.error is not None else find_misplaced_nodes(placement, self._target)

    def _require(self, wrong: Sequence[str]) -> bool:
        """Require requests for misplaced groups: for the first node of each, then for all.  Return whether any is new."""
        before = len(self._required)
        for group in {self._group(name) for name in wrong}:
            members = self._members.get(group, [])
            self._required.update(members if members and members[0] in self._required else members[:1])
        return len(self._required) > before

    # --- graphs

    def _read(self, text: str) -> Graph:
        """Return the graph of a text.  Raises UneditableText if it differs from the planned one."""
        graph = read_graph_file(text, self._file, self._base.graph.registry).graph
        if _differ(graph, self._base.graph):
            raise UneditableText
        return graph

    def _place(self, graph: Graph) -> Placement:
        return SessionPlacer(self._device_set, self._soft).place(graph)

    def _group(self, name: str) -> int:
        graph = self._planned.graph
        return self._planned.groups.root(graph.ids[name]) if name in graph.ids else -1 - self._base.graph.ids[name]

    # --- the fewest devices

    def _edited(self) -> str:
        """Return the text with the fewest new devices that satisfy the required requests."""
        for _ in range(_ROUNDS):
            texts = EditableText(self._text)
            rules = _Rules(self._target, self._held, frozenset(self._required), self._default, self._choices, self._specs)
            choice = _Choice(texts, self._graph, rules)
            clashes = choice.settle()
            if not clashes:
                return wrap_runs(texts.with_devices(choice.devices), choice.runs)
            scopes = list(dict.fromkeys(scope for clash in clashes for scope in choice.clashing_scopes(clash)))
            self._text = texts.expanded(scopes) if scopes else texts.with_constants(list(map(_literals, clashes)))
            self._graph = self._read(self._text)
        raise UneditableText


class _Clash(NamedTuple):
    """An entry whose uses need different devices, with the list that contains it."""

    entries: list[NodeEntry]
    entry: NodeEntry
    uses: list[_Use]


class _Choice:
    """Chooses the entries that request devices, and the runs of entries that get a new scope with a request."""

    def __init__(self, texts: EditableText, graph: Graph, rules: _Rules) -> None:
        self._texts = texts
        self._rules = rules
        self._nodes = graph.nodes
        self._next = 0
        self._times: Counter[int] = Counter()
        self._scopes_of: dict[int, list[NodeEntry]] = {}
        self._uses = self._used(texts.entries, 0)
        if self._next != len(self._nodes):
            raise UneditableText
        self.devices: dict[NodeEntry, Own] = {}
        self.runs: list[EntryRun] = []
        self._waiting: dict[int, list[_Copy]] = {}
        self._known: dict[tuple[int, _Context], float] = {}
        self._known_misplaced: dict[tuple[int, _Context], int] = {}

    # --- which entry makes which nodes

    def _used(self, entries: list[NodeEntry], depth: int) -> list[_Use]:
        self._times[id(entries)] += 1
        return [self._use(entry, depth) for entry in entries]

    def _use(self, entry: NodeEntry, depth: int) -> _Use:
        if entry.children is None:
            nodes = tuple(node for node in self._made(entry) if node.name in self._rules.target)
            wanted = frozenset(self._rules.target[node.name] for node in nodes if not _follows(node))
            return _Use(entry, nodes, [], depth, wanted)
        times = len(entry.own) if isinstance(entry.own, list) else 1
        scopes = self._scopes_of.setdefault(id(entry.children), [])
        if entry not in scopes:
            scopes.append(entry)
        copies = [self._used(entry.children, depth + 1) for _ in range(times)]
        return _Use(entry, (), copies, depth, frozenset(device for copy in copies for use in copy for device in use.wanted))

    def _made(self, entry: NodeEntry) -> tuple[Node, ...]:
        """Return the nodes of an entry: those of literals and variables that it reads come first."""
        start = end = self._next
        while end < len(self._nodes) and self._nodes[end].location == entry.position:
            end += 1
            if self._nodes[end - 1].op == entry.op:
                break
        if end == start:
            raise UneditableText
        self._next = end
        return tuple(self._nodes[start:end])

    # --- what is chosen

    def settle(self) -> list[_Clash]:
        """Fill in `devices` and `runs`. Return the entries that no choice can satisfy."""
        clashes: list[_Clash] = []
        self._settle_list(self._texts.entries, [_Copy(self._uses, ANY)], clashes)
        return clashes

    def _settle_list(self, entries: list[NodeEntry], copies: list[_Copy], clashes: list[_Clash]) -> None:
        wraps = self._chosen_wraps(entries, copies)
        for first, last, word in _runs(wraps):
            self.runs.append(EntryRun(self._texts.number(entries), first, last, word))
        for number, entry in enumerate(entries):
            uses = [(copy.uses[number], _within(wraps[number], copy.context)) for copy in copies]
            best, own = min(((self._cost_of(uses, own), own) for own in self._options(entry, uses)), key=lambda found: found[0])
            if entry.children is None and best >= _NEVER:
                clashes.append(_Clash(entries, entry, [use for use, _ in uses]))
            if own != entry.own:
                self.devices[entry] = own
            if entry.children is None:
                continue
            waiting = self._waiting.setdefault(id(entry.children), [])
            for use, context in uses:
                waiting += map(_Copy, use.copies, self._inner(entry, context, own))
            if len(waiting) == self._times[id(entry.children)]:
                self._settle_list(entry.children, waiting, clashes)

    def _chosen_wraps(self, entries: list[NodeEntry], copies: list[_Copy]) -> list[str]:
        """Return the device of the new scope around each entry of a list; ABSENT for no scope."""
        words = self._wrapping(entries, copies)
        if len(words) == 1:
            return words * len(entries)
        costs, came = [0.0, *([_WRAP] * (len(words) - 1))], []
        for number in range(len(entries)):
            # a scope may begin or end before each entry
            open_at = min(range(len(words)), key=costs.__getitem__)
            begin = [costs[open_at] + (_WRAP if place else 0) for place in range(len(words))]
            came.append([place if costs[place] <= begin[place] else open_at for place in range(len(words))])
            costs = [min(costs[place], begin[place]) for place in range(len(words))]
            for place, word in enumerate(words):
                uses = [(copy.uses[number], _within(word, copy.context)) for copy in copies]
                costs[place] += min(self._cost_of(uses, own) for own in self._options(entries[number], uses))
                costs[place] += _DEEPER if place else 0
        place, found = min(range(len(words)), key=costs.__getitem__), []
        for row in reversed(came):
            found.append(words[place])
            place = row[place]
        return found[::-1]

    def _wrapping(self, entries: list[NodeEntry], copies: Sequence[_Copy]) -> list[str]:
        """Return the possible devices of a new scope around entries of a list; the first is ABSENT, for no scope."""
        if any(copy.context is None for copy in copies) or not self._texts.can_wrap(entries):
            return [ABSENT]
        return [ABSENT, *map(self._word, sorted({device for copy in copies for use in copy.uses for device in use.wanted}))]

    def _word(self, device: str) -> str:
        return request_text(self._rules.specs[device])

    def clashing_scopes(self, clash: _Clash) -> list[NodeEntry]:
        """Return the scopes to write out in full, so that each entry makes fewer nodes; none if that does not help."""
        scopes = self._scopes_of.get(id(clash.entries), [])
        if len(scopes) > 1:
            return scopes[1:]
        if len(clash.uses) == 1:
            return []
        return next((scopes[1:] for scopes in self._scopes_of.values() if len(scopes) > 1), [])

    def _options(self, entry: NodeEntry, uses: Sequence[tuple[_Use, _Context]]) -> Iterator[Own]:
        """Yield the possible requests of an entry: its current one, none, or a device that one of its nodes needs."""
        yield entry.own
        if entry.is_colocated or any(context is None for _, context in uses):
            return
        if isinstance(entry.own, list):
            yield self._listed(entry, uses)
            return
        if entry.own != ABSENT:
            yield ABSENT
        for device in sorted({device for use, _ in uses for device in use.wanted}):
            word = self._word(device)
            if word != entry.own:
                yield word

    def _listed(self, entry: NodeEntry, uses: Sequence[tuple[_Use, _Context]]) -> Own:
        """Return a list with the best device for each copy of a scope."""
        assert isinstance(entry.own, list)
        words = [self._word(device) for device in sorted({device for use, _ in uses for device in use.wanted})]

        def cost(number: int, word: str | None) -> float:
            below = math.fsum(self._below(use.copies[number], _within(word, context)) for use, context in uses)
            return below + (_CHANGED if word != own[number] else 0)

        own = entry.own
        return [min([was, *words], key=lambda word, number=number: cost(number, word)) for number, was in enumerate(own)]  # type: ignore[misc]

    # --- what it costs

    def _cost_of(self, uses: Sequence[tuple[_Use, _Context]], own: Own) -> float:
        """Return the number of new requests if the entry requests `own`, plus _NEVER for each misplaced node."""
        entry = uses[0][0].entry
        cost = 0.0
        if own != ABSENT:
            cost += _DEEPER * uses[0][0].depth + (_DEEPER if entry.children is None else 0)
        if own != entry.own:
            cost += _CHANGED if own == ABSENT else 1
        for use, context in uses:
            inner = self._inner(entry, context, own)
            if entry.children is None:
                cost += _NEVER * self._misplaced(use, inner[0])
            else:
                cost += math.fsum(map(self._below, use.copies, inner))
        return cost

    def _below(self, copy: list[_Use], context: _Context) -> float:
        """Return the cost of the fewest requests for a list of entries if no other scope uses this list."""
        key = id(copy), context
        found = self._known.get(key)
        if found is None:
            entries, alone = [use.entry for use in copy], _Copy(copy, context)
            words = [ABSENT] if not copy else self._wrapping(self._texts.list_with(copy[0].entry), [alone])
            costs = [0.0, *([_WRAP] * (len(words) - 1))]
            for number, entry in enumerate(entries):
                least = min(costs)
                costs = [min(cost, least + (_WRAP if place else 0)) for place, cost in enumerate(costs)]
                for place, word in enumerate(words):
                    uses = [(copy[number], _within(word, context))]
                    costs[place] += min(self._cost_of(uses, own) for own in self._options(entry, uses))
                    costs[place] += _DEEPER if place else 0
            found = self._known[key] = min(costs)
        return found

    def _inner(self, entry: NodeEntry, context: _Context, own: Own) -> list[_Context]:
        """Return the request that holds inside an entry with the device `own`, once for each copy of the entry."""
        if entry.is_colocated:
            context = None
        return [_within(text, context) for text in own] if isinstance(own, list) else [_within(own, context)]

    def _misplaced(self, use: _Use, asked: _Context) -> int:
        """Return the number of nodes of an entry that this request misplaces."""
        key = id(use), asked
        found = self._known_misplaced.get(key)
        if found is None:
            found = self._known_misplaced[key] = sum(not self._accepts(node, asked) for node in use.nodes)
        return found

    def _accepts(self, node: Node, asked: _Context) -> bool:
        """Return whether a node with this request is placed as planned, as far as known."""
        rules = self._rules
        if asked is None or _follows(node):
            return True
        target = rules.target[node.name]
        is_exact = rules.specs[target].matches(asked)
        held = rules.held.get(node.name)
        if held is not None:
            return is_exact or asked == held
        if is_exact:
            return True
        if node.name in rules.required:
            return False
        if asked == ANY or _fits(asked, target):
            return True
        # with soft placement, a request for an impossible device has no effect
        choices = rules.choices.get(node.name, frozenset())
        is_vain = rules.default is not None and rules.default.get(node.name) == target
        return is_vain and not any(_fits(asked, device) for device in choices)


def _literals(clash: _Clash) -> Literals:
    """Return the literal inputs of an entry whose nodes go to several devices.

    Raises UneditableText unless all of them are literals.
    """
    if len(clash.uses) != 1 or clash.entry.op is None:
        raise UneditableText
    *literals, node = clash.uses[0].nodes
    types = [literal.attrs.get("dtype") for literal in literals if literal.op in CONSTANTS]
    names = [(literal.name, dtype.name) for literal, dtype in zip(literals, types, strict=False) if isinstance(dtype, DataType)]
    if not names or len(names) != len(literals):
        raise UneditableText
    return Literals(clash.entry, node.name, tuple(names))


def _runs(wraps: Sequence[str]) -> Iterator[tuple[int, int, str]]:
    """Yield the first and the last position of each run with the same device, and that device."""
    first = 0
    for number, word in enumerate(wraps):
        if number + 1 == len(wraps) or wraps[number + 1] != word:
            if word != ABSENT:
                yield first, number, word
            first = number + 1


def _within(own: str | None, context: _Context) -> _Context:
    if own == ABSENT or context is None:
        return context
    return ANY if own is None else enclose(parse_python_spec(own), context)


def _fits(asked: DeviceName, device: str) -> bool:
    full = parse_runtime_name(device)
    assert full is not None
    return asked.matches(full)


def _follows(node: Node) -> bool:
    """Return whether a node ignores the requests of its scopes, since it follows a reference's owner or a variable's handle."""
    return True in node.signature.input_is_ref or not node.location


def _differ(graph: Graph, other: Graph) -> bool:
    """Return whether two graphs differ in anything but devices. Nodes that group initializers by device are not compared."""
    groups, others = initializer_groups(graph), initializer_groups(other)
    names = graph.ids.keys() - groups
    if names != other.ids.keys() - others:
        return True
    for node in other.nodes:
        if node.name in others:
            continue
        same = graph.node(node.name)
        if (same.op, same.attrs.keys()) != (node.op, node.attrs.keys()):
            return True
        inputs, found = graph.input_texts(same), other.input_texts(node)
        if inputs != found and sorted(_through(graph, inputs, groups)) != sorted(_through(other, found, others)):
            return True
    return False


def initializer_groups(graph: Graph) -> set[str]:
    """Return the names of the `NoOp` nodes that run the initializers of one device, if there is such a node for each device."""
    found = set()
    for node in graph.nodes:
        if node.op == "NoOp" and node.location:
            whole = graph.ids.get(node.name.rpartition("/NoOp")[0])
            if whole is not None and (graph.nodes[whole].op, graph.nodes[whole].location) == ("NoOp", node.location):
                found.add(node.name)
    return found


def _through(graph: Graph, inputs: Sequence[str], groups: AbstractSet[str]) -> Iterator[str]:
    """Yield inputs; each group is replaced by its own inputs."""
    for text in inputs:
        if text.startswith("^") and text[1:] in groups:
            yield from _through(graph, graph.input_texts(graph.node(text[1:])), groups)
        else:
            yield text


def _choices(placement: Placement) -> dict[str, frozenset[str]]:
    """Return the possible devices of each node."""
    devices = placement.device_set.devices
    return {
        name: frozenset(devices[number].name for number in group.choices)
        for group in possible_devices(placement)
        for name in group.nodes
    }
