"""A pytest plugin that records which tests reach which lines, and how long each takes; loaded with `-p tests.mutation.reach`.

It is loaded in each of xdist's workers. A process that a test starts writes its lines under that test's name, too.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import coverage
import pytest

PLACE = "MUTATION_REACH"
"""The environment variable with the directory of the recordings."""
TEST = "MUTATION_TEST"
"""The one with the name of the test that runs, which coverage's settings take as their context."""
SETTINGS = f"""[run]
source = {{source}}
data_file = {{place}}/.coverage
parallel = true
patch = subprocess
concurrency = thread
core = ctrace
context = ${{{{{TEST}-}}}}
"""


class Recorder:
    """Writes the context and the time of each test that passes."""

    def __init__(self, measured: coverage.Coverage, place: Path) -> None:
        self._measured = measured
        self._place = place
        self._seconds: dict[str, float] = {}
        self._failed: set[str] = set()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        os.environ[TEST] = item.nodeid
        self._measured.switch_context(item.nodeid)
        return (yield)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._seconds[report.nodeid] = self._seconds.get(report.nodeid, 0.0) + report.duration
        if report.outcome != "passed":
            self._failed.add(report.nodeid)

    def pytest_unconfigure(self) -> None:
        self._measured.stop()
        self._measured.save()
        passed = {test: seconds for test, seconds in self._seconds.items() if test not in self._failed}
        (self._place / f"seconds-{os.getpid()}.json").write_text(json.dumps(passed))


def pytest_configure(config: Any) -> None:
    if config.getoption("numprocesses", None):
        return  # xdist's own process runs no test
    place = Path(os.environ[PLACE])
    config.pluginmanager.register(Recorder(_MEASURED, place))


def _start() -> coverage.Coverage:
    """Coverage of this process, begun before anything of the package is imported."""
    os.environ[TEST] = ""
    settings = os.path.join(os.environ[PLACE], "settings")
    os.environ["COVERAGE_PROCESS_START"] = settings
    measured = coverage.Coverage(config_file=settings)
    os.environ.pop("COVERAGE_PROCESS_CONFIG", None)
    measured.start()
    return measured


assert not any(name.partition(".")[0] == "placesim" for name in sys.modules)
_MEASURED = _start()
