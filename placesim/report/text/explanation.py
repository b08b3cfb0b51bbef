"""Explanations -> text and JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from placesim.devices.names import parse_runtime_name
from placesim.errors import Location
from placesim.inspection.explaining.alternatives import Alternatives
from placesim.inspection.explaining.annotations import Annotation, Kind
from placesim.inspection.explaining.inquiry import ExplainedError, ExplainedNode
from placesim.inspection.explaining.kernel_support import KernelSupport
from placesim.inspection.explaining.proof import Explanation, Group
from placesim.inspection.snapshot import Failure, PlacedNode, failure_of

MAX_LISTED = 8
"""A text lists so many members, merges or candidates, and counts the rest; JSON has all."""
_WIDTH = 13


# --- text -----------------------------------------------------------------------------------------------------------


def format_explained(explained: ExplainedNode, limit: int = MAX_LISTED) -> str:
    """One node: a line that says where it is, then a line for each part of the proof, then the edits."""
    found = explained.explanation
    place = f" at {found.location}" if found.location is not None else ""
    lines = [f"{found.node}: ({found.op}): {found.device or 'not placed'}{place}"]
    lines += [_row(title, text) for title, texts in _parts(found) for title, text in _titled(title, texts)]
    if explained.alternatives is not None:
        lines += _format_alternatives("what would change it", explained.alternatives, found.device, limit)
    return "\n".join(lines) + "\n"


def _titled(title: str, texts: Sequence[str]) -> Iterator[tuple[str, str]]:
    """The title beside the first line only."""
    return ((title if not index else "", text) for index, text in enumerate(texts))


def _row(title: str, text: str) -> str:
    return f"  {title:<{_WIDTH}}{text}"


def _parts(found: Explanation) -> Iterator[tuple[str, list[str]]]:
    yield "requested", [_requested(found)]
    yield "kernels", [_kernels(support) for support in found.kernels]
    yield "group", list(_group(found.group))
    if found.group is not None:
        held = {"requested": found.group_requested, "resource": found.resource, "assigned": found.assigned}
        yield "held to", [f"{what} {device}" for what, device in held.items() if device] or ["nothing"]
        yield "", [f"device types that all of it has kernels for: {', '.join(found.types)}"]
    elif found.assigned:
        yield "assigned", [found.assigned]
    if found.overridden is not None:
        lost = found.overridden
        yield "overridden", [f"the request {lost.ignored} lost against {lost.taken}: {lost.source} is read by reference (5.6)"]
    yield "ignored", [f"the label loc:@{label}: {sentence}" for label, sentence in found.ignored_labels]
    yield "soft steps", list(found.soft_steps)
    yield "candidates", [_listed([short_device(device) for device in found.candidates]) or "none"]
    yield "chosen", [found.choice]


def _requested(found: Explanation) -> str:
    if not found.requested:
        return "nothing"
    return f"{found.requested}{_by(found.origins)}"


def _by(origins: Sequence[Annotation]) -> str:
    located = [origin for origin in origins if origin.location is not None]
    places = [f"{'the scope at ' if origin.kind == Kind.SCOPE else ''}{origin.location}" for origin in located]
    return f" by {' and '.join(places)}" if places else ""


def _kernels(support: KernelSupport) -> str:
    if support.priority is not None:
        return f"{support.device_type}: yes" + (f", priority {support.priority}" if support.priority else "")
    if not support.registered:
        return f"{support.device_type}: none for this op"
    why = "; ".join(map(str, support.exclusions)) or "no single attr excludes them"
    return f"{support.device_type}: none for these types: {why}"


def _group(group: Group | None) -> Iterator[str]:
    if group is None:
        yield "alone"
        return
    yield f"{len(group.members)} nodes: {_listed(group.members)}"
    for merge in group.merges[:MAX_LISTED]:
        yield merge.text + (f" ({merge.location})" if merge.location is not None else "")
    if len(group.merges) > MAX_LISTED:
        yield f"and {len(group.merges) - MAX_LISTED} more merges"


def _format_alternatives(title: str, found: Alternatives, before: str | None, limit: int) -> list[str]:
    lines = [f"  {title}"]
    for outcome in found.outcomes[:limit]:
        place = f"{outcome.edit.location}: " if outcome.edit.location is not None else ""
        device = short_device(outcome.device) if outcome.device else "placed"
        if outcome.error is not None:
            device = f"then {outcome.error.node or 'the graph'} can't be placed"
        others = max(0, outcome.moved - 1)
        moved = f", with {others} other node{'s' * (others != 1)}" if before is not None and others else ""
        lines.append(f"    {place}{outcome.edit.text} -> {device}{moved}")
    if not found.outcomes:
        lines.append("    no single edit that was tried")
    if len(found.outcomes) > limit:
        lines.append(f"    and {len(found.outcomes) - limit} more (--edits)")
    if found.untried:
        lines.append(f"    {found.untried} more edits were not tried: the graph is large")
    return lines


def format_error_explained(explained: ExplainedError, limit: int = MAX_LISTED) -> str:
    """The error's first line, the annotations in conflict, and the edits that mend it."""
    lines = [explained.failure.summary]
    conflict = explained.conflict
    if conflict is not None and conflict.annotations:
        found = conflict.annotations
        one = "this annotation alone is" if len(found) == 1 else f"these {len(found)} annotations are"
        lines.append(f"  {one} in conflict{'' if conflict.is_minimal else ' (not all was tried: the graph is large)'}")
        lines += [f"    {_place(annotation.location)}{annotation}" for annotation in found[:limit]]
        if len(found) > limit:
            lines.append(f"    and {len(found) - limit} more")
    elif conflict is not None:
        lines.append("  no annotation is to blame: without any of them it can't be placed either")
    if explained.remedies is not None:
        lines += _format_alternatives("what would mend it", explained.remedies, None, limit)
    return "\n".join(lines) + "\n"


def _place(location: Location | None) -> str:
    return f"{location}: " if location is not None else ""


def format_brief(found: Explanation) -> str:
    """One node in one line: the log's line, and why."""
    return f"{found.node}: ({found.op}): {found.device or 'not placed'}: {brief_reason(found)}\n"


def brief_reason(found: Explanation) -> str:
    """Why, in some words."""
    if found.rule not in ("default", "none"):
        return found.choice
    if found.overridden is not None:
        return f"its request {found.overridden.ignored} lost against {found.overridden.source}"
    if found.soft_steps:
        return f"soft placement: {found.requested or found.group_requested} can't be had"
    if found.requested:
        return f"requested {found.requested}{_by(found.origins)}"
    if found.group_requested:
        return f"its group is held to {found.group_requested}"
    excluded = [support.device_type for support in found.kernels if support.priority is None]
    if excluded:
        return f"the first device with a kernel; none for {', '.join(excluded)}"
    return "the preferred device"


def format_recorded(node: PlacedNode) -> str:
    """A node of a report, which holds no reasons."""
    asked = f"requested {node.requested}" if node.requested else "nothing was requested"
    spec = parse_runtime_name(node.requested)
    device = parse_runtime_name(node.device)
    lost = spec is not None and device is not None and not spec.matches(device)
    note = ", which it did not get" if lost else ""
    return f"{node.name}: ({node.op}): {node.device}\n" + _row("requested", asked.removeprefix("requested ") + note) + "\n"


def short_device(name: str) -> str:
    """`GPU:0` for a device of a single machine; any other in full."""
    return name.removeprefix("/job:localhost/replica:0/task:0/device:")


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - MAX_LISTED} more" if len(names) > MAX_LISTED else ""
    return ", ".join(names[:MAX_LISTED]) + more


# --- JSON -----------------------------------------------------------------------------------------------------------


def explained_document(nodes: Sequence[ExplainedNode], error: ExplainedError | None) -> dict[str, Any]:
    """`nodes`, the `groups` that they are in (each once, by number), and the `error`."""
    numbers: dict[int, int] = {}
    groups: list[Group] = []
    for node in nodes:
        group = node.explanation.group
        if group is not None and id(group) not in numbers:
            numbers[id(group)] = len(groups)
            groups.append(group)
    return {
        "nodes": [_node_document(node, numbers) for node in nodes],
        "groups": [_group_document(group) for group in groups],
        "error": None if error is None else _error_document(error),
    }


def _node_document(explained: ExplainedNode, numbers: dict[int, int]) -> dict[str, Any]:
    found = explained.explanation
    return {
        "node": found.node,
        "op": found.op,
        "location": _text(found.location),
        "device": found.device,
        "reason": brief_reason(found),
        "requested": found.requested,
        "origins": [_annotation_document(origin) for origin in found.origins],
        "kernels": [_kernel_document(support) for support in found.kernels],
        "group": None if found.group is None else numbers[id(found.group)],
        "held_to": {"requested": found.group_requested, "resource": found.resource, "assigned": found.assigned},
        "types": list(found.types),
        "overridden": None
        if found.overridden is None
        else {"source": found.overridden.source, "ignored": found.overridden.ignored, "taken": found.overridden.taken},
        "ignored_labels": [{"label": label, "why": sentence} for label, sentence in found.ignored_labels],
        "soft_steps": list(found.soft_steps),
        "candidates": list(found.candidates),
        "rule": found.rule,
        "followed": found.followed,
        "edits": None if explained.alternatives is None else _alternatives_document(explained.alternatives),
        "untried_edits": 0 if explained.alternatives is None else explained.alternatives.untried,
    }


def _kernel_document(support: KernelSupport) -> dict[str, Any]:
    return {
        "type": support.device_type,
        "priority": support.priority,
        "registered": support.registered,
        "excluded_by": [str(exclusion) for exclusion in support.exclusions],
    }


def _group_document(group: Group) -> dict[str, Any]:
    return {
        "members": list(group.members),
        "merges": [
            {"node": m.node, "other": m.other, "cause": m.cause, "detail": m.detail, "location": _text(m.location)}
            for m in group.merges
        ],
    }


def _error_document(error: ExplainedError) -> dict[str, Any]:
    return {
        **error.failure._asdict(),
        "conflict": None if error.conflict is None else [_annotation_document(a) for a in error.conflict.annotations],
        "conflict_is_minimal": error.conflict is not None and error.conflict.is_minimal,
        "edits": None if error.remedies is None else _alternatives_document(error.remedies),
        "untried_edits": 0 if error.remedies is None else error.remedies.untried,
    }


def _annotation_document(annotation: Annotation) -> dict[str, Any]:
    return {
        "kind": annotation.kind.name.lower(),
        "text": annotation.text,
        "node": annotation.node,
        "location": _text(annotation.location),
    }


def _alternatives_document(found: Alternatives) -> list[dict[str, Any]]:
    return [
        {
            "edit": outcome.edit.text,
            "location": _text(outcome.edit.location),
            "reach": outcome.edit.reach.name.lower(),
            "device": outcome.device,
            "moved": outcome.moved,
            "next_error": None if outcome.error is None else failure_of(outcome.error)._asdict(),
        }
        for outcome in found.outcomes
    ]


def _text(location: Location | None) -> str | None:
    return None if location is None else str(location)


def recorded_document(nodes: Sequence[PlacedNode], failure: Failure | None) -> dict[str, Any]:
    """What a written report says of nodes."""
    rows = [{"node": n.name, "op": n.op, "device": n.device, "requested": n.requested} for n in nodes]
    return {"nodes": rows, "groups": [], "error": None if failure is None else failure._asdict()}
