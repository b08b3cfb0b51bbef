"""Rules about the time of steps and the bytes on links."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from placesim.core.styled_text import StyledText, device, fill_template
from placesim.graph.node_patterns import matcher
from placesim.inspection.byte_amounts import readable_seconds
from placesim.inspection.checking.rule import FROM, TO, Breach, PolicyRule, RuleParameter, Values
from placesim.inspection.checking.subject import Subject, is_on
from placesim.inspection.short_device_names import short_device
from placesim.machine.device_names import DeviceName
from placesim.prediction.time_breakdown import StepBound, StepTime, TimeStudy, dearest_nodes

SHOWN = 3
"""Maximum number of items, the costliest first, that a message names."""
_WAYS_OUT = {
    "path": "its nodes run in sequence: use faster devices, or shorten the chain",
    "resource": "move nodes to other devices, or use a faster device",
    "link": "move fewer bytes over it, or use a faster link",
}


def step_time(subject: Subject, values: Values) -> Iterator[Breach]:
    """Yield the steps of `run:` that take longer than `seconds` in their steady state."""
    study = subject.time
    if values["step"] is not None and values["step"] >= len(study.steps):
        steps = "the only step is 0" if len(study.steps) == 1 else f"the steps are 0 to {len(study.steps) - 1}"
        yield Breach(None, StyledText(f"there is no step {values['step']}: {steps}"))
        return
    for step in study.steps:
        if values["step"] not in (None, step.number):
            continue
        taken = step.high if values["of"] == "high" else step.seconds
        if taken > values["seconds"]:
            yield Breach(None, _too_slow(study, step, taken, values))


def _too_slow(study: TimeStudy, step: StepTime, taken: float, values: Values) -> StyledText:
    interval = f"{readable_seconds(step.low)} to {readable_seconds(step.high)}"
    whole = f"({interval})" if values["of"] != "high" else f"at the upper end of the interval ({interval})"
    said = f"step {step.number} takes {readable_seconds(taken)} {whole}, limit {readable_seconds(values['seconds'])}"
    if step is not study.step:
        return StyledText(said)
    # details are known only for the last step
    return StyledText(f"{said}; ", _bounded(study.bound, step), f"; slowest nodes: {_dearest(study)}")


def _bounded(bound: StepBound, step: StepTime) -> str:
    return f"{bound.what} takes {bound.seconds / step.seconds:.0%} of it ({_WAYS_OUT[bound.kind]})" if step.seconds else ""


def _dearest(study: TimeStudy) -> str:
    return ", ".join(f"{row.node} ({row.op}, {readable_seconds(row.seconds)})" for row in dearest_nodes(study, SHOWN))


def link_bytes(subject: Subject, values: Values) -> Iterator[Breach]:
    """Yield links by name, or pairs of devices, over which one run of the last step carries more than `bytes`."""
    study = subject.time
    if values["from"] is not None or values["to"] is not None:
        yield from _pair_bytes(study, values)
    if values["link"] or (values["from"] is None and values["to"] is None):
        yield from _named_bytes(study, values)


def _named_bytes(study: TimeStudy, values: Values) -> Iterator[Breach]:
    names = [link.name for link in study.links]
    patterns: Sequence[str] = values["link"] or ("*",)
    for pattern in patterns if values["link"] else ():
        if not any(map(matcher([pattern]), names)):
            known = f"the machine's are {', '.join(names)}" if names else "the machine has none"
            yield Breach(None, StyledText(f"no link matches '{pattern}': {known}"))
    is_chosen = matcher(patterns)
    for link in study.links:
        if is_chosen(link.name) and link.bytes > values["bytes"]:
            said = f"link '{link.name}' carries {link.bytes:.0f} bytes, limit {values['bytes']}"
            yield Breach(None, StyledText(f"{said}; `placesim simulate` lists the transfers"))


def _pair_bytes(study: TimeStudy, values: Values) -> Iterator[Breach]:
    source, target = values["from"] or DeviceName(), values["to"] or DeviceName()
    carried: dict[tuple[str, str], dict[str, int]] = {}
    for run in study.transfers:
        if is_on(run.sender, source) and is_on(run.receiver, target):
            tensors = carried.setdefault((run.sender, run.receiver), {})
            tensors[run.tensor] = tensors.get(run.tensor, 0) + run.bytes
    for pair, tensors in carried.items():
        if sum(tensors.values()) > values["bytes"]:
            largest = sorted(tensors.items(), key=lambda row: -row[1])[:SHOWN]
            named = ", ".join(f"{tensor} ({size} bytes)" for tensor, size in largest)
            sentence = "{} bytes are copied from {} to {}, limit {}; largest: {}"
            ends = (device(short_device(name)) for name in pair)
            yield Breach(None, fill_template(sentence, sum(tensors.values()), *ends, values["bytes"], named))


RULES = (
    PolicyRule(
        "max-step-time",
        "Predicted step time stays within a limit.",
        step_time,
        (
            RuleParameter("seconds", "seconds", "a limit, optionally with a unit (5ms)", required=True),
            RuleParameter("step", "count", "only this step of `run:` (the first is 0)"),
            RuleParameter(
                "of",
                "end",
                "which time to compare: `middle`, the predicted one, or `high`, the upper end of its interval",
                "middle",
            ),
        ),
        needs_graph=True,
        needs_time=True,
    ),
    PolicyRule(
        "max-link-bytes",
        "In a run of the last step, the bytes copied over each link, or between two devices, stay within a limit.",
        link_bytes,
        (
            RuleParameter("bytes", "bytes", "a limit, optionally with a unit (4MiB)", required=True),
            RuleParameter("link", "patterns", "only links whose names match, as `simulate` lists them (`*PCIe*`)", ()),
            FROM,
            TO,
        ),
        needs_graph=True,
        needs_time=True,
    ),
)
