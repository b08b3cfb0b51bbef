"""A pytest plugin that records which tests reach which lines, and how long each takes; loaded with `-p tests.mutation.reach`.

coverage starts itself in each process that finds COVERAGE_PROCESS_START: pytest, xdist's workers, and what a test starts,
whose lines stand under that test's name, too.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import coverage
import pytest

DIRECTORY = "MUTATION_REACH"
"""The environment variable with the directory of the recordings."""
TEST = "MUTATION_TEST"
"""The one with the running test's name, which is the context of processes that it starts."""
SETTINGS = f"""[run]
include = {{include}}
data_file = {{directory}}/.coverage
parallel = true
patch = _exit
sigterm = true
concurrency = thread,greenlet
context = ${{{{{TEST}-}}}}
"""
SECONDS: dict[str, float] = {}
"""What each test took."""
FAILED: set[str] = set()


def name_test(nodeid: str) -> str:
    """The test's id, without the group that xdist's scheduling reads from it."""
    end = nodeid.rfind("@")
    return nodeid[:end] if end > nodeid.rfind("]") else nodeid


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    measured = coverage.Coverage.current()
    assert measured is not None
    os.environ[TEST] = name_test(item.nodeid)
    measured.switch_context(os.environ[TEST])
    try:
        return (yield)
    finally:
        measured.switch_context("")


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    test = name_test(report.nodeid)
    if not isinstance(report, pytest.SubtestReport):  # its time is within its test's
        SECONDS[test] = SECONDS.get(test, 0.0) + report.duration
    if report.outcome != "passed":
        FAILED.add(test)


def pytest_sessionfinish() -> None:
    """Write the lines, and the times of the tests that passed; xdist's own process has all of these."""
    measured = coverage.Coverage.current()
    if measured is not None:
        measured.stop()
        measured.save()
    if "PYTEST_XDIST_WORKER" not in os.environ:
        passed = {test: seconds for test, seconds in SECONDS.items() if test not in FAILED}
        Path(os.environ[DIRECTORY], "seconds.json").write_text(json.dumps(passed))
