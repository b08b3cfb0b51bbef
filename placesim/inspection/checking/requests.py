"""Rules about requested devices that soft placement or another node overrode."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from placesim.core.styled_text import device, fill_template, quote
from placesim.inspection.checking.rule import EXCEPT, Breach, PolicyRule, Values
from placesim.inspection.checking.subject import Subject
from placesim.inspection.short_device_names import short_device
from placesim.inspection.snapshot import PlacedNode


def soft_fallbacks(subject: Subject, values: Values) -> Iterator[Breach]:
    """Yield the nodes that soft placement put on another device than requested.

    If the machine has no device of a requested type, all nodes that request this type count as one violation.
    """
    excepted = subject.matcher(values["except"])
    moved: defaultdict[str | None, list[PlacedNode]] = defaultdict(list)
    for node in subject.unmet:
        is_lost = node.name in subject.overridden or node.body in subject.calls_on_one_device
        if not is_lost and not excepted(node):
            moved[subject.missing_type(node)].append(node)
    for kind, nodes in moved.items():
        first = nodes[0]
        if kind is not None and len(nodes) > 1:
            sentence = "{} nodes requested a {}, and the machine has none (the first is {}, now on {})"
            message = fill_template(sentence, len(nodes), kind, first.name, short_device(first.device))
            yield Breach(subject.at(first), message)
            continue
        for node in nodes:
            message = fill_template(
                "{} requested {} but is on {}", node.name, device(node.requested), short_device(node.device)
            )
            yield Breach(subject.at(node), message, node.name)


def overridden_requests(subject: Subject, values: Values) -> Iterator[Breach]:
    """Yield the nodes whose request was overridden: by a reference or resource edge (5.6), or because the node's function body
    runs entirely on one device (9.8).
    """
    excepted = subject.matcher(values["except"])
    for name, source in subject.overridden.items():
        node = subject.by_name.get(name)
        if node is not None and not excepted(node):
            sentence = "{} requested {}, overridden by {}: it is on {}"
            message = fill_template(sentence, name, device(node.requested), source, short_device(node.device))
            yield Breach(subject.at(node), message, name)
    for node in subject.unmet:
        call = subject.calls_on_one_device.get(node.body)
        if call is not None and not excepted(node):
            sentence = "{} requested {}, which is ignored: {} runs its functions entirely on {}"
            message = fill_template(sentence, node.name, device(node.requested), call, short_device(node.device))
            yield Breach(subject.at(node), message, node.name)


def ignored_colocations(subject: Subject, values: Values) -> Iterator[Breach]:
    """Yield the colocation labels that soft placement ignored (5.7)."""
    excepted = subject.matcher(values["except"])
    for prefix, placement in subject.placements:
        for node_id, ignored in placement.groups.ignored.items():
            node = subject.by_name[prefix + placement.graph.nodes[node_id].name]
            for label in ignored if not excepted(node) else ():
                why = quote(label.conflict.sentence(placement.graph))
                yield Breach(
                    subject.at(node), fill_template("{} is not colocated with {}: {}", node.name, label.label, why), node.name
                )


RULES = (
    PolicyRule("no-soft-fallback", "Soft placement moves no node from its requested device.", soft_fallbacks, (EXCEPT,)),
    PolicyRule(
        "no-overridden-request",
        "No request is overridden by a reference or resource edge, or by a call that runs its whole body on the call's device.",
        overridden_requests,
        (EXCEPT,),
    ),
    PolicyRule(
        "no-ignored-colocation",
        "Soft placement ignores no colocation label.",
        ignored_colocations,
        (EXCEPT,),
        needs_graph=True,
    ),
)
