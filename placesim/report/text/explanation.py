"""Text and JSON of explanations: proofs of placements, and edits that change them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import Enum
from itertools import chain
from operator import attrgetter
from typing import Any

from placesim.core.errors import Location
from placesim.core.escaping import escape_line
from placesim.core.grouped import grouped
from placesim.core.styled_text import Role, StyledText, device, fill_template, join_texts, list_words, place, quote
from placesim.inspection.explaining.alternatives import Alternatives
from placesim.inspection.explaining.annotations import Annotation, AnnotationKind
from placesim.inspection.explaining.inquiry import ExplainedError, ExplainedNode
from placesim.inspection.explaining.kernel_support import Exclusion, KernelSupport
from placesim.inspection.explaining.proof import GroupBounds, IgnoredLabelProof, LostRequest, Merge, Proof, ProofGroup
from placesim.inspection.explaining.releases import ReleaseDifference
from placesim.inspection.explaining.trials import Trial
from placesim.inspection.short_device_names import short_device
from placesim.inspection.snapshot import PlacedNode, ReportedError, failure_of
from placesim.machine.device_names import parse_runtime_name
from placesim.placement.function_bodies import CalledBody, Instantiation
from placesim.prediction.node_costs import DeviceCost, InputTransfer, NodeCostEstimate
from placesim.report.text.amounts import readable_seconds
from placesim.report.text.tables import TableSpec

MAX_LISTED = 8
"""Maximum members, merges or candidates in the text, followed by the count of the rest; JSON has all."""
LEAST_SHOWN = 1e-8
"""Minimum seconds that are shown exactly; shorter times are negligible beside a kernel launch."""
_WIDTH = 16


# --- text -----------------------------------------------------------------------------------------------------------


def format_explained(explained: ExplainedNode, limit: int = MAX_LISTED) -> StyledText:
    """Return the text of one node: its device, the parts of the proof, then at most `limit` edits."""
    found = explained.proof
    lines = [StyledText(_head(found), "" if found.location is None else fill_template(" at {}", place(found.location)))]
    for title, texts in chain(_parts(found), _cost_parts(explained), _release_parts(explained)):
        lines += [_row("" if index else title, text) for index, text in enumerate(texts)]
    if explained.alternatives is not None:
        lines += _format_alternatives("what would change this", explained.alternatives, found.device, limit)
    return _ended(lines)


def _head(found: Proof | PlacedNode) -> StyledText:
    """Return the node's line as in the log."""
    name = found.node if isinstance(found, Proof) else found.name
    node = StyledText(f"{name}: ({escape_line(found.op)}):", role=Role.NODE)
    return StyledText(node, " ", device(found.device) if found.device else "not placed")


def _ended(lines: Sequence[str]) -> StyledText:
    return StyledText(join_texts("\n", lines), "\n")


def _row(title: str, text: str) -> StyledText:
    return StyledText("  ", StyledText(f"{title:<{_WIDTH}}", role=Role.TERM), text)


def _parts(found: Proof) -> Iterator[tuple[str, list[str]]]:
    yield "part of", list(_surroundings(found))
    yield "requested", [StyledText(device(found.requested), _by(found.origins)) if found.requested else "nothing"]
    if found.gradient_of is not None:
        name, location = found.gradient_of
        yield (
            "gradient of",
            [
                StyledText(
                    StyledText(escape_line(name), role=Role.NODE), fill_template(" at {}", place(location)) if location else ""
                )
            ],
        )
    yield "kernels", [_kernels(support) for support in found.kernels]
    yield "group", list(_group(found.group, found.node))
    held = found.held_to
    if found.group is not None:
        yield (
            "limited to",
            [fill_template("{} {}", what, device(spec)) for what, spec in held._asdict().items() if spec] or ["nothing"],
        )
        yield "", [f"device types with kernels for the whole group: {', '.join(found.types)}"]
    elif held.assigned:
        yield "assigned", [device(held.assigned)]
    if found.overridden is not None:
        lost = found.overridden
        sentence = "the request {} was overridden by {}, the device of {}, which is read by reference (5.6)"
        yield "overridden", [fill_template(sentence, lost.ignored, lost.taken, lost.source)]
    yield "ignored", [fill_template("label loc:@{}: {}", label, quote(why)) for label, why in found.ignored_labels]
    yield "soft placement", list(found.soft_steps)
    if found.rule not in ("argument", "result"):
        yield "candidates", [list_words([short_device(name) for name in found.candidates], MAX_LISTED) or "none"]
    yield "chosen", [found.choice]


def _surroundings(found: Proof) -> Iterator[str]:
    """Yield sentences about a node's function body, and about the node that lowering replaced by this node."""
    if found.body is not None:
        sentence = "function {}, called by {} ({}) on {}"
        body = found.body
        yield fill_template(sentence, escape_line(body.function), body.call, escape_line(body.op), short_device(body.device))
    if found.lowered_from:
        yield fill_template("the lowered form of {}", found.lowered_from.removesuffix("/"))


def _by(origins: Sequence[Annotation]) -> str:
    located = [origin for origin in origins if origin.location is not None]
    places = [
        StyledText("the scope at " if origin.kind == AnnotationKind.SCOPE else "", place(origin.location)) for origin in located
    ]
    return fill_template(" by {}", join_texts(" and ", places)) if places else ""


def _kernels(support: KernelSupport) -> str:
    if support.priority is not None:
        return f"{support.device_type}: yes" + (f", priority {support.priority}" if support.priority else "")
    if not support.registered:
        return f"{support.device_type}: none for this op"
    why = "; ".join(map(str, support.exclusions)) or "no single attr rules them out"
    return f"{support.device_type}: none for these attrs: {why}"


def _chain_first(group: ProofGroup, name: str) -> Sequence[Merge]:
    """Return the merges of a group: first those that connect a member to the first member, then the others."""
    near = grouped((end, merge) for merge in group.merges for end in (merge.node, merge.other))
    via: dict[str, Merge | None] = {group.members[0]: None}
    for member in (reached := [group.members[0]]):
        for merge in near.get(member, ()):
            other = merge.other if merge.node == member else merge.node
            if other not in via:
                via[other] = merge
                reached.append(other)
    links: list[Merge] = []
    while (link := via.get(name)) is not None:
        links.append(link)
        name = link.other if link.node == name else link.node
    return list(dict.fromkeys((*links, *group.merges)))


def _group(group: ProofGroup | None, name: str) -> Iterator[str]:
    if group is None:
        yield "alone"
        return
    yield f"{len(group.members)} nodes: {list_words(group.members, MAX_LISTED)}"
    merges = group.merges if len(group.merges) <= MAX_LISTED else _chain_first(group, name)
    for merge in merges[:MAX_LISTED]:
        yield StyledText(merge.text, "" if merge.location is None else fill_template(" ({})", place(merge.location)))
    if len(group.merges) > MAX_LISTED:
        yield f"{len(group.merges) - MAX_LISTED} more merges"


def _release_parts(explained: ExplainedNode) -> Iterator[tuple[str, list[str]]]:
    found = explained.difference
    if found is None:
        return
    lines: list[str] = [fill_template("{}: {}", short_device(name), sentence) for sentence, name in found.rules]
    if found.kernels is not None:
        lines.append(f"kernels: {', '.join(found.kernels) or 'none'}")
    yield f"in {found.release}", lines


# --- costs ----------------------------------------------------------------------------------------------------------


def _cost_parts(explained: ExplainedNode) -> Iterator[tuple[str, list[str]]]:
    found = explained.cost
    if found is None:
        yield "cost", [explained.cost_note] if explained.cost_note else []
        return
    unknown = dict(found.unknown)
    yield "cost", list(_cost_here(found)) if found.here is not None else [f"Unavailable: {why}" for why in unknown.values()][:1]
    others = list(_costs_elsewhere(found.elsewhere))
    others += [
        fill_template("{}: unavailable: {}", short_device(name), why)
        for name, why in unknown.items()
        if name != explained.proof.device
    ]
    yield "elsewhere", others[:MAX_LISTED] + ([f"{len(others) - MAX_LISTED} more"] if len(others) > MAX_LISTED else [])


def _cost_here(found: NodeCostEstimate) -> Iterator[str]:
    here = found.here
    assert here is not None
    runs = "" if found.runs == 1 else f", total of {found.runs} runs"
    yield fill_template("{} on {} in step {}{}{}", _taken(here), short_device(here.device), found.step, runs, _bound(here))
    if here.family:
        parts = (
            f"{_part(here.compute)} for {found.operations:,} operations",
            f"{_part(here.memory)} for {found.bytes:,} bytes",
            f"start {readable_seconds(here.launch)}",
        )
        on_host = (
            f"; before it, the launch on the host takes another {readable_seconds(here.launch_on_host)}"
            if here.launch_on_host
            else ""
        )
        yield f"{here.family} kernel on {here.processor}: {', '.join(parts)}{on_host}"
    elif found.calls:
        yield "nodes of the functions it calls are counted separately"
    if here.transfers:
        inputs = [
            fill_template("{} ({} bytes from {})", t.tensor, f"{t.bytes:,}", short_device(t.sender)) for t in here.transfers
        ]
        yield fill_template(
            "inputs from other devices {}: {}", readable_seconds(here.transfer_seconds), list_words(inputs, MAX_LISTED)
        )


def _costs_elsewhere(costs: Sequence[DeviceCost]) -> Iterator[str]:
    """Yield the costs on other devices; devices with equal costs share a line."""
    alike = grouped(((cost.processor, cost.seconds, cost.transfer_seconds), cost) for cost in costs)
    for same in alike.values():
        names = list_words([short_device(cost.device) for cost in same], MAX_LISTED)
        inputs = f", inputs {readable_seconds(same[0].transfer_seconds)}" if same[0].transfers else ""
        yield fill_template("{}: {}{}{}", names, _taken(same[0]), _bound(same[0]), inputs)


def _taken(cost: DeviceCost) -> str:
    if not cost.family:
        return f"dispatch only ({readable_seconds(cost.launch + cost.launch_on_host)})"
    mark = "?" if cost.is_uncertain else ""
    low, high = (readable_seconds(seconds) for seconds in (cost.low, cost.high))
    return f"{readable_seconds(cost.seconds)}{mark} ({low} to {high})"


def _bound(cost: DeviceCost) -> str:
    return f", bound by {cost.bound_text}" if cost.family else ""


def _part(seconds: float) -> str:
    return readable_seconds(seconds) if seconds >= LEAST_SHOWN else f"less than {readable_seconds(LEAST_SHOWN)}"


def _format_alternatives(title: str, found: Alternatives, before: str | None, limit: int) -> list[StyledText]:
    lines = [StyledText(f"  {title}", role=Role.HEAD)]
    lines += [StyledText("    ", trial_text(trial, before)) for trial in found.outcomes[:limit]]
    if not found.outcomes:
        lines.append(
            StyledText("    none of the edits tried would change it; `--device NAME=DEVICE` requests a device for a node")
        )
    if len(found.outcomes) > limit:
        lines.append(StyledText(f"    {len(found.outcomes) - limit} more (see --edits)"))
    if found.untried:
        lines.append(StyledText(f"    {found.untried} more edits not tried: the graph is large"))
    return lines


def trial_text(trial: Trial, before: str | None) -> StyledText:
    """Return an edit as an instruction with its location and result; `before` is the device without the edit."""
    led_to = f"the node is then on {short_device(trial.device)}" if trial.device else "the graph can then be placed"
    if trial.error is not None:
        led_to = f"{trial.error.node or 'the graph'} then cannot be placed"
    others = max(0, trial.moved - 1)
    moved = f", and {others} other {'node moves' if others == 1 else 'nodes move'}" if before is not None and others else ""
    return fill_template("{}{}; {}{}", _at(trial.edit.location), trial.edit.text, led_to, moved)


def format_error_explained(explained: ExplainedError, limit: int = MAX_LISTED) -> StyledText:
    """Return the error's first line, the conflicting annotations, and the edits that would resolve the error."""
    lines = [explained.failure.summary]
    conflict = explained.conflict
    if conflict is not None and conflict.annotations:
        found = conflict.annotations
        one = "this annotation" if len(found) == 1 else f"these {len(found)} annotations"
        lines.append(
            StyledText(
                f"  {one} cannot be satisfied{'' if conflict.is_minimal else ' (search incomplete: the graph is large)'}"
            )
        )
        lines += [fill_template("    {}{}", _at(annotation.location), annotation) for annotation in found[:limit]]
        if len(found) > limit:
            lines.append(StyledText(f"    {len(found) - limit} more"))
    elif conflict is not None:
        lines.append(StyledText("  not caused by annotations: removing all of them does not help"))
    if explained.remedies is not None:
        lines += _format_alternatives("possible fixes", explained.remedies, None, limit)
    return _ended(lines)


def _at(location: Location | None) -> str:
    return fill_template("{}: ", place(location)) if location is not None else ""


def format_brief(found: Proof) -> StyledText:
    """Return one line for a node: its line in the log, and the reason."""
    return StyledText(_head(found), ": ", brief_reason(found), "\n")


def brief_reason(found: Proof) -> str:
    """Return the reason in a few words."""
    if found.rule not in ("default", "none"):
        return found.choice
    if found.overridden is not None:
        return fill_template(
            "its request {} was overridden by the device of {}", found.overridden.ignored, found.overridden.source
        )
    if found.soft_steps:
        return fill_template("soft placement: {} is not available", device(found.requested or found.held_to.requested))
    if found.requested:
        return StyledText("requested ", device(found.requested), _by(found.origins))
    if found.held_to.requested:
        return fill_template("its group is limited to {}", device(found.held_to.requested))
    excluded = [support.device_type for support in found.kernels if support.priority is None]
    if excluded:
        return f"the first device with a kernel; none for {', '.join(excluded)}"
    return "the preferred device"


def format_recorded(node: PlacedNode) -> StyledText:
    """Return the text of a node from a written report, which has no reasons."""
    spec, placed_on = parse_runtime_name(node.requested), parse_runtime_name(node.device)
    lost = spec is not None and placed_on is not None and not spec.matches(placed_on)
    asked = device(node.requested) if node.requested else "no device"
    return _ended([_head(node), _row("requested", StyledText(asked, ", not satisfied" if lost else ""))])


# --- JSON -----------------------------------------------------------------------------------------------------------


def explained_document(nodes: Sequence[ExplainedNode], error: ExplainedError | None) -> dict[str, Any]:
    """Return the JSON object: `nodes`, their `groups` (each once, by number) and the `error`. Rows are generated one by one."""
    groups: dict[int, tuple[int, ProofGroup]] = {}
    for node in nodes:
        group = node.proof.group
        if group is not None:
            groups.setdefault(id(group), (len(groups), group))
    return {
        "nodes": (_node_document(node, groups) for node in nodes),
        "groups": (_plain(group) for _, group in groups.values()),
        "error": None if error is None else _error_document(error),
    }


TABLES = (
    TableSpec(
        "nodes",
        ("nodes",),
        (
            *("node", "op", "device", "requested", "reason", "location", "group"),
            *("cost.runs", "cost.here.seconds", "cost.here.low", "cost.here.high"),
        ),
    ),
    TableSpec("edits", ("nodes", "edits"), ("node", "edit", "location", "reach", "device", "moved", "next_error.message")),
    TableSpec("elsewhere", ("nodes", "cost", "elsewhere"), ("node", "device", "seconds", "low", "high", "transfer_seconds")),
    TableSpec("kernels", ("nodes", "kernels"), ("node", "type", "priority", "excluded_by")),
)
"""Tables of the JSON object."""


def _node_document(explained: ExplainedNode, groups: Mapping[int, tuple[int, ProofGroup]]) -> dict[str, Any]:
    group = explained.proof.group
    number = None if group is None else groups[id(group)][0]
    cost = {"cost": _plain(explained.cost), "cost_note": explained.cost_note or None}
    other = {} if explained.difference is None else {"other_release": _release_document(explained.difference)}
    return {**_plain(explained.proof), "group": number, **cost, **other, **_edits_document(explained.alternatives)}


def _release_document(found: ReleaseDifference) -> dict[str, Any]:
    rules = [{"rule": sentence, "device": name} for sentence, name in found.rules]
    return {"release": found.release, "rules": rules, "kernels": None if found.kernels is None else list(found.kernels)}


def _error_document(error: ExplainedError) -> dict[str, Any]:
    conflict = error.conflict
    return {
        **_plain(error.failure),
        "conflict": None if conflict is None else _plain(conflict.annotations),
        "conflict_is_minimal": conflict is not None and conflict.is_minimal,
        **_edits_document(error.remedies),
    }


def _edits_document(found: Alternatives | None) -> dict[str, Any]:
    return {"edits": _plain(found and found.outcomes), "untried_edits": 0 if found is None else found.untried}


def _same(*names: str) -> dict[str, Callable[[Any], Any]]:
    return {name: attrgetter(name) for name in names}


_READINGS: Mapping[type, Mapping[str, Callable[[Any], Any]]] = {
    Proof: _same("node", "op", "location", "device", "body", "lowered_from")
    | {"reason": brief_reason}
    | _same("requested", "origins", "kernels")
    | {"group": lambda proof: None}  # `_node_document` adds the group's number
    | _same("held_to", "types", "overridden", "ignored_labels", "soft_steps", "candidates", "rule", "followed"),
    CalledBody: {"path": attrgetter("path")}
    | _same("function", "call", "op", "device")
    | {"on_one_device": lambda body: body.how is Instantiation.SINGLE_DEVICE},
    Annotation: _same("kind", "text", "node", "location"),
    KernelSupport: {"type": attrgetter("device_type")}
    | _same("priority", "registered")
    | {"excluded_by": attrgetter("exclusions")},
    ProofGroup: _same("members", "merges"),
    Merge: _same("node", "other", "cause", "detail", "location"),
    GroupBounds: _same(*GroupBounds._fields),
    LostRequest: _same(*LostRequest._fields),
    IgnoredLabelProof: _same(*IgnoredLabelProof._fields),
    ReportedError: _same(*ReportedError._fields),
    NodeCostEstimate: _same("step", "runs", "operations", "bytes", "calls", "here", "elsewhere")
    | {"unknown": lambda cost: [{"device": device, "why": why} for device, why in cost.unknown]},
    DeviceCost: _same(*DeviceCost._fields) | _same("transfer_seconds"),
    InputTransfer: _same(*InputTransfer._fields),
    Trial: {"edit": attrgetter("edit.text")}
    | {"location": attrgetter("edit.location"), "reach": attrgetter("edit.reach")}
    | _same("device", "moved")
    | {"next_error": lambda trial: trial.error and failure_of(trial.error)},
}
"""The keys of each record's JSON object, in order, with the functions that read their values."""


def _plain(value: Any) -> Any:
    """Return plain values: records as objects, tuples as lists, and locations, types and enumeration members as text."""
    if value is None or isinstance(value, str):
        return value
    readings = _READINGS.get(type(value))
    if readings is not None:
        return {key: _plain(read(value)) for key, read in readings.items()}
    if isinstance(value, Enum):
        return value.name.lower()
    if isinstance(value, (Location, Exclusion)):
        return str(value)
    return [_plain(part) for part in value] if isinstance(value, tuple) else value


def recorded_document(nodes: Sequence[PlacedNode], failure: ReportedError | None) -> dict[str, Any]:
    """Return the JSON object for the nodes of a written report; rows are generated one by one."""
    rows = ({"node": n.name, "op": n.op, "device": n.device, "requested": n.requested} for n in nodes)
    return {"nodes": rows, "groups": [], "error": _plain(failure)}
