"""Reader of `links`: connections between the devices, hosts and tasks of the inventory."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Any

from placesim.core.errors import UsageError
from placesim.core.suggestions import did_you_mean
from placesim.formats.graph_file.plain_values import INT64_END, line_value, number_value, read_amount, read_seconds
from placesim.formats.problems import WRONG, FileProblems, InvalidValue, one_of, own_position, spell, value_position
from placesim.machine.inventory import TaskInventory
from placesim.machine.links import (
    END_FORMS,
    KINDS,
    MAX_LINKS,
    PCIE_BYTES_PER_LANE,
    WAYS,
    LinkEnd,
    LinkEntry,
    MachineLinks,
    TaskDevices,
    TaskName,
    default_latency,
    infer_link_kind,
    missing_ends,
    parse_end,
    resolve_ends,
)

LINK_KEYS = ("between", "shared_by", "bandwidth", "latency", "ways", "kind", "name")
_PREFIXES = {"": 1, "k": 10**3, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
_RATES = {
    "": 1,
    **{f"{prefix}B/s": factor for prefix, factor in _PREFIXES.items()},
    **{f"{prefix}bit/s": factor / 8 for prefix, factor in _PREFIXES.items()},
    **{f"{prefix}iB/s": 1024**power for power, prefix in enumerate("KMGT", 1)},
}
"""Units of rates; `Gb/s` is ambiguous and therefore refused."""
# a text, which `re` compiles on first use: few graphs have links
_PCIE = r"(?i)\s*PCIe\s*([0-9]{1,2})(?:\.0)?\s*x\s*([0-9]{1,3})\s*"
_LANES = (1, 2, 4, 8, 12, 16, 32)
FREE, NONE = "free", "none"


def read_links(tree: Any, position: int, inventory: Sequence[TaskInventory], problems: FileProblems) -> MachineLinks:
    """Read the entries of `links`. Invalid entries are reported and left out."""
    listed = problems.sequence(tree, position, "'links'")
    tasks = inventory_tasks(inventory)
    found: list[LinkEntry] = []
    number = 0
    for index in range(len(listed)):
        entry = _read_entry(listed[index], value_position(listed, index), tasks, problems)
        if entry is not None:
            found.append(entry)
            number += sum(1 for _ in islice(resolve_ends(entry, tasks), MAX_LINKS + 1))
            if number > MAX_LINKS:
                message = f"too many links: got more than {MAX_LINKS}, expected at most {MAX_LINKS}"
                problems.add(value_position(listed, index), message)
                break
    return MachineLinks(tuple(found), (), problems.location(position))


def inventory_tasks(inventory: Sequence[TaskInventory]) -> dict[TaskName, TaskDevices]:
    """Return the devices of each task of an inventory."""
    return {
        TaskName(entry.job or "localhost", number): TaskDevices(entry.cpu, range(entry.gpu))
        for entry in inventory
        for number in range(entry.tasks)
    }


def _read_entry(tree: Any, position: int, tasks: dict[TaskName, TaskDevices], problems: FileProblems) -> LinkEntry | None:
    entry = problems.mapping(tree, position, "an entry of 'links'")
    if not isinstance(tree, dict):
        return None
    is_wrong = problems.unknown_keys(entry, LINK_KEYS, "an entry of 'links'")
    written = [key for key in ("between", "shared_by") if key in entry]
    if len(written) != 1:
        message = f"ends of a link: got {'both' if written else 'neither'} of 'between' and 'shared_by', expected one of them"
        problems.add(own_position(entry) or position, message)
        return None
    key = written[0]
    ends = _read_ends(entry[key], value_position(entry, key), key, problems)
    if ends is None:
        return None
    if "bandwidth" not in entry:
        problems.add(own_position(entry) or position, "link without bandwidth: expected the key 'bandwidth'")
        return None
    kind = problems.read(entry, "kind", lambda value: _word(value, KINDS, "'kind'"), infer_link_kind(ends))
    ways = problems.read(entry, "ways", lambda value: _word(value, WAYS, "'ways'"), "each")
    bandwidth = problems.read(entry, "bandwidth", bandwidth_value, WRONG)
    name = problems.read(entry, "name", lambda value: line_value(value, "'name'"), "")
    latency = problems.read(entry, "latency", latency_value, None)
    if is_wrong or WRONG in (kind, ways, name) or bandwidth is WRONG or latency is WRONG:
        return None
    if key == "shared_by" and "ways" in entry and ways != "shared":
        problems.add(value_position(entry, "ways"), f"wrong 'ways' for a shared link: got '{ways}', expected shared")
        return None
    if latency is None:
        latency = 0.0 if bandwidth == math.inf else default_latency(kind, ends)
    found = LinkEntry(ends, bandwidth, latency, kind, ways if key == "between" else "shared", key == "shared_by", name)
    for end in missing_ends(found, tasks):
        place = next(i for i, other in enumerate(ends) if other == end)
        problems.add(value_position(entry[key], place), _unknown_device(end, tasks))
        return None
    return found


def check_given(links: Iterable[LinkEntry], inventory: Sequence[TaskInventory]) -> None:
    """Raise UsageError if a link of the command line names an end that the machine lacks."""
    tasks = inventory_tasks(inventory)
    for entry in links:
        for end in missing_ends(entry, tasks):
            raise UsageError(_unknown_device(end, tasks))


def _unknown_device(end: LinkEnd, tasks: dict[TaskName, TaskDevices]) -> str:
    return f"link to an unknown device: got {spell(end.text)}, expected a device of the machine: {_listed(tasks)}"


def _read_ends(tree: Any, position: int, key: str, problems: FileProblems) -> tuple[LinkEnd, ...] | None:
    listed = tree if isinstance(tree, list | tuple) else ()
    if len(listed) < 2 or (key == "between" and len(listed) > 2):
        number = "two ends" if key == "between" else "two ends or more"
        got = f"{len(listed)}" if isinstance(tree, list | tuple) else spell(tree)
        help = "; 'shared_by' takes more" if len(listed) > 2 else ""
        problems.add(position, f"ends of a link: got {got}, expected a list of {number}{help}")
        return None
    found = []
    for index, text in enumerate(listed):
        try:
            found.append(end_value(text))
        except InvalidValue as wrong:
            problems.add(value_position(tree, index), str(wrong))
    if len(found) < len(listed):
        return None
    twice = next((end for end in found if found.count(end) > 1 and "*" not in end.name and end.task != -1), None)
    if twice is not None:
        problems.add(position, f"link to itself: got {spell(twice.text)} twice, expected two ends")
        return None
    return tuple(found)


def _listed(tasks: dict[TaskName, TaskDevices]) -> str:
    """Return the names of the devices of at most three tasks: `CPU:0, GPU:0 to GPU:3`."""
    parts = []
    for task, devices in list(tasks.items())[:3]:
        prefix = f"/job:{task.job}/task:{task.number}/" if len(tasks) > 1 else ""
        counts = (("CPU", devices.cpus), ("GPU", len(devices.gpus)))
        parts += [f"{prefix}{kind}:0" + (f" to {kind}:{count - 1}" if count > 1 else "") for kind, count in counts if count]
    return (", ".join(parts) or "none") + (", ..." if len(tasks) > 3 else "")


def end_value(value: Any) -> LinkEnd:
    """Parse an end of a link. Raises InvalidValue for an invalid text."""
    end = parse_end(value) if isinstance(value, str) else None
    if end is None:
        raise InvalidValue(f"wrong end of a link: got {spell(value)}, expected {END_FORMS}")
    return end


def bandwidth_value(value: Any) -> float:
    """Return bytes per second from a number, `25GB/s`, `PCIe 4.0 x16`, `free` (infinite) or `none` (0). Raises InvalidValue."""
    expected = "expected bytes per second, a number with a unit such as 25GB/s or 100Gbit/s, 'PCIe 4.0 x16', 'free' or 'none'"
    if isinstance(value, str):
        if value.strip().lower() in (FREE, NONE):
            return math.inf if value.strip().lower() == FREE else 0.0
        pcie = re.fullmatch(_PCIE, value)
        if pcie is not None:
            return _pcie_bytes(int(pcie[1]), int(pcie[2]), value)
        amount = read_amount(value, _RATES)
        if amount is None:
            raise InvalidValue(f"bad bandwidth: got {spell(value)}, {expected}")
        rate = amount
    else:
        rate = number_value(value, "a bandwidth")
    if not rate >= 1:
        raise InvalidValue(f"bandwidth out of range: got {spell(value)}, expected at least 1 byte per second, or 'none'")
    if not rate < INT64_END:
        raise InvalidValue(f"bandwidth out of range: got {spell(value)}, expected less than 2**63 bytes per second, or 'free'")
    return rate


def _pcie_bytes(generation: int, lanes: int, value: Any) -> float:
    if generation not in PCIE_BYTES_PER_LANE:
        expected = one_of(map(str, PCIE_BYTES_PER_LANE))
        raise InvalidValue(f"unknown PCIe generation: got {spell(value)}, expected one of {expected}")
    if lanes not in _LANES:
        raise InvalidValue(f"bad number of PCIe lanes: got {spell(value)}, expected {one_of(map(str, _LANES))}")
    return PCIE_BYTES_PER_LANE[generation] * lanes


def latency_value(value: Any) -> float:
    """Return seconds: a number, `5us`, `0.1 ms`, or `none` (0). Raises InvalidValue."""
    if isinstance(value, str):
        if value.strip().lower() == NONE:
            return 0.0
        written = read_seconds(value)
        if written is None:
            expected = "expected seconds, a number with a unit such as 5us, or 'none'"
            raise InvalidValue(f"bad latency: got {spell(value)}, {expected}")
        seconds = written
    else:
        seconds = number_value(value, "a latency")
    if not 0 < seconds < INT64_END:
        raise InvalidValue(f"latency out of range: got {spell(value)}, expected more than 0 seconds, or 'none'")
    return seconds


def _word(value: Any, words: Sequence[str], what: str) -> str:
    if value not in words:
        near = did_you_mean(value, words)
        raise InvalidValue(f"unknown {what} of a link: got {spell(value)}, expected {one_of(words)}{near}")
    return str(value)


_GIVEN = r"(?P<first>[^-><=]+)(?P<way>->|>|-)(?P<second>[^-><=]+)=(?P<bandwidth>[^@]+)(?:@(?P<latency>.+))?"


def link_row(text: str) -> dict[str, Any]:
    """Return `ENDS=BANDWIDTH[@LATENCY]`, with the ends `A-B`, or `A>B` for one direction, as an entry of `links`.

    Raises InvalidValue for another form.
    """
    found = re.fullmatch(_GIVEN, text.strip())
    if found is None:
        expected = "expected ENDS=BANDWIDTH, such as host-network=100Gbit/s or GPU:0-GPU:1=25GB/s@2us"
        raise InvalidValue(f"bad link: got {spell(text)}, {expected}")
    row: dict[str, Any] = {
        "between": [found["first"].strip(), found["second"].strip()],
        "bandwidth": found["bandwidth"].strip(),
    }
    row |= {} if found["latency"] is None else {"latency": found["latency"].strip()}
    return row | ({"ways": "one"} if found["way"] in (">", "->") else {})


def parse_link(text: str) -> LinkEntry:
    """Parse a link of the command line, as `link_row` describes it. Raises InvalidValue."""
    row = link_row(text)
    ends = tuple(map(end_value, row["between"]))
    if ends[0] == ends[1] and "*" not in ends[0].text:
        raise InvalidValue(f"link to itself: got {spell(ends[0].text)} twice, expected two ends")
    bandwidth, kind = bandwidth_value(row["bandwidth"]), infer_link_kind(ends)
    latency = 0.0 if bandwidth == math.inf else default_latency(kind, ends)
    if "latency" in row:
        latency = latency_value(row["latency"])
    return LinkEntry(ends, bandwidth, latency, kind, row.get("ways", "each"))


def link_document(entry: LinkEntry) -> dict[str, Any]:
    """Return an entry as the mapping that `read_links` reads."""
    bandwidth: Any = FREE if entry.bandwidth == math.inf else entry.bandwidth or NONE
    written: dict[str, Any] = {"shared_by" if entry.is_medium else "between": [end.text for end in entry.ends]}
    written |= {"bandwidth": bandwidth, "latency": entry.latency or NONE, "kind": entry.kind}
    if entry.ways != "each" and not entry.is_medium:
        written["ways"] = entry.ways
    return written | ({"name": entry.name} if entry.name else {})
