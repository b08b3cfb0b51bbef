"""Traces as Perfetto's own trace processor reads them.

Its program is in no package: `perfetto` fetches it from the network when it is first used.  So this is run where the program is
already there, named by the variable PERFETTO_TRACE_PROCESSOR or as `trace_processor_shell` on the PATH;
`tests/report/trace_reader.py` holds all traces to the same, everywhere.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.shell import ROOT, Shell
from tests.report.trace_reader import read_trace

PROGRAM = os.environ.get("PERFETTO_TRACE_PROCESSOR") or shutil.which("trace_processor_shell")
pytestmark = pytest.mark.skipif(PROGRAM is None, reason="no trace_processor_shell on this machine; PyPI has none")
COMMANDS = (
    ("simulate", str(ROOT / "graphs" / "cifar10-towers.yaml")),
    ("simulate", str(ROOT / "graphs" / "alexnet.yaml")),
    ("run", str(ROOT / "graphs" / "cifar10-towers.yaml")),
    ("run", str(ROOT / "graphs" / "alexnet.yaml"), "--inter-op-threads", "2"),
)


@pytest.fixture(params=COMMANDS, ids=lambda command: "-".join(Path(part).stem for part in command))
def traced(request: pytest.FixtureRequest, shell: Shell) -> Iterator[tuple[Path, Any]]:
    """A trace file, and what asks the trace processor about it."""
    from perfetto.trace_processor import TraceProcessor, TraceProcessorConfig

    path = shell.directory / "trace.json"
    assert shell(*request.param, "--trace", str(path)).code == 0
    processor = TraceProcessor(trace=str(path), config=TraceProcessorConfig(bin_path=PROGRAM))
    yield path, lambda query: [tuple(row.__dict__.values()) for row in processor.query(query)]
    processor.close()


def test_the_trace_processor_finds_what_is_there(traced: tuple[Path, Any]) -> None:
    path, ask = traced
    trace = read_trace(path)
    faults = ask("select name, value from stats where severity in ('error', 'data_loss') and value > 0")
    assert faults == []
    ((slices,),) = ask("select count(*) as n from slice")
    assert slices == len(trace.slices)
    # on a track slices follow each other, or lie in one another
    overlaps = ask(
        "select a.name, b.name as other from slice a join slice b on a.track_id = b.track_id and a.id != b.id "
        "where a.ts < b.ts and b.ts < a.ts + a.dur and b.ts + b.dur > a.ts + a.dur"
    )
    assert overlaps == []
    arrows = ask("select o.name, i.name as other from flow join slice o on o.id = slice_out join slice i on i.id = slice_in")
    assert sorted(arrows) == sorted((one.name, other.name) for one, other in trace.arrows)
    for name, values in trace.counters.items():
        ends = ask(
            "select c.value from counter c join process_counter_track t on c.track_id = t.id "
            f"where t.name = '{name.partition(' ')[2]}' order by c.ts desc, c.id desc limit 1"
        )
        assert ends == [(float(values[-1][1]),)]
