"""Rules about what nodes asked for: whether soft placement or another node took it from them."""

from __future__ import annotations

from collections.abc import Iterator

from placesim.inspection.checking.rule import EXCEPT, Breach, PolicyRule, Values
from placesim.inspection.checking.subject import Subject
from placesim.inspection.device_names import short_device
from placesim.marked import device, filled, quoted


def soft_fallbacks(subject: Subject, values: Values) -> Iterator[Breach]:
    """Nodes that soft placement put elsewhere than they asked to be."""
    excepted = subject.matcher(values["except"])
    for node in subject.unmet:
        if node.name not in subject.overridden and not excepted(node.name):
            message = filled("{} asked for {} and is on {}", node.name, device(node.requested), short_device(node.device))
            yield Breach(subject.at(node), message, node.name)


def overridden_requests(subject: Subject, values: Values) -> Iterator[Breach]:
    """Nodes whose request lost against a reference or resource edge (5.6)."""
    excepted = subject.matcher(values["except"])
    for name, source in subject.overridden.items():
        node = subject.by_name.get(name)
        if node is not None and not excepted(name):
            sentence = "{} asked for {}, which lost against {}: it is on {}"
            message = filled(sentence, name, device(node.requested), source, short_device(node.device))
            yield Breach(subject.at(node), message, name)


def ignored_colocations(subject: Subject, values: Values) -> Iterator[Breach]:
    """Labels that soft placement passed over (5.7)."""
    placement, excepted = subject.placement, subject.matcher(values["except"])
    for node_id, ignored in placement.groups.ignored.items():
        node = placement.graph.nodes[node_id]
        for label in ignored if not excepted(node.name) else ():
            why = quoted(label.conflict.sentence(placement.graph))
            location = placement.graph.location(node) or subject.snapshot.start
            yield Breach(location, filled("{} is not with {}: {}", node.name, label.label, why), node.name)


RULES = (
    PolicyRule(
        "no-soft-fallback", "No node is elsewhere than it asked to be because of soft placement.", soft_fallbacks, (EXCEPT,)
    ),
    PolicyRule(
        "no-overridden-request",
        "No node's request lost against a reference or resource edge.",
        overridden_requests,
        (EXCEPT,),
    ),
    PolicyRule(
        "no-ignored-colocation",
        "Soft placement passed over no colocation label.",
        ignored_colocations,
        (EXCEPT,),
        needs_graph=True,
    ),
)
