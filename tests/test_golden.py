"""What `run` and `place` print of every file in graphs/, in both styles and as JSON.  `make golden` writes it anew.

All is compared to the byte, but for the last digits of fractions: see `tests.documents`.
"""

from __future__ import annotations

import contextlib
import difflib
import io
import json
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from placesim.cli.report_output import write_report
from placesim.formats.sources.loading import load
from placesim.machine.options import SimulationOptions
from placesim.report.report import Report
from placesim.studies.simulation.simulation import SimulationStage, simulate
from tests.documents import is_same
from tests.processes import ROOT, set_surroundings

GOLDEN = ROOT / "tests" / "golden"
GRAPHS = sorted(path.stem for path in (ROOT / "graphs").glob("*.yaml"))
COMMANDS = {"run": SimulationStage.EXECUTED, "place": SimulationStage.PARTITIONED}
FORMS = ("modern.txt", "classic.txt", "json")


@cache
def report_of(graph: str, command: str) -> Report:
    """What the command establishes; done once for all forms."""
    options = SimulationOptions(log_placement=True if command == "place" else None)
    name = f"graphs/{graph}.yaml"
    return Report.of(simulate(load(ROOT / name, name), options, COMMANDS[command]))


def output(graph: str, command: str, form: str) -> str:
    """Standard output, and where there is an error a line with the exit code and standard error."""
    report = replace(report_of(graph, command), style="classic" if form.startswith("classic") else "modern")
    printed, complained = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(complained):
        write_report(report, "json" if form == "json" else "text")
    text = printed.getvalue()
    if form == "json":
        assert text.count("\n") == 1, "one line"
        text = json.dumps(json.loads(text), indent=1) + "\n"
    if report.error is not None:
        text += f"--- exit code {report.error.exit_code}, and on standard error:\n{complained.getvalue()}"
    return text


def cases() -> Iterator[tuple[str, str, str]]:
    for graph in GRAPHS:
        for command in COMMANDS:
            for form in FORMS:
                yield graph, command, form


def path_of(graph: str, command: str, form: str) -> Path:
    return GOLDEN / f"{graph}.{command}.{form}"


@pytest.mark.slow
@pytest.mark.parametrize(("graph", "command", "form"), list(cases()))
def test_output_is_the_golden_one(graph: str, command: str, form: str) -> None:
    expected, found = path_of(graph, command, form).read_text(), output(graph, command, form)
    if is_same(expected, found):
        return
    names = (f"tests/golden/{graph}.{command}.{form}", "now")
    difference = "".join(difflib.unified_diff(expected.splitlines(True), found.splitlines(True), *names))
    pytest.fail(f"{difference}\n`make golden` takes it over")


def test_nothing_else_lies_there() -> None:
    assert sorted(path.name for path in GOLDEN.iterdir()) == sorted(path_of(*case).name for case in cases())


def write() -> None:
    """Write all golden outputs, and remove those of graphs that are gone."""
    GOLDEN.mkdir(exist_ok=True)
    for path in GOLDEN.iterdir():
        path.unlink()
    for case in cases():
        path_of(*case).write_text(output(*case))


if __name__ == "__main__":
    set_surroundings()
    write()
