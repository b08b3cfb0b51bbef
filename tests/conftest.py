"""Rules for all tests: their surroundings, and the order in which workers of xdist share them."""

from __future__ import annotations

import gc
import os
import sys
import threading
from collections import Counter
from collections.abc import Generator, Iterator
from functools import cached_property
from itertools import takewhile
from typing import Any

import pytest
from _pytest.runner import runtestprotocol
from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import providers
from hypothesis.internal.constants_ast import Constants
from xdist.remote import Producer
from xdist.scheduler.loadgroup import LoadGroupScheduling
from xdist.workermanage import WorkerController

from placesim.core.operating_system import available_processors
from tests.examples import CI_EXAMPLES
from tests.processes import set_surroundings

SHARED = ("browser", "cluster")
"""Marks of tests that one worker runs, since they share slow processes; whoever uses the fixture of that name has the mark."""

LACKS = {"posix": sys.platform == "win32", "linux": sys.platform != "linux"}
"""Marks of tests, and whether this system lacks what they need."""
NEEDS = {
    "cli/test_completion.py": ("posix", "terminals and shells"),
    "cli/test_process.py": ("posix", "signals, terminals and shells"),
    "fuzz": ("posix", "limits of a process"),
    "ops/process/test_freed_memory.py": ("linux", "glibc"),
    "runtime/cluster": ("posix", "forked processes"),
    "runtime/dask": ("posix", "forked processes"),
    "runtime/executors/test_spelled_sizes.py": ("linux", "peak memory in KiB"),
    "tf1/test_compare.py": ("posix", "forked processes"),
    "tf1/test_corpus.py": ("posix", "forked processes"),
}
"""Files and folders of tests that are left out where they can't be imported, or none could run; each with the reason."""
collect_ignore = [path for path, (system, _) in NEEDS.items() if LACKS[system]]

GARBAGE = 10_000_000
"""The collector of garbage looks at new objects when there are so many: a test's graph is gone before, most often."""

# hypothesis measures no time: neither how long an example takes nor how long it takes to make one
settings.register_profile("ci", max_examples=CI_EXAMPLES, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("test", settings.get_profile("ci"), max_examples=CI_EXAMPLES // 4)
settings.register_profile("dev", settings.get_profile("ci"), max_examples=CI_EXAMPLES // 10)
settings.load_profile("test")
# each worker would parse all modules of placesim for constants to try (5 s in a new clone), which no law needs
providers._get_local_constants = Constants


def pytest_configure() -> None:
    set_surroundings()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection() -> Generator[None, object, object]:
    """Keep the collector of garbage from going through all items while they are made, half of the time that it takes."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


def pytest_collection_finish() -> None:
    """Leave what was collected to no collector of garbage, which looks for it more seldom than in a short process."""
    gc.freeze()
    gc.set_threshold(GARBAGE)


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish() -> None:
    """Leave alone what is left; pytest looks for garbage five times when it ends."""
    gc.freeze()


def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    """Let a worker of xdist report only a test's call, and what fails: reports of all phases take longer than most tests.

    Tables of durations and JUnit's XML need them.
    """
    options = item.config.option
    if not hasattr(item.config, "workerinput") or options.durations is not None or options.xmlpath is not None:
        return None
    for report in runtestprotocol(item, log=False, nextitem=nextitem):
        if report.when == "call" or not report.passed:
            item.ihook.pytest_runtest_logreport(report=report)
    return True


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_call() -> None:
    """Name the threads of xdist, Playwright and Dask as such that begin no steps: a step that waits would wait for them."""
    for thread in threading.enumerate():
        if thread is not threading.current_thread() and not thread.name.startswith("placesim"):
            thread.name = f"placesim-test {thread.name}"


@pytest.fixture(scope="session")
def cluster() -> Iterator[Any]:
    """Dask's LocalCluster of two worker processes with a thread each, which no test changes."""
    distributed = pytest.importorskip("distributed", reason="of the extra `dask`")
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0") as found:
        yield found


class GroupScheduling(LoadGroupScheduling):
    """Tests without a group go by file, so that one worker makes the fixtures of a module."""

    def _split_scope(self, nodeid: str) -> str:
        scope: str = super()._split_scope(nodeid)
        return nodeid.partition("::")[0] if scope == nodeid else scope

    @cached_property
    def _places(self) -> dict[str, int]:
        return {nodeid: place for place, nodeid in enumerate(self.collection or ())}

    def _assign_work_unit(self, node: WorkerController) -> None:
        """As xdist's, which looks for the place of each test among all: more than a second for ten thousand tests."""
        scope, tests = self.workqueue.popitem(last=False)
        self.assigned_work[node][scope] = tests
        node.send_runtest_some([self._places[nodeid] for nodeid, is_done in tests.items() if not is_done])

    def _pending_of(self, workload: dict[str, dict[str, bool]]) -> int:
        """Number of tests that a worker has yet to run. Groups run in turn, so all before a finished one are finished."""
        unfinished = takewhile(lambda tests: not all(tests.values()), reversed(workload.values()))
        return sum(list(tests.values()).count(False) for tests in unfinished)


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int | None:
    """A worker for each processor; one more if tests are not chosen by marks, since some wait for browsers and other processes.

    Each takes seconds to collect all tests. xdist's own variable has priority.
    """
    if "PYTEST_XDIST_AUTO_NUM_WORKERS" in os.environ:
        return None
    return available_processors() + (0 if config.option.markexpr else 1)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> GroupScheduling | None:
    """The scheduling of `--dist loadgroup`."""
    return GroupScheduling(config, log) if config.getoption("dist") == "loadgroup" else None


@pytest.hookimpl(tryfirst=True)  # before xdist reads the groups
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Group what shares a process; begin with slow tests, the longest first, then groups, then files with most tests first."""
    for item in items:
        for system, is_lacking in LACKS.items():
            if is_lacking and (mark := item.get_closest_marker(system)) is not None:
                item.add_marker(pytest.mark.skip(reason=f"needs {mark.args[0]}"))
        for name in SHARED:
            if name in getattr(item, "fixturenames", ()):
                item.add_marker(name)
            if item.get_closest_marker(name):
                item.add_marker(pytest.mark.xdist_group(name))
    if hasattr(config, "workerinput"):
        counts = Counter(item.path for item in items)
        items.sort(key=lambda item: (*_turn(item), -counts[item.path], item.path))
        for place, item in enumerate(items):
            _name_group(item, place)


def _turn(item: pytest.Item) -> tuple[int, float]:
    """Sort key of a test: one whose mark tells its seconds, grouped or neither."""
    slow = item.get_closest_marker("slow")
    if slow and slow.args:
        return 0, -float(slow.args[0])
    return (1 if item.get_closest_marker("xdist_group") else 2), 0.0


def _name_group(item: pytest.Item, place: int) -> None:
    """Write a test's group into its id, where the scheduling reads it; one whose mark tells its seconds is a group by itself.

    xdist does so for older releases of pytest; 9.2 keeps ids elsewhere (pytest-xdist issue 1386).
    """
    group, slow = item.get_closest_marker("xdist_group"), item.get_closest_marker("slow")
    if group or (slow and slow.args):
        item._id = type(item.id).parse(f"{item.nodeid}@{group.args[0] if group else f'slow-{place}'}")
