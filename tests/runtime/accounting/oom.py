"""TensorFlow's recorded steps that run out of memory, run by placesim: its error, and every line of its log.

The graphs, which a recording holds as Python, stand written out in `oom-graphs.yaml` by the cases' ids.  A case's allocator is
told by the beginning of its id: `bfc/` has one region of all its limit and does not wait (`-retry`: it does), `cpu/` grows.

Compared modulo what differs from process to process: the addresses of chunks count from the beginning of their region;
protobuf's marker before a tensor's text is drawn by each process (`goo.gle/debug...`); and an empty line at the end of what is
logged was not recorded.  Long texts are cut in the middle in both: 2,000 characters, how many are left out, and 300.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from placesim.core.dtypes import FLOAT
from placesim.core.errors import OpError
from placesim.formats.graph_file.reader import graph_file_from_mapping
from placesim.graph.graph import Graph
from placesim.graph.session_steps import GraphFile
from placesim.machine.inventory import TaskInventory, build_devices
from placesim.machine.memory.allocator import BfcAllocator
from placesim.machine.memory.allocator_log import DumpLine
from placesim.machine.memory.allocator_settings import BfcOptions
from placesim.machine.memory.buffer_sources import AllocatedMemory
from placesim.machine.memory.sub_allocator import host_memory, mapped_memory
from placesim.ops.attributes import TensorValue
from placesim.runtime.accounting.ledger import Ledger
from placesim.runtime.accounting.out_of_memory import ReportOptions
from placesim.runtime.sessions.session import GraphSession

KEYS = ("limit_mb", "source", "error")
GRAPHS = Path(__file__).parent.parent.parent / "data" / "memory" / "oom-graphs.yaml"
DEVICE = "/job:localhost/replica:0/task:0/device:CPU:0"
CODES = {"INVALID_ARGUMENT": 3, "RESOURCE_EXHAUSTED": 8}
_MARKER = re.compile(r"goo\.gle/debug\w+ *")
_ADDRESS = re.compile(r"(InUse|Free ) at ([0-9a-f]+) of size")
_FIRST_NODE = re.compile(r"\[\[(?:Node: )?(?:\{\{node )?([^\} ]*)")
_CUT = re.compile(r"(.*) \.\.\.\[(\d+) characters left out\]\.\.\. (.*)", re.DOTALL)


@cache
def graphs() -> dict[str, Any]:
    """The graphs by the ids of their cases."""
    return dict(yaml.load(GRAPHS.read_text(), Loader=yaml.CSafeLoader))


def differences(case: Mapping[str, Any]) -> Iterator[str]:
    """Every way in which a case differs."""
    if case["id"] not in graphs():
        yield f"no graph in {GRAPHS.name} for {case['source']}"
        return
    error, log, graph = run(case)
    found, expected = _error_facts(error, graph), dict(case["error"] or {})
    for name in sorted(found.keys() | expected.keys()):
        if found.get(name) != _normal(expected.get(name)):
            yield f"{name}: {found.get(name)!r}, expected {expected.get(name)!r}"
    lines = _comparable([[line.severity, line.file, line.line, line.text] for line in log])
    wanted = _comparable(case["log"])
    for number, (line, want) in enumerate(zip(lines, wanted, strict=False)):
        if line[:3] != want[:3] or not _is_same_text(line[3], want[3]):
            yield f"log[{number}]: {line}, expected {want}"
    if len(lines) != len(wanted):
        yield f"{len(lines)} lines are logged, expected {len(wanted)}"


def run(case: Mapping[str, Any]) -> tuple[OpError | None, list[DumpLine], Graph]:
    """A case's error, what is logged of it, and its graph."""
    mapping = dict(graphs()[case["id"]])
    filled = mapping.pop("arange", None)
    file = graph_file_from_mapping(mapping, case["id"])
    if filled is not None:
        node = file.graph.node(filled)
        size = node.attrs["value"].array.size
        node.attrs = {**node.attrs, "value": TensorValue(FLOAT, np.arange(size, dtype=np.float32))}
    log: list[DumpLine] = []
    session = _session(file, case, log)
    for step in file.steps or ():
        try:
            session.run(step)
        except OpError as error:
            return error, log, file.graph
    return None, log, file.graph


def _session(file: GraphFile, case: Mapping[str, Any], log: list[DumpLine]) -> GraphSession:
    kind, _, name = case["id"].partition("/")
    limit = case["limit_mb"] << 20
    if kind == "cpu":
        allocator = BfcAllocator("bfc_cpu_allocator_for_gpu", limit, mapped_memory(), BfcOptions(), log=log.append)
    else:
        options = BfcOptions(allow_growth=False, allow_retry_on_failure=name.endswith("-retry"))
        allocator = BfcAllocator("GPU_0_bfc", limit, host_memory(), options, log=log.append)
    source = AllocatedMemory(allocator)
    report = ReportOptions(bool(case["options"].get("report")))
    ledger = Ledger({DEVICE: source}, {DEVICE: source}, report, log.append)
    return GraphSession(file.graph, build_devices((TaskInventory(),)), file.config, ledger=ledger)


def _error_facts(error: OpError | None, graph: Graph) -> dict[str, Any]:
    if error is None:
        return {}
    # TensorFlow's Python looks for the node behind the first brackets of the message, of which some may lie in what is cut out
    value = graph.node(error.node).attrs.get("value") if error.node is not None else None
    has_brackets = _CUT.fullmatch(error.message) is not None and value is not None and b"[[" in value.array.tobytes()
    first = None if has_brackets else _FIRST_NODE.search(error.message)
    name = first[1] if first is not None and first[1] in graph.ids else None
    return {
        "type": error.type_name,
        "code": CODES[error.code],
        "message": _normal(error.message),
        "node": name,
        "op": None if name is None else graph.node(name).op,
    }


def _normal(value: Any) -> Any:
    return _MARKER.sub("goo.gle/debug", value) if isinstance(value, str) else value


def _comparable(lines: Sequence[Sequence[Any]]) -> list[list[Any]]:
    """The lines with chunks' addresses as places in their regions."""
    found = []
    start: int | None = None
    for severity, file, line, text in lines:
        if text.startswith("Next region of size"):
            start = None
        address = _ADDRESS.match(text)
        if address is not None:
            start = int(address[2], 16) if start is None else start
            text = f"{address[1]} at {int(address[2], 16) - start:x} of size{text[address.end() :]}"
        found.append([severity, file, line, _normal(text).rstrip("\n")])
    return found


def _is_same_text(found: str, expected: str) -> bool:
    """Whether a text is another, of which the middle may have been cut out."""
    cut = _CUT.fullmatch(expected)
    if cut is None or _CUT.fullmatch(found) is not None:
        return found == expected
    return found.startswith(cut[1]) and found.endswith(cut[3]) and len(found) == len(cut[1]) + int(cut[2]) + len(cut[3])
