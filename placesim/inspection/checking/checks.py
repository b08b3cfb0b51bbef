"""What a rule asks of a placement: each check gives the findings of one rule, told what the policy says."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from placesim.devices.names import DeviceSpec, parse_runtime_name
from placesim.errors import Location
from placesim.inspection.checking.findings import Finding
from placesim.inspection.difference import compare
from placesim.inspection.patterns import matcher
from placesim.inspection.snapshot import PlacedNode, Snapshot
from placesim.inspection.summary import VARIABLE_OPS, Amount, held_amounts, operations, transfers_by_pair
from placesim.placement.placer import Placement


@dataclass(frozen=True)
class Subject:
    """What is checked, with what several rules ask of it."""

    snapshot: Snapshot

    @cached_property
    def unmet(self) -> tuple[PlacedNode, ...]:
        """The nodes that are not where they asked to be."""
        specs: dict[str, DeviceSpec | None] = {device.name: device.spec for device in self.snapshot.devices}
        found = []
        for node in self.snapshot.nodes:
            asked = parse_runtime_name(node.requested) if node.requested else None
            device = specs.get(node.device)
            if asked is not None and device is not None and not asked.matches(device):
                found.append(node)
        return tuple(found)

    @cached_property
    def overridden(self) -> Mapping[str, str]:
        """The nodes whose request lost against a reference or resource edge, each with the node that it lost against."""
        live = self.snapshot.live
        if live is None:
            return _overridden_in(self.snapshot.warnings)
        return {name: source for placement in live.placements for name, source in self._overridden_by(placement)}

    def _overridden_by(self, placement: Placement) -> Iterator[tuple[str, str]]:
        """Nodes whose own request lost, and those that asked for the same in the group that lost it."""
        groups, graph = placement.groups, placement.graph
        by_group = {groups.root(i): lost for i, lost in groups.overridden.items()}
        for node in self.unmet if by_group else ():
            node_id = graph.ids.get(node.name)
            lost = None if node_id is None else groups.overridden.get(node_id) or by_group.get(groups.root(node_id))
            asked = parse_runtime_name(node.requested)
            if lost is not None and asked is not None and lost.ignored.is_compatible_with(asked):
                yield node.name, graph.nodes[lost.source].name

    @cached_property
    def by_name(self) -> Mapping[str, PlacedNode]:
        """The nodes by name."""
        return {node.name: node for node in self.snapshot.nodes}

    @property
    def placement(self) -> Placement:
        """The live placement, which the rules that need the graph are asked about."""
        live = self.snapshot.live
        found = None if live is None else live.placement
        assert found is not None, "a rule that needs the graph is not asked about a report"
        return found

    def at(self, node: PlacedNode) -> Location:
        """Where a node stands; in a report it stands nowhere."""
        return node.location or self.snapshot.start


def _overridden_in(warnings: Sequence[str]) -> dict[str, str]:
    found = {}
    for text in warnings:
        if "Ignoring device specification" in text and " for node '" in text:
            node = text.split(" for node '", 1)[1].split("'", 1)[0]
            found[node] = text.split("the input edge from '", 1)[-1].split("'", 1)[0]
    return found


Values = Mapping[str, Any]


# --- requests -------------------------------------------------------------------------------------------------------


def soft_fallbacks(subject: Subject, values: Values) -> Iterator[Finding]:
    """Nodes that soft placement put elsewhere than they asked to be."""
    excepted = matcher(values["except"])
    for node in subject.unmet:
        if node.name not in subject.overridden and not excepted(node.name):
            message = f"{node.name} asked for {node.requested} and is on {_short(node.device)}"
            yield Finding(subject.at(node), "no-soft-fallback", message, node.name)


def overridden_requests(subject: Subject, values: Values) -> Iterator[Finding]:
    """Nodes whose request lost against a reference or resource edge (5.6)."""
    excepted = matcher(values["except"])
    for name, source in subject.overridden.items():
        node = subject.by_name.get(name)
        if node is not None and not excepted(name):
            message = f"{name} asked for {node.requested}, which lost against {source}: it is on {_short(node.device)}"
            yield Finding(subject.at(node), "no-overridden-request", message, name)


def ignored_colocations(subject: Subject, values: Values) -> Iterator[Finding]:
    """Labels that soft placement passed over (5.7)."""
    placement, excepted = subject.placement, matcher(values["except"])
    for node_id, ignored in placement.groups.ignored.items():
        node = placement.graph.nodes[node_id]
        for label in ignored if not excepted(node.name) else ():
            message = f"{node.name} is not with {label.label}: {label.conflict.sentence(placement.graph)}"
            location = placement.graph.location(node) or subject.snapshot.start
            yield Finding(location, "no-ignored-colocation", message, node.name)


# --- transfers ------------------------------------------------------------------------------------------------------


def _pairs(subject: Subject, values: Values) -> dict[tuple[str, str], Amount]:
    source, target = values["from"] or DeviceSpec(), values["to"] or DeviceSpec()
    pairs = transfers_by_pair(subject.snapshot.transfers)
    return {pair: amount for pair, amount in pairs.items() if _is(pair[0], source) and _is(pair[1], target)}


def _where(values: Values) -> str:
    ends = [f"{word} {values[word]}" for word in ("from", "to") if values[word] is not None]
    return " " + " ".join(ends) if ends else ""


def transfer_count(subject: Subject, values: Values) -> Iterator[Finding]:
    """More transfers than `count`, between the devices `from` and `to` where these are given."""
    total = sum(amount.count for amount in _pairs(subject, values).values())
    if total > values["count"]:
        message = f"{total} transfers{_where(values)}, at most {values['count']} are allowed"
        yield Finding(subject.snapshot.start, "max-transfers", message)


def transfer_bytes(subject: Subject, values: Values) -> Iterator[Finding]:
    """More bytes transferred than `bytes`; a tensor of unknown size counts as `unknown`."""
    amounts = _pairs(subject, values).values()
    unknown = sum(amount.unknown for amount in amounts)
    total = sum(amount.bytes for amount in amounts) + unknown * values["unknown"]
    if total > values["bytes"]:
        noted = f" ({unknown} of unknown size counted as {values['unknown']} each)" if unknown else ""
        message = f"{total} bytes are transferred{_where(values)}{noted}, at most {values['bytes']} are allowed"
        yield Finding(subject.snapshot.start, "max-transfer-bytes", message)


# --- places ---------------------------------------------------------------------------------------------------------


def _chosen(subject: Subject, values: Values) -> Iterator[PlacedNode]:
    ops, names = values["ops"], values["nodes"]
    is_named = matcher(names)
    return (n for n in subject.snapshot.nodes if (not ops or n.op in ops) and (not names or is_named(n.name)))


def on_device(subject: Subject, values: Values) -> Iterator[Finding]:
    """Nodes by `ops` and `nodes` that are not on such a device."""
    for node in _chosen(subject, values):
        if not _is(node.device, values["device"]):
            message = f"{node.name} ({node.op}) must be on {values['device']} and is on {_short(node.device)}"
            yield Finding(subject.at(node), "on-device", message, node.name)


def not_on_device(subject: Subject, values: Values) -> Iterator[Finding]:
    """Nodes by `ops` and `nodes` that are on such a device."""
    for node in _chosen(subject, values):
        if _is(node.device, values["device"]):
            message = f"{node.name} ({node.op}) must not be on {values['device']} and is on {_short(node.device)}"
            yield Finding(subject.at(node), "not-on-device", message, node.name)


def together(subject: Subject, values: Values) -> Iterator[Finding]:
    """Nodes that are not where the first of them is."""
    is_member = matcher(values["nodes"])
    members = [node for node in subject.snapshot.nodes if is_member(node.name)]
    for node in members[1:]:
        if node.device != members[0].device:
            message = f"{node.name} is on {_short(node.device)} and {members[0].name} on {_short(members[0].device)}"
            yield Finding(subject.at(node), "together", message, node.name)


def apart(subject: Subject, values: Values) -> Iterator[Finding]:
    """The nodes of one pattern may share a device with each other, but with none of another pattern."""
    holders: dict[str, tuple[int, PlacedNode]] = {}
    matchers = [matcher([pattern]) for pattern in values["nodes"]]
    for node in subject.snapshot.nodes:
        group = next((index for index, matches in enumerate(matchers) if matches(node.name)), None)
        if group is None:
            continue
        other, first = holders.setdefault(node.device, (group, node))
        if other != group:
            message = f"{node.name} and {first.name} are both on {_short(node.device)}"
            yield Finding(subject.at(node), "apart", message, node.name)


def variables_with_consumers(subject: Subject, values: Values) -> Iterator[Finding]:
    """Readers of a variable on another device, also those behind its read op (the first guide's advice 2)."""
    placement, is_chosen = subject.placement, matcher(values["nodes"])
    nodes, devices = placement.graph.nodes, placement.devices
    holder: dict[int, int] = {}
    for i in placement.order:
        node = nodes[i]
        if node.op in VARIABLE_OPS:
            holder[i] = i
        elif node.op in ("Identity", "RefIdentity", "ReadVariableOp") and node.input_nodes and node.input_nodes[0] in holder:
            holder[i] = holder[node.input_nodes[0]]
        for source in dict.fromkeys(node.input_nodes):
            variable = nodes[holder[source]] if source in holder else None
            if variable is not None and devices[i] != devices[variable.id] and is_chosen(variable.name):
                yield _apart_from_variable(subject, i, variable.id)


def _apart_from_variable(subject: Subject, node_id: int, variable_id: int) -> Finding:
    graph, devices = subject.placement.graph, subject.placement.devices
    node, variable = graph.nodes[node_id], graph.nodes[variable_id]
    places = [_short(device.name) if (device := devices[i]) is not None else "nowhere" for i in (node_id, variable_id)]
    message = f"{node.name} reads {variable.name}, and is on {places[0]} while the variable is on {places[1]}"
    return Finding(graph.location(node) or subject.snapshot.start, "variables-with-consumers", message, node.name)


# --- load -----------------------------------------------------------------------------------------------------------


def _measure(subject: Subject, what: str) -> Mapping[str, int]:
    if what == "operations":
        return operations(subject.placement)[0]
    found = {device.name: 0 for device in subject.snapshot.devices}
    if what == "bytes":
        amounts = held_amounts(subject.placement, (*VARIABLE_OPS, "Const"))
        return found | {name: amount.bytes for name, amount in amounts.items()}
    for node in subject.snapshot.nodes:
        found[node.device] += 1
    return found


def balance(subject: Subject, values: Values) -> Iterator[Finding]:
    """Devices of a type that have more or less to do than `within` of the mean."""
    what = values["of"]
    measured = _measure(subject, what)
    names = [device.name for device in subject.snapshot.devices if device.type == values["type"]]
    mean = sum(measured[name] for name in names) / max(1, len(names))
    for name in names:
        if mean and abs(measured[name] - mean) > values["within"] * mean:
            share = f"{measured[name] / mean - 1:+.0%}"
            message = f"{_short(name)} has {measured[name]} {what}, {share} of the mean of {len(names)} devices ({mean:.0f})"
            yield Finding(subject.snapshot.start, "balance", message)


def memory(subject: Subject, values: Values) -> Iterator[Finding]:
    """Devices whose variables and constants take more than `bytes`."""
    spec = values["device"] or DeviceSpec()
    for name, amount in held_amounts(subject.placement, (*VARIABLE_OPS, "Const")).items():
        if _is(name, spec) and amount.bytes > values["bytes"]:
            noted = f" and {amount.unknown} of unknown size" if amount.unknown else ""
            message = f"{_short(name)} holds {amount.bytes} bytes of variables and constants{noted}, at most {values['bytes']}"
            yield Finding(subject.snapshot.start, "max-memory", message + " are allowed")


def agrees(subject: Subject, values: Values) -> Iterator[Finding]:
    """What differs from a baseline."""
    baseline: Snapshot = values["file"]
    difference = compare(baseline, subject.snapshot)
    for move in difference.moved:
        node = subject.by_name[move.name]
        message = f"{move.name} is on {_short(move.after)} and was on {_short(move.before)} in {baseline.name}"
        yield Finding(subject.at(node), "baseline", message, move.name)
    for name in difference.added:
        yield Finding(subject.at(subject.by_name[name]), "baseline", f"{name} is not in {baseline.name}", name)
    for name in difference.removed:
        yield Finding(subject.snapshot.start, "baseline", f"{name} is gone, it is in {baseline.name}", name)
    for change in difference.transfers:
        message = f"{change.text} than in {baseline.name}"
        yield Finding(subject.snapshot.start, "baseline", message)


def _is(device: str, spec: DeviceSpec) -> bool:
    found = parse_runtime_name(device)
    return found is not None and spec.matches(found)


def _short(device: str) -> str:
    return device.removeprefix("/job:localhost/replica:0/task:0/device:")
