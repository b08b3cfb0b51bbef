"""Short paragraphs of a placement proof for the page, from the request to the choice and the cost.

Nodes with equal reasons share equal paragraphs, so that the proofs of a large graph stay small.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from placesim.core.escaping import escape_line
from placesim.core.styled_text import list_words
from placesim.graph.graph import Node, Signature
from placesim.inspection.byte_amounts import readable_seconds
from placesim.inspection.explaining.annotations import AnnotationKind
from placesim.inspection.explaining.kernel_support import KernelSupport
from placesim.inspection.explaining.proof import Proof, Proofs, proofs_of, proofs_of_body
from placesim.inspection.short_device_names import short_names
from placesim.inspection.snapshot import SimulationState
from placesim.machine.device_names import ANY
from placesim.placement.colocation import Cause, Union
from placesim.placement.constraints import SoftStep, SupportedTypes
from placesim.placement.reasons import DeviceChoice, Reason

if TYPE_CHECKING:
    from placesim.prediction.node_costs import DeviceCost, NodeCostEstimate, NodeCosts

MAX_SHOWN = 8
"""Maximum number of items of a list that are shown; of the other items, only the number is shown."""

NODE = "\N{OBJECT REPLACEMENT CHARACTER}"
"""Placeholder of a node in a paragraph's text."""

_CHOICES = {
    DeviceChoice.DEFAULT: "The first candidate.",
    DeviceChoice.ASSIGNED: "It was placed before; stateful ops keep their device.",
    DeviceChoice.GENERATOR_FOLLOWS_CONSUMERS: "It has no inputs, and all its consumers are on this device, so it follows them.",
    DeviceChoice.METADATA_FOLLOWS_INPUT: "It reads only the shape of its input, so it follows the input.",
    DeviceChoice.IDENTITY_FOLLOWS_INPUT: "It passes its one input to one consumer, so it follows the input.",
}
_SOFT_STEPS = {
    SoftStep.WITHOUT_TYPE_AND_ID: "No requested device can run it: the requested type and number were dropped.",
    SoftStep.WITHOUT_RESOURCE: "No device of the request or the resource can run it: both were dropped; the resource moves.",
}


class Paragraph(NamedTuple):
    """A step of a proof: its topic, and a sentence. The NODE placeholders in the sentence stand for `nodes` (ids), in order."""

    term: str
    text: str
    nodes: tuple[int, ...] = ()


class Paragraphs:
    """The paragraphs for all nodes. Ids count first the nodes of the newest placement, and then the nodes of called bodies.

    Raises ValueError without a placement. With `costs`, the last paragraph of an executed node is its cost.
    """

    def __init__(self, live: SimulationState, costs: NodeCosts | None = None) -> None:
        self._costs = costs
        self._proofs = proofs_of(live)
        self._ends: list[tuple[int, Proofs]] = []
        for proofs in (self._proofs, *(proofs_of_body(b) for b in live.bodies.bodies if b.placed is not None)):
            start = self._ends[-1][0] if self._ends else 0
            self._ends.append((start + len(proofs.graph), proofs))
        devices = self._proofs.placement.device_set.devices
        self._short = dict(zip(devices, short_names([device.name for device in devices]), strict=True))
        self._kernels: dict[Signature, Paragraph] = {}

    def of(self, node_id: int) -> tuple[Paragraph, ...]:
        """Return the steps that led to a node's device; after an error, only the known steps."""
        end, proofs = next(found for found in self._ends if node_id < found[0])
        start = end - len(proofs.graph)
        try:
            proof = proofs.of(node_id - start)
        except KeyError:
            return (Paragraph("Not placed", "Placement failed before its constraints were known."),)
        made = self._paragraphs(proofs.graph.nodes[node_id - start], proof)
        return tuple(p._replace(nodes=tuple(start + i for i in p.nodes)) if start and p.nodes else p for p in made)

    def _paragraphs(self, node: Node, proof: Proof) -> Iterator[Paragraph]:
        reason, body = proof.reason, proof.body
        if body is not None:
            where = self._short_of(body.device)
            function, op = escape_line(body.function), escape_line(body.op)
            yield Paragraph("Part of", f"Function {function}, called by {body.call} ({op}) on {where}.")
        elif proof.lowered_from:
            yield Paragraph("Part of", f"The lowered form of {proof.lowered_from.removesuffix('/')}.")
        yield Paragraph("Requested", _requested(proof))
        yield self._kernels.get(node.signature) or self._kernels.setdefault(node.signature, _kernel_paragraph(proof))
        if reason.members:
            yield from _group(node.id, reason)
        if reason.overridden is not None:
            lost = reason.overridden
            text = f"Its request {lost.ignored} was overridden by its reference to {NODE}, which requests {lost.taken}."
            yield Paragraph("Overridden", text, (lost.source,))
        for label in reason.ignored:
            sentence = label.conflict.reason or "no device type can run both groups"
            yield Paragraph("Ignored label", f"Soft placement ignored loc:@{label.label}: {sentence}.")
        if reason.soft_step:
            yield Paragraph("Soft placement", _SOFT_STEPS[reason.soft_step])
        if reason.candidates:
            yield Paragraph("Candidates", list_words([self._short[device] for device in reason.candidates], MAX_SHOWN))
        yield self._choice(reason) if body is None else self._choice_in_body(proof)
        is_told = self._costs is not None and reason.device is not None and body is None
        cost = self._costs.of(node.name, ()) if is_told and self._costs is not None else None
        if cost is not None and cost.here is not None:
            yield Paragraph("Cost", _cost(cost, cost.here))

    def _short_of(self, name: str) -> str:
        return next(short for device, short in self._short.items() if device.name == name)

    def _choice_in_body(self, proof: Proof) -> Paragraph:
        """Return the paragraph about the choice of a device in a body, which has additional rules."""
        if proof.rule not in ("argument", "result", "whole", "caller"):
            return self._choice(proof.reason)
        return Paragraph("Chosen", f"{self._short_of(proof.device or '')}. {proof.choice}.")

    def _choice(self, reason: Reason) -> Paragraph:
        if reason.device is None:
            return Paragraph("Not placed", "Placement failed before a device was chosen for it.")
        device = self._short[reason.device]
        if reason.followed is None or reason.choice != DeviceChoice.DEFAULT:
            text = "The only candidate." if len(reason.candidates) == 1 and not reason.choice else _CHOICES[reason.choice]
            return Paragraph("Chosen", f"{device}. {text}")
        return Paragraph("Chosen", f"{device}. Its group follows {NODE}, which was placed first.", (reason.followed,))


def _requested(proof: Proof) -> str:
    requested = proof.reason.requested
    if requested == ANY:
        return "No device."
    places = [
        f"the scope at {origin.location}" if origin.kind == AnnotationKind.SCOPE else "its own entry"
        for origin in proof.origins
    ]
    return f"{requested}" + (f", by {' and '.join(places)}" if places else "")


def _kernel_paragraph(proof: Proof) -> Paragraph:
    fit = ", ".join(support.device_type for support in proof.kernels if support.priority is not None)
    missing = "".join(f" {_missing(support)}" for support in proof.kernels if support.priority is None)
    return Paragraph("Kernels", f"{proof.op} has kernels for {fit or 'no device type here'}.{missing}")


def _missing(support: KernelSupport) -> str:
    if not support.registered:
        return f"{support.device_type} has none."
    causes = "; ".join(map(str, support.exclusions)) or "none accepts these types"
    return f"{support.device_type} has none that matches: {causes}."


def _cost(cost: NodeCostEstimate, here: DeviceCost) -> str:
    when = f"per run of step {cost.step}"
    if not here.family:
        return f"Dispatch only, {when}."
    interval = f"{readable_seconds(here.low)} to {readable_seconds(here.high)}"
    runs = "" if cost.runs == 1 else f", total of {cost.runs} runs"
    inputs = f" Inputs from other devices take {readable_seconds(here.transfer_seconds)}." if here.transfers else ""
    host = " Its processor is assumed." if here.is_uncertain else ""
    return f"{readable_seconds(here.seconds)} ({interval}) {when}{runs}, bound by {here.bound_text}.{host}{inputs}"


# --- groups ---------------------------------------------------------------------------------------------------------


def _group(node_id: int, reason: Reason) -> Iterator[Paragraph]:
    others = tuple(member for member in reason.members if member != node_id)
    named = list_words([NODE] * len(others), MAX_SHOWN)
    yield Paragraph("Group", f"{len(reason.members)} ops must share a device: this one, {named}", others[:MAX_SHOWN])
    near = [union for union in reason.unions if node_id in (union.x, union.y)]
    shown = near[:MAX_SHOWN] or list(reason.unions[:1])
    for union in shown:
        yield _merge(union)
    if len(reason.unions) > len(shown):
        yield Paragraph("Joined by", f"{len(reason.unions) - len(shown)} more merges in the group.")
    held = [
        f"{word} {spec}"
        for word, spec in (
            ("requested", reason.group_requested),
            ("resource on", reason.group_resource),
            ("assigned", reason.group_assigned),
        )
        if spec != ANY
    ]
    types = f"runs on {_types(reason.types)}"
    yield Paragraph("Group limits", "; ".join([*held, types]) + ".")


def _merge(union: Union) -> Paragraph:
    causes = {
        Cause.EDGE: f"{NODE} → {NODE}, a reference or a resource (input {union.detail}).",
        Cause.LABEL: f"{NODE} and {NODE}, by the label loc:@{union.detail}.",
        Cause.FUNCTION: f"{NODE} and {NODE}, through the call {union.detail}.",
    }
    return Paragraph("Joined by", causes[union.cause], (union.x, union.y))


def _types(types: SupportedTypes) -> str:
    return ", ".join(device_type for device_type, _ in types)
