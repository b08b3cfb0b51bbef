"""TensorFlow's own recordings of placements: read, repeated with placesim, and compared.

`python -m tests.placement.corpus [FILE ...]` prints how many cases of each file agree (of all recordings in tests/data, or of
the files named). `--no-warnings` leaves out warnings, which some files do not record. `--write-subset` chooses the subset anew.

Everything is compared exactly, but for what TensorFlow leaves to chance or the recording left out:

- In "Colocation Debug Info" the lines of op types come in any order, as do attrs in `with these attrs: [...]` and
  `Node attrs: ...`; and a message was cut before `Registered kernels:`.
- In a cluster "All available devices [...]" lists the remote tasks in the order in which they answered: one and the same
  cluster was recorded both ways.
- In a cluster a task that the recording never reached has no sends recorded inside it, and a name is null at an end that was
  not.  A task was reached if a recorded send node has its source there, or a recorded receive its destination.
- TensorFlow 1.15 has no order of all devices: its recordings list them by name.
- A node with more than 8 in-edges keeps them in a hash set of pointers.  Where a `NoOp` has so many, its cut control edges get
  the numbers that they get together in any order: all numbers of one `NoOp` are compared, and every other part of the rows.

The walk that moves control flow (8.10) depends on addresses in a graph with more than five nodes without inputs. It is compared
all the same: `placement-flow` of the corpus has nine graphs whose cut depends on it, of which four agree.
"""

from __future__ import annotations

import gzip
import json
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from placesim.core.errors import OpError
from placesim.core.releases import CURRENT, RELEASES, Release
from placesim.formats.graph_file.reader import graph_file_from_mapping
from placesim.graph.graph import Graph, TensorRef, split_tensor_name
from placesim.graph.session_steps import GraphFile
from placesim.machine.device_names import parse_runtime_name
from placesim.machine.gpu_options import DeviceOptions
from placesim.machine.inventory import DeviceSet, TaskInventory, build_devices
from placesim.placement.placer import Placement, place_graph
from placesim.placement.rewrites import rewrite
from placesim.runtime.partitioning.partition import Partitions, partition
from placesim.runtime.partitioning.pruning import ClientGraph, prune

DATA = Path(__file__).parent.parent / "data"
FILES = ("small", "table", "models", "cluster", "hostile", "fetch", "medium", "functions", "rare", "chains")
OF_1_15 = tuple(f"1.15-{name}" for name in ("small", "table", "hostile", "fetch", "medium", "functions", "groups"))
SUBSET = "subset"
INLINE_EDGES = 8
"""So many in-edges a node keeps in order."""

Row = list[Any]


def read_cases(name: str) -> Iterator[dict[str, Any]]:
    """The cases of `placement-NAME.jsonl.gz`, or of a file of the same form, each with its release in its graph."""
    path = DATA / f"placement-{name}.jsonl.gz" if name in (*FILES, *OF_1_15, SUBSET) else Path(name)
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for case in map(json.loads, lines):
            case["graph"].setdefault("tensorflow", release_of(path.name, case["id"]).name)
            yield case


def release_of(file: str, case: str) -> Release:
    """The release that a recording is of: its file's name says it (`placement-1.15-small`), or the case's (`small-v115-7`)."""
    for release in RELEASES.values():
        if f"-{release.name}-" in file or f"-v{release.name.replace('.', '')}-" in case:
            return release
    return CURRENT


@dataclass(frozen=True)
class Outcome:
    """What placesim makes of a case, in the recording's terms; `shuffled` has the rows whose numbers are chance, by reader."""

    nodes: list[str]
    devices: list[str]
    log: list[Row]
    error: OpError | None
    warnings: Sequence[str]
    sends: list[Row] | None
    shuffled: dict[str, list[Row]]


def place_case(case: Mapping[str, Any]) -> Outcome:
    """Place a case's graph, and cut it by device where that was recorded."""
    file = graph_file_from_mapping(case["graph"], case["id"])
    device_set = _device_set(file)
    placement = place_graph(rewrite(file.graph), device_set, file.config.allow_soft_placement)
    names = [device.name for device in device_set.ordered]
    numbers = {name: number for number, name in enumerate(sorted(names) if _lists_by_name(device_set) else names)}
    chosen, nodes = placement.devices, placement.graph.nodes
    log = [[nodes[i].name, numbers[device.name]] for i in placement.log if (device := chosen[i]) is not None]
    sends: list[Row] | None = None
    shuffled: dict[str, list[Row]] = {}
    if case["expect"]["sends"] is not None and placement.error is None:
        client = _client_graph(file, placement)
        partitions = partition(client, device_set)
        readers = _crowded_readers(client, partitions)
        sends = []
        for t in partitions.transfers:
            rows = shuffled.setdefault(readers[t.recv], []) if t.recv in readers else sends
            rows.append([t.tensor, numbers[t.src], numbers[t.dst], t.send_op, t.recv_op, t.send, t.recv])
    names_read = [node.name for node in file.graph.nodes]
    return Outcome(names_read, list(numbers), log, placement.error, placement.messages, sends, shuffled)


def _device_set(file: GraphFile) -> DeviceSet:
    return _devices_of(tuple(file.inventory or ()), file.graph.registry.rules, file.config.master)


@cache
def _devices_of(inventory: tuple[TaskInventory, ...], release: Release, target: str) -> DeviceSet:
    """The devices of a machine, which many cases share."""
    devices = build_devices(inventory, DeviceOptions(release=release))
    master = parse_runtime_name(target) if target else None
    return DeviceSet(devices, master.address_space if master else devices[0].spec.address_space, release=release)


def _lists_by_name(device_set: DeviceSet) -> bool:
    return device_set.release.name == "1.15"


def _client_graph(file: GraphFile, placement: Placement) -> ClientGraph:
    """What the recorded step runs: with no `run` every node without consumers is a target; so is a bare name."""
    ids = placement.graph.ids
    if file.steps is None:
        return prune(placement, targets=[ids[name] for name in _sinks(file.graph)])
    (step,) = file.steps
    names = [fetch.name for fetch in step.fetches]
    return prune(
        placement,
        [_tensor(ids, feed.tensor) for feed in step.feeds],
        [_tensor(ids, name) for name in names if ":" in name],
        [ids[name] for name in names if ":" not in name],
    )


def _sinks(graph: Graph) -> list[str]:
    used = {i for node in graph.nodes for i in (*node.input_nodes, *node.control_inputs)}
    return [node.name for node in graph.nodes if node.id not in used]


def _tensor(ids: Mapping[str, int], text: str) -> TensorRef:
    name, slot = split_tensor_name(text)
    return TensorRef(ids[name], slot)


def _crowded_readers(client: ClientGraph, partitions: Partitions) -> dict[str, str]:
    """For each receive of a control edge into a `NoOp` with more in-edges than a node keeps in order, that `NoOp`."""
    crowded = {n.name for n in client.graph.nodes if n.op == "NoOp" and len(n.control_inputs) > INLINE_EDGES}
    controls = {transfer.recv for transfer in partitions.transfers if transfer.slot < 0}
    nodes = (node for part in partitions.parts for node in part.graph.nodes if node.name in controls)
    return {node.name: node.attrs["_dst"] for node in nodes if node.attrs["_dst"] in crowded}


# --- comparison -----------------------------------------------------------------------------------------------------


def differences(case: Mapping[str, Any], with_warnings: bool = True) -> list[str]:
    """What placesim does otherwise than TensorFlow did; empty where all agrees."""
    expected, found = case["expect"], place_case(case)
    return [
        *_unequal("nodes", found.nodes, [node["name"] for node in case["graph"]["nodes"]]),
        *_unequal("devices", found.devices, expected["devices"]),
        *_unequal("log", found.log, expected["log"]),
        *_unequal("error", _error(found.error), _recorded_error(expected["error"])),
        *(_unequal_warnings(found, expected) if with_warnings else ()),
        *_unequal_sends(found, expected),
    ]


def _unequal(what: str, found: Any, expected: Any) -> list[str]:
    return [] if found == expected else [f"{what}: found {found}, expected {expected}"]


def _unequal_warnings(found: Outcome, expected: Mapping[str, Any]) -> list[str]:
    return _unequal("warnings", list(map(settled, found.warnings)), list(map(settled, expected.get("warnings") or ())))


def _error(error: OpError | None) -> tuple[str, str] | None:
    return None if error is None else (error.type_name, settled(error.message))


def _recorded_error(error: Mapping[str, str] | None) -> tuple[str, str] | None:
    return None if error is None else (error["type"], settled(error["message"]))


_TYPE_LINES = re.compile(r"(?<=\n)(?:[A-Za-z0-9_>]+: (?:[A-Z_]+ )*\n)+")
_ATTRS = re.compile(r"(?<=with these attrs: \[).*(?=\]\n)|(?<=\nNode attrs: ).*")
_NEXT_ATTR = re.compile(r", (?=[A-Za-z_][A-Za-z0-9_]*=)")
_AVAILABLE = re.compile(r"(?<=All available devices \[)[^]]*")


def settled(message: str) -> str:
    """A message without what is left to chance: the order of type lines, attrs and a cluster's tasks; kernels are left out."""
    message = message.partition("Registered kernels:")[0].rstrip()
    message = _TYPE_LINES.sub(lambda block: "".join(sorted(block[0].splitlines(True))), message)
    message = _ATTRS.sub(lambda listed: ", ".join(sorted(_NEXT_ATTR.split(listed[0]))), message)
    return _AVAILABLE.sub(lambda listed: ", ".join(sorted(listed[0].split(", "))), message)


def _unequal_sends(found: Outcome, expected: Mapping[str, Any]) -> list[str]:
    if found.sends is None or expected["sends"] is None:
        return _unequal("sends", found.sends, expected["sends"])
    recorded = list(expected["sends"])
    problems = []
    for rows in found.shuffled.values():
        unequal, recorded = _unequal_shuffled(rows, recorded)
        problems += unequal
    extra, missing = _unmatched(found.sends, recorded)
    reached = _reached(expected["sends"], found.devices)
    extra = [row for row in extra if {_task(found.devices[row[1]]), _task(found.devices[row[2]])} & reached]
    return problems + [f"send not recorded: {row}" for row in extra] + [f"send only recorded: {row}" for row in missing]


def _unmatched(found: Sequence[Row], recorded: Sequence[Row]) -> tuple[list[Row], list[Row]]:
    """The rows of either side that the other does not have; null matches anything."""
    extra, missing = list(found), []
    for row in sorted(recorded, key=lambda row: row.count(None)):
        match = next((r for r in extra if all(b in (None, a) for a, b in zip(r, row, strict=True))), None)
        if match is None:
            missing.append(row)
        else:
            extra.remove(match)
    return extra, missing


def _reached(sends: Iterable[Row], devices: Sequence[str]) -> set[str]:
    rows = list(sends)
    if len({_task(name) for name in devices}) == 1:
        return {_task(devices[0])}
    return {_task(devices[row[1]]) for row in rows if row[5]} | {_task(devices[row[2]]) for row in rows if row[6]}


def _task(device: str) -> str:
    return device.rpartition("/device:")[0]


_NUMBER = re.compile(r"/_([0-9]+)(?=$|:0$)")


def _unequal_shuffled(found: Sequence[Row], recorded: Sequence[Row]) -> tuple[list[str], list[Row]]:
    """Rows that agree but for whose number is whose, and the recorded rows that are left."""
    wanted = sorted(map(_without_numbers, found), key=str)
    same = [row for row in recorded if _without_numbers(row) in wanted]
    rest = [row for row in recorded if row not in same]
    return [
        *_unequal("sends to a crowded NoOp", wanted, sorted(map(_without_numbers, same), key=str)),
        *_unequal("their numbers", sorted(map(_numbers, found)), sorted(map(_numbers, same))),
    ], rest


def _without_numbers(row: Row) -> Row:
    return [_NUMBER.sub("/_", cell) if isinstance(cell, str) else cell for cell in row]


def _numbers(row: Row) -> list[int]:
    """The numbers of the control edge's tensor, send and receive."""
    return [int(_NUMBER.findall(row[i])[0]) for i in (0, 5, 6)]


# --- the subset, and the figures ------------------------------------------------------------------------------------


def choose_subset(max_bytes: int = 20_000, every: int = 60) -> list[dict[str, Any]]:
    """Of each file the shortest cases that bring something new, every sixtieth case, and all with functions.

    New is the opening of an error or a warning, a kind of machine, a pair of send and receive ops, or an op that is replaced or
    is part of a loop.
    """
    chosen: dict[str, dict[str, Any]] = {}
    for name in FILES:
        cases = [case for case in read_cases(name) if len(json.dumps(case)) < max_bytes]
        seen: set[Any] = set()
        for case in sorted(cases, key=lambda case: (len(json.dumps(case)), case["id"])):
            features = set(_features(case))
            if not features <= seen or name == "functions":
                chosen[case["id"]] = case
            seen |= features
        chosen.update((case["id"], case) for case in cases[::every])
    return list(chosen.values())


_NOTABLE_OPS = re.compile(
    r"Nccl|ParallelConcat|Accumulate|Enter|Merge|Switch|Exit|Dataset|TensorList|Partitioned|Shape$|Rank$|Size$"
)


def _features(case: Mapping[str, Any]) -> Iterator[tuple[Any, ...]]:
    graph, expected = case["graph"], case["expect"]
    soft = graph["config"].get("allow_soft_placement", False)
    yield "machine", isinstance(graph["devices"], list), len(expected["devices"]) > 1, soft
    yield "run", "run" in graph, expected["sends"] is None, soft
    if expected["error"]:
        yield "error", soft, *_opening(expected["error"]["message"])
    yield from (("warning", *_opening(text)) for text in expected.get("warnings") or ())
    yield from (("send", row[3], row[4]) for row in expected["sends"] or ())
    yield from (("op", node["op"]) for node in graph["nodes"] if _NOTABLE_OPS.search(node["op"]))


def _opening(message: str) -> list[str]:
    """A message's first words that no name or device is part of."""
    return [word for word in message.split("\n")[0].split() if re.fullmatch(r"[a-z]+[.,:]?", word)][:8]


def write_subset() -> None:
    """Write `placement-subset.jsonl.gz`; the same cases give the same bytes."""
    lines = "".join(json.dumps(case, separators=(",", ":")) + "\n" for case in choose_subset())
    (DATA / f"placement-{SUBSET}.jsonl.gz").write_bytes(gzip.compress(lines.encode(), mtime=0))


class Agreement(NamedTuple):
    """How many of a file's cases agree, and what the others do otherwise, by id."""

    agreed: int
    total: int
    problems: dict[str, list[str]]


def agreement(name: str, with_warnings: bool = True) -> Agreement:
    """Compare all cases of a recording, or of a file of the same form."""
    found = {case["id"]: differences(case, with_warnings) for case in read_cases(name)}
    problems = {case_id: unequal for case_id, unequal in found.items() if unequal}
    return Agreement(len(found) - len(problems), len(found), problems)


def main(arguments: Sequence[str] = tuple(sys.argv[1:])) -> int:
    """Print the figures of the files named, or of all recordings; 1 where a case differs."""
    if "--write-subset" in arguments:
        write_subset()
    names = [name for name in arguments if not name.startswith("--")]
    with_warnings = "--no-warnings" not in arguments
    results = {name: agreement(name, with_warnings) for name in names or (*FILES, *OF_1_15, SUBSET)}
    for name, (agreed, total, problems) in results.items():
        print(f"{Path(name).name.removesuffix('.jsonl.gz'):20} {agreed:5}/{total}", *problems)
    return 1 if any(result.problems for result in results.values()) else 0


if __name__ == "__main__":
    raise SystemExit(main())
