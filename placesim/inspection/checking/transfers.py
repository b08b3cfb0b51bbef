"""Rules about the number and size of copies between devices."""

from __future__ import annotations

from collections.abc import Iterator

from placesim.core.styled_text import StyledText, device, fill_template
from placesim.inspection.byte_amounts import Amount
from placesim.inspection.checking.rule import FROM, TO, Breach, PolicyRule, RuleParameter, Values
from placesim.inspection.checking.subject import Subject, is_on
from placesim.inspection.summary import transfers_by_pair
from placesim.machine.device_names import DeviceName


def _pairs(subject: Subject, values: Values) -> dict[tuple[str, str], Amount]:
    source, target = values["from"] or DeviceName(), values["to"] or DeviceName()
    pairs = transfers_by_pair(subject.snapshot.transfers)
    return {pair: amount for pair, amount in pairs.items() if is_on(pair[0], source) and is_on(pair[1], target)}


def _where(values: Values) -> StyledText:
    return StyledText(
        *(fill_template(" {} {}", word, device(values[word])) for word in ("from", "to") if values[word] is not None)
    )


def transfer_count(subject: Subject, values: Values) -> Iterator[Breach]:
    """Yield a violation if there are more than `count` transfers, optionally only from `from` to `to`."""
    total = sum(amount.number for amount in _pairs(subject, values).values())
    if total > values["count"]:
        message = fill_template("{} transfers{}, limit {}", total, _where(values), values["count"])
        yield Breach(subject.snapshot.start, message)


def transfer_bytes(subject: Subject, values: Values) -> Iterator[Breach]:
    """Yield a violation if more than `bytes` are transferred.

    A tensor of unknown size counts as `unknown` bytes. Without this number, such tensors are a violation as well.
    """
    amounts = _pairs(subject, values).values()
    unknown, each = sum(amount.unknown for amount in amounts), values["unknown"]
    total = sum(amount.bytes for amount in amounts) + unknown * (each or 0)
    if unknown and each is None and total <= values["bytes"]:
        sentence = "transfers{} of unknown size: got {}, expected known sizes, or 'unknown', the bytes to count for each"
        yield Breach(subject.snapshot.start, fill_template(sentence, _where(values), unknown))
    if total > values["bytes"]:
        noted = f" ({unknown} of unknown size counted as {each or 0} each)" if unknown else ""
        sentence = "{} bytes are transferred{}{}, limit {}"
        yield Breach(subject.snapshot.start, fill_template(sentence, total, _where(values), noted, values["bytes"]))


RULES = (
    PolicyRule(
        "max-transfers",
        "The number of transfers between devices stays within a limit.",
        transfer_count,
        (RuleParameter("count", "count", "a limit", required=True), FROM, TO),
    ),
    PolicyRule(
        "max-transfer-bytes",
        "Bytes copied between devices stay within a limit.",
        transfer_bytes,
        (
            RuleParameter("bytes", "bytes", "a limit, optionally with a unit (4MiB)", required=True),
            FROM,
            TO,
            RuleParameter(
                "unknown", "bytes", "bytes to count for a tensor of unknown size; without it, such tensors are findings"
            ),
        ),
    ),
)
