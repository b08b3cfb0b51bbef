"""Rules about the number and size of copies between devices."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from placesim.core.errors import Location
from placesim.core.styled_text import StyledText, device, fill_template, join_texts, place
from placesim.graph.graph import split_tensor_name
from placesim.inspection.checking.rule import FROM, TO, UNKNOWN, Breach, PolicyRule, RuleParameter, Values
from placesim.inspection.checking.subject import Subject, is_on
from placesim.inspection.difference import largest_first, tensor_text
from placesim.inspection.short_device_names import short_device
from placesim.machine.device_names import DeviceName
from placesim.runtime.partitioning.pruning import feed_name
from placesim.runtime.partitioning.transfer_kinds import TransferKind
from placesim.runtime.sessions.outcome import TransferRow

SHOWN = 3
"""Maximum number of transfers that a message names, the largest first."""


def _chosen(subject: Subject, values: Values) -> list[TransferRow]:
    source, target = values["from"] or DeviceName(), values["to"] or DeviceName()
    rows = (row for row in subject.snapshot.transfers if row.kind is TransferKind.TENSOR)
    return [row for row in rows if is_on(row.src, source) and is_on(row.dst, target)]


def _where(values: Values) -> StyledText:
    return StyledText(
        *(fill_template(" {} {}", word, device(values[word])) for word in ("from", "to") if values[word] is not None)
    )


def name_transfers(subject: Subject, rows: Iterable[TransferRow]) -> StyledText:
    """Return the largest transfers, those of unknown size first: tensor, target, bytes and the place of the tensor's node."""
    return join_texts(", ", [_described(subject, row) for row in largest_first(rows)[:SHOWN]])


def place_of_largest(subject: Subject, rows: Iterable[TransferRow]) -> Location:
    """Return the location of the node that sends the largest tensor, of those with one, or else the start of the file."""
    locations = (_sender_location(subject, row) for row in largest_first(rows))
    return next((location for location in locations if location is not None), subject.snapshot.start)


def _sender_location(subject: Subject, row: TransferRow) -> Location | None:
    node = subject.by_name.get(feed_name(split_tensor_name(row.tensor)[0]))
    return None if node is None else node.location


def _described(subject: Subject, row: TransferRow) -> StyledText:
    location = _sender_location(subject, row)
    size = "unknown size" if row.bytes is None else f"{row.bytes} bytes"
    at = "" if location is None else fill_template(", {}", place(location))
    return fill_template("{} to {} ({}{})", tensor_text(row), short_device(row.dst), size, at)


def _count(rows: Sequence[TransferRow]) -> str:
    return f"{len(rows)} transfer" + "s" * (len(rows) > 1)


def transfer_count(subject: Subject, values: Values) -> Iterator[Breach]:
    """Yield a violation if there are more than `count` transfers, optionally only from `from` to `to`."""
    rows = _chosen(subject, values)
    if len(rows) > values["count"]:
        sentence = "{}{}, limit {}; largest: {}; the rule `baseline` names new ones"
        named = name_transfers(subject, rows)
        told = (_count(rows), _where(values), values["count"], named)
        yield Breach(place_of_largest(subject, rows), fill_template(sentence, *told))


def transfer_bytes(subject: Subject, values: Values) -> Iterator[Breach]:
    """Yield a violation if more than `bytes` are transferred.

    A tensor of unknown size counts as `unknown` bytes. If `unknown` is not given, such tensors are a violation.
    """
    rows = _chosen(subject, values)
    unknown = [row for row in rows if row.bytes is None]
    total = sum(row.bytes or 0 for row in rows) + len(unknown) * (values["unknown"] or 0)
    if total > values["bytes"]:
        noted = f" ({len(unknown)} of unknown size counted as {values['unknown'] or 0} each)" if unknown else ""
        sentence = "{} bytes are transferred{}{}, limit {}; largest: {}"
        told = (total, _where(values), noted, values["bytes"], name_transfers(subject, rows))
        yield Breach(place_of_largest(subject, rows), fill_template(sentence, *told))
    elif unknown and values["unknown"] is None:
        why = subject.snapshot.size_note.removeprefix("Unavailable: ") or "No dry run has found them."
        sentence = "{}{} of unknown size: {}. {} `unknown: BYTES` counts such a tensor as that many bytes"
        named = name_transfers(subject, unknown)
        yield Breach(place_of_largest(subject, unknown), fill_template(sentence, _count(unknown), _where(values), named, why))


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
            UNKNOWN,
        ),
        needs_sizes=True,
    ),
)
