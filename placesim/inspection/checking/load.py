"""Rules about the memory and work of devices."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from placesim.core.styled_text import StyledText, fill_template
from placesim.inspection.checking.rule import UNKNOWN, Breach, PolicyRule, RuleParameter, Values
from placesim.inspection.checking.subject import Subject, is_on
from placesim.inspection.short_device_names import short_device
from placesim.inspection.summary import held_amounts, nodes_of_unknown_size, operations
from placesim.machine.device_names import DeviceName
from placesim.ops.categories import CONSTANTS, VARIABLES

HOLDERS_SHOWN = 3
"""Maximum number of buffers named for a device's peak."""
_BYTES_OF_DEVICES = (
    RuleParameter("bytes", "bytes", "a limit, optionally with a unit (1GiB)", required=True),
    RuleParameter("device", "device", "only these devices"),
)


def _measure(subject: Subject, what: str) -> Mapping[str, int]:
    if what == "operations":
        return operations(subject.placement)[0]
    found = {device.name: 0 for device in subject.snapshot.devices}
    if what == "bytes":
        amounts = held_amounts(subject.placement, (*VARIABLES, *CONSTANTS))
        return found | {name: amount.bytes for name, amount in amounts.items()}
    for node in subject.snapshot.nodes:
        found[node.device] += not node.body
    return found


def balance(subject: Subject, values: Values) -> Iterator[Breach]:
    """Yield each device of the given type whose work differs from the type's mean by more than the fraction `within`."""
    what = values["of"]
    measured = _measure(subject, what)
    names = [device.name for device in subject.snapshot.devices if device.type == values["type"]]
    mean = sum(measured[name] for name in names) / max(1, len(names))
    for name in names:
        if mean and abs(measured[name] - mean) > values["within"] * mean:
            share = f"{measured[name] / mean - 1:+.0%}"
            told = f" has {measured[name]} {what}, {share} of the mean of {len(names)} devices ({mean:.0f})"
            yield Breach(subject.snapshot.start, StyledText(short_device(name), told))


def memory(subject: Subject, values: Values) -> Iterator[Breach]:
    """Yield the devices whose variables and constants exceed `bytes`.

    One of unknown size counts as `unknown` bytes. If `unknown` is not given, such nodes are violations.
    """
    spec = values["device"] or DeviceName()
    for name, amount in held_amounts(subject.placement, (*VARIABLES, *CONSTANTS)).items():
        total = amount.bytes + amount.unknown * (values["unknown"] or 0)
        if is_on(name, spec) and total > values["bytes"]:
            noted = f" and {amount.unknown} of unknown size" if amount.unknown else ""
            told = f" holds {total} bytes of variables and constants{noted}, limit {values['bytes']}"
            yield Breach(subject.snapshot.start, StyledText(short_device(name), told))
    if values["unknown"] is None:
        for node, name in nodes_of_unknown_size(subject.placement, (*VARIABLES, *CONSTANTS)):
            if is_on(name, spec):
                ways = (
                    "give its shape in the graph, or limit `max-peak-memory` instead; `unknown: BYTES` counts it as that many"
                )
                message = fill_template("{} on {} has an unknown size: {}", node.name, short_device(name), ways)
                location = subject.placement.graph.location(node) or subject.snapshot.start
                yield Breach(location, message, node.name)


def peak_memory(subject: Subject, values: Values) -> Iterator[Breach]:
    """Yield the devices whose peak exceeds `bytes`, each with the node that ran at the peak."""
    spec = values["device"] or DeviceName()
    for usage in subject.snapshot.memory:
        if not is_on(usage.device, spec) or usage.peak <= values["bytes"]:
            continue
        largest = ", ".join(f"{holder.node} ({holder.size} bytes)" for holder in usage.holders[:HOLDERS_SHOWN])
        told = f" holds {usage.peak} bytes while {usage.peak_node} runs, limit {values['bytes']}"
        node = subject.by_name.get(usage.peak_node)
        location = subject.snapshot.start if node is None else subject.at(node)
        yield Breach(location, StyledText(short_device(usage.device), f"{told}; largest: {largest}"), usage.peak_node)


RULES = (
    PolicyRule(
        "balance",
        "Devices of one type are equally loaded.",
        balance,
        (
            RuleParameter("of", "measure", "`nodes`, `bytes` (of variables and constants) or `operations`", "nodes"),
            RuleParameter("type", "device type", "the device type", "GPU"),
            RuleParameter("within", "fraction", "allowed deviation, as a fraction of the mean", 0.1),
        ),
        needs_graph=True,
    ),
    PolicyRule(
        "max-memory",
        "Variables and constants on a device stay within a byte limit.",
        memory,
        (*_BYTES_OF_DEVICES, UNKNOWN),
        needs_graph=True,
    ),
    PolicyRule(
        "max-peak-memory",
        "Peak memory of a device stays within a byte limit.",
        peak_memory,
        _BYTES_OF_DEVICES,
        needs_graph=True,
        needs_memory=True,
    ),
)
