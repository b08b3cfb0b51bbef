"""The reasons of a placement -> a proof of each node's device in a few short paragraphs, from the request to the choice.

Nodes alike in what decided them get equal paragraphs: kept once each, the proofs of a large graph take little room.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from placesim.devices.inventory import Device
from placesim.devices.names import ANY
from placesim.graph.graph import Node, Signature
from placesim.inspection.explaining.annotations import Annotations, Kind
from placesim.inspection.explaining.kernel_support import KernelSupport, kernel_support
from placesim.inspection.picturing.picture import short_names
from placesim.inspection.snapshot import Live
from placesim.placement.colocation import Cause, Union
from placesim.placement.constraints import SoftStep, SupportedTypes
from placesim.placement.reasons import Choice, Reason

MAX_SHOWN = 8
"""Of long lists this many are shown, and how many more there are."""

NODE = "\N{OBJECT REPLACEMENT CHARACTER}"
"""Where a paragraph's text names a node."""

_CHOICES = {
    Choice.DEFAULT: "The first candidate.",
    Choice.ASSIGNED: "It was placed before, and stateful ops stay where they are.",
    Choice.GENERATOR_FOLLOWS_CONSUMERS: "It has no inputs, and all that read it are on this device: it follows them.",
    Choice.METADATA_FOLLOWS_INPUT: "It only looks at its input's shape, so it follows the input.",
    Choice.IDENTITY_FOLLOWS_INPUT: "It only passes its one input on to one reader, so it follows the input.",
}
_SOFT_STEPS = {
    SoftStep.WITHOUT_TYPE_AND_ID: "No device of the request can run it: the request's type and number were given up.",
    SoftStep.WITHOUT_RESOURCE: "No device of the request or the resource can run it: both were given up, the resource moves.",
}


class Paragraph(NamedTuple):
    """One step of a proof: what it is about, and a sentence in which each NODE stands for one of `nodes`, by id."""

    term: str
    text: str
    nodes: tuple[int, ...] = ()


class Proofs:
    """The proofs of the nodes of the newest placement; ValueError where there is none."""

    def __init__(self, live: Live) -> None:
        placement = live.placement
        if placement is None:
            raise ValueError("nothing was placed")
        self._placement = placement
        self._written = live.graph
        self._annotations = Annotations(live.graph, live.is_raw)
        self._graph = placement.graph
        devices = placement.device_set.devices
        self._short = dict(zip(devices, short_names([device.name for device in devices]), strict=True))
        self._kernels: dict[Signature, Paragraph] = {}

    def proof(self, node_id: int) -> tuple[Paragraph, ...]:
        """The steps that led to a node's device; only what is known where an error came first."""
        try:
            reason = self._placement.reason(node_id)
        except KeyError:
            return (Paragraph("Not placed", "An error came before its constraints were known."),)
        return tuple(self._paragraphs(self._graph.nodes[node_id], reason))

    def _paragraphs(self, node: Node, reason: Reason) -> Iterator[Paragraph]:
        yield Paragraph("Requested", self._requested(node, reason))
        yield self._kernels.get(node.signature) or self._kernels.setdefault(node.signature, self._kernel_paragraph(node))
        if reason.members:
            yield from _group(node.id, reason)
        if reason.overridden is not None:
            lost = reason.overridden
            text = f"Its request {lost.ignored} lost against a reference to {NODE}, which is for {lost.taken}."
            yield Paragraph("Overridden", text, (lost.source,))
        for label in reason.ignored:
            sentence = label.conflict.reason or "no type of device can run both groups"
            yield Paragraph("Ignored label", f"Soft placement passed over loc:@{label.label}: {sentence}.")
        if reason.soft_step:
            yield Paragraph("Soft placement", _SOFT_STEPS[reason.soft_step])
        if reason.candidates:
            yield self._candidate_paragraph(reason.candidates)
        yield self._choice(reason)

    def _requested(self, node: Node, reason: Reason) -> str:
        written = self._written
        if reason.requested == ANY:
            return "No device."
        origins = () if node.name not in written.ids else self._annotations.origins(written.node(node.name))
        places = [f"the scope at {origin.location}" if origin.kind == Kind.SCOPE else "its own entry" for origin in origins]
        return f"{reason.requested}" + (f", by {' and '.join(places)}" if places else "")

    def _kernel_paragraph(self, node: Node) -> Paragraph:
        types = self._placement.device_set.types
        found = kernel_support(self._graph.registry, node, types)
        fit = ", ".join(support.device_type for support in found if support.priority is not None)
        missing = "".join(f" {_missing(support)}" for support in found if support.priority is None)
        return Paragraph("Kernels", f"{node.op} has kernels for {fit or 'no type of device here'}.{missing}")

    def _candidate_paragraph(self, candidates: Sequence[Device]) -> Paragraph:
        more = f" and {len(candidates) - MAX_SHOWN} more" if len(candidates) > MAX_SHOWN else ""
        return Paragraph("Candidates", ", ".join(self._short[device] for device in candidates[:MAX_SHOWN]) + more)

    def _choice(self, reason: Reason) -> Paragraph:
        if reason.device is None:
            return Paragraph("Not placed", "An error came before a device was chosen for it.")
        device = self._short[reason.device]
        if reason.followed is None or reason.choice != Choice.DEFAULT:
            text = "The only candidate." if len(reason.candidates) == 1 and not reason.choice else _CHOICES[reason.choice]
            return Paragraph("Chosen", f"{device}. {text}")
        return Paragraph("Chosen", f"{device}. Its group went where {NODE} was placed.", (reason.followed,))


def _missing(support: KernelSupport) -> str:
    if not support.registered:
        return f"{support.device_type} has none."
    causes = "; ".join(map(str, support.exclusions)) or "none takes these types"
    return f"{support.device_type} has none that fits: {causes}."


# --- groups ---------------------------------------------------------------------------------------------------------


def _group(node_id: int, reason: Reason) -> Iterator[Paragraph]:
    others = tuple(member for member in reason.members if member != node_id)
    yield Paragraph("Group", f"{len(reason.members)} ops share a device: this one, " + _places(others), others[:MAX_SHOWN])
    near = [union for union in reason.unions if node_id in (union.x, union.y)]
    shown = near[:MAX_SHOWN] or list(reason.unions[:1])
    for union in shown:
        yield _merge(union)
    if len(reason.unions) > len(shown):
        yield Paragraph("Joined by", f"{len(reason.unions) - len(shown)} merges more, of others in the group.")
    held = [
        f"{word} {spec}"
        for word, spec in (
            ("requested", reason.group_requested),
            ("its resource on", reason.group_resource),
            ("assigned", reason.group_assigned),
        )
        if spec != ANY
    ]
    types = f"runs on {_types(reason.types)}"
    yield Paragraph("Group's bounds", "; ".join([*held, types]) + ".")


def _places(nodes: Sequence[int]) -> str:
    more = f" and {len(nodes) - MAX_SHOWN} more" if len(nodes) > MAX_SHOWN else ""
    return ", ".join([NODE] * min(len(nodes), MAX_SHOWN)) + more


def _merge(union: Union) -> Paragraph:
    causes = {
        Cause.EDGE: f"{NODE} → {NODE}, a reference or a resource (input {union.detail}).",
        Cause.LABEL: f"{NODE} and {NODE}, by the label loc:@{union.detail}.",
        Cause.FUNCTION: f"{NODE} and {NODE}, through the call {union.detail}.",
    }
    return Paragraph("Joined by", causes[union.cause], (union.x, union.y))


def _types(types: SupportedTypes) -> str:
    return ", ".join(device_type for device_type, _ in types)
