"""`python -m tests.mutation`: change random lines of the package, one at a time, and tell which changes no test notices."""

from __future__ import annotations

import argparse
import contextlib
import difflib
import json
import multiprocessing
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import NamedTuple

import hypothesis  # noqa: F401  pytest and the packages are imported once, for all mutants
import numpy as np
import pytest

from tests.mutation.mutants import Mutant, find_mutants
from tests.mutation.reach import RECORDING, STATEMENTS, TREE, probe_modules

ROOT = Path(__file__).parent.parent.parent
FOLDERS = [f"placesim/{name}" for name in ("placement", "runtime", "prediction", "planning")]
KERNELS = "placesim/ops/kernels"
FIRST_TESTS = 40
TEST_SECONDS = 30
"""A test is interrupted when it takes this longer than five times its recorded seconds."""
HARNESS_FAILED = 99
BYTES = 8 << 30
"""What a process may take: a mutant may never end, and take ever more."""


class Result(NamedTuple):
    """How a mutant fared: `caught` by a test, `timeout`, `survived` or `not reached`."""

    mutant: Mutant
    outcome: str
    test: str = ""


class Reach:
    """Which tests reach a statement, from recordings."""

    def __init__(self, directory: Path) -> None:
        self.seconds: dict[str, float] = {}
        self._tree = directory / TREE
        self._numbers = {tuple(place): number for number, place in enumerate(json.loads((directory / STATEMENTS).read_text()))}
        self._rows: dict[str, np.ndarray] = {}
        for path in sorted(directory.glob("*.npz"), key=lambda path: path.stat().st_mtime):
            with np.load(path) as data:
                tests = data["tests"].tolist()
                self.seconds.update(zip(tests, data["seconds"].tolist(), strict=True))
                self._rows.update(zip(tests, data["rows"], strict=True))

    def tests(self, mutant: Mutant) -> list[str]:
        """The tests that reach the mutant's statement, or, where it may run at import, its module.

        Those of its own room come first, and of these the first of each file, then the fastest. A statement that is newer than
        the recordings is tested by the tests of its own room.
        """
        rooms = (folder.relative_to("placesim") for folder in Path(mutant.path).parents)
        own = f"tests/{next(room for room in rooms if (ROOT / 'tests' / room).is_dir()).as_posix()}/"
        if mutant.is_early:
            numbers = [number for (path, _), number in self._numbers.items() if path == mutant.path]
        elif (place := (mutant.path, self._recorded_line(mutant.path, mutant.first))) in self._numbers:
            numbers = [self._numbers[place]]
        else:
            return self._rank((test for test in self.seconds if test.startswith(own)), own)
        return self._rank(
            (test for test, row in self._rows.items() if any(row[number >> 3] << (number & 7) & 128 for number in numbers)), own
        )

    def _recorded_line(self, path: str, line: int) -> int:
        """The line's number when it was recorded; 0 where it is new."""
        recorded = self._tree / path
        if recorded.exists():
            texts = recorded.read_text().splitlines(), (ROOT / path).read_text().splitlines()
            for old, new, size in difflib.SequenceMatcher(None, *texts, autojunk=False).get_matching_blocks():
                if new < line <= new + size:
                    return old + line - new
        return 0

    def _rank(self, tests: Iterable[str], own: str) -> list[str]:
        by_file: defaultdict[str, int] = defaultdict(int)
        ranked = []
        for test in sorted(tests, key=lambda test: (self.seconds[test], test)):
            file = test.partition("::")[0]
            ranked.append((not test.startswith(own), by_file[file] // 4, self.seconds[test], test))
            by_file[file] += 1
        return [test for *_, test in sorted(ranked)]


def copy_tree(target: Path) -> None:
    """The checkout's files as they are, without what git ignores."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=ROOT, capture_output=True, check=True
    )
    for name in filter(None, os.fsdecode(listed.stdout).split("\0")):
        if (ROOT / name).is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, target / name)


def record(directory: Path, folders: list[str], tests: list[str]) -> None:
    """Run the tests, a process for each path of `tests`, and keep which statements each test reaches.

    Without `tests` all are recorded, but for what is recorded already.
    """
    tree = directory / TREE
    if not tree.exists():
        copy_tree(tree)
        probe_modules(directory, folders)
    every = [path.relative_to(ROOT).as_posix() for path in sorted((ROOT / "tests").iterdir()) if _has_tests(path)]
    for path in tests or every:
        recording = directory / f"{path.replace('/', '-')}.npz"
        if tests or not recording.exists():
            shutil.copytree(ROOT / "tests", tree / "tests", dirs_exist_ok=True)  # tests may be newer than the copy
            environment = {**os.environ, RECORDING: str(recording), "PYTHONPATH": str(tree)}
            command = [sys.executable, "-m", "pytest", "-p", "tests.mutation.reach", "-n", "0", "-p", "no:cacheprovider", path]
            subprocess.run(command, cwd=tree, env=environment, check=False)


def _has_tests(path: Path) -> bool:
    return any(path.rglob("test_*.py")) if path.is_dir() else path.match("test_*.py")


class Watch:
    """A pytest plugin that writes the test that fails, and interrupts one that takes too long."""

    def __init__(self, path: Path, seconds: dict[str, float]) -> None:
        self._path = path
        self._seconds = seconds
        signal.signal(signal.SIGALRM, signal.default_int_handler)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        signal.alarm(TEST_SECONDS + int(5 * self._seconds.get(item.nodeid, 0)))
        try:
            return (yield)
        finally:
            signal.alarm(0)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self._path.write_text(report.nodeid)


def wait(process: int, limit: float) -> int | None:
    """The status with which a process ended; None where it still runs at that time."""
    while time.monotonic() < limit:
        ended, status = os.waitpid(process, os.WNOHANG)
        if ended:
            return status
        time.sleep(0.02)
    return None


class Tree:
    """A copy of the checkout, in which one mutant at a time is tested, by a process that is forked from this one."""

    def __init__(self, reach: Reach, seconds: float, scratch: Path) -> None:
        self._path = Path(tempfile.mkdtemp(prefix="mutation-", dir=scratch))
        self._reach = reach
        self._seconds = seconds
        self._stamp = 1_000_000_000
        self._sound: set[str] = set()
        self._broken: set[str] = set()
        copy_tree(self._path)

    def judge(self, mutant: Mutant) -> Result:
        """Run the tests that reach the mutant, up to the first that notices it."""
        source = (ROOT / mutant.path).read_text()
        while True:
            tests = [test for test in self._reach.tests(mutant) if test not in self._broken]
            if not tests:
                return Result(mutant, "not reached")
            self._write(mutant.path, mutant.apply(source))
            outcome, caught = self._run_batches(tests)
            self._write(mutant.path, source)
            if outcome != "caught" or caught in self._sound:
                return Result(mutant, outcome, caught)
            code, broken = self._run([caught] if caught else tests[:FIRST_TESTS])
            if code == 0:
                self._sound |= {caught} - {""}
                return Result(mutant, outcome, caught)
            self._broken.add(broken or caught or tests[0])  # it fails without the mutant, too

    def _write(self, path: str, source: str) -> None:
        """The file gets a new time, so that no compiled file passes for another's."""
        self._stamp += 1
        (self._path / path).write_text(source)
        os.utime(self._path / path, (self._stamp, self._stamp))

    def _run_batches(self, tests: list[str]) -> tuple[str, str]:
        took = 0.0
        rest = []
        for test in tests[FIRST_TESTS:]:
            took += self._reach.seconds[test]
            if took < self._seconds:
                rest.append(test)
        for batch in filter(None, (tests[:FIRST_TESTS], rest)):
            code, caught = self._run(batch)
            if code is None:
                return "timeout", ""
            if code:
                return "caught", caught
        return "survived", ""

    def _run(self, tests: list[str]) -> tuple[int | None, str]:
        """The exit code of pytest, None where it takes too long, and the test that failed."""
        failed = self._path / "failed"
        failed.unlink(missing_ok=True)
        process = os.fork()
        if process == 0:
            try:
                os._exit(self._test(tests, failed))
            finally:
                os._exit(HARNESS_FAILED)
        limit = time.monotonic() + 60 + 5 * sum(self._reach.seconds[test] for test in tests)
        status = wait(process, limit)
        in_time = status is not None
        if status is None:
            os.kill(process, signal.SIGINT)  # tests end what they started
            status = wait(process, time.monotonic() + 10)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process, signal.SIGKILL)
        if status is None:
            _, status = os.waitpid(process, 0)
        code = os.waitstatus_to_exitcode(status)
        if not in_time or code == pytest.ExitCode.INTERRUPTED:
            return None, ""
        if code == HARNESS_FAILED:
            raise RuntimeError(f"pytest could not be started: see {self._path / 'log'}")
        return code, failed.read_text() if failed.exists() else ""

    def _test(self, tests: list[str], failed: Path) -> int:
        os.setpgid(0, 0)
        resource.setrlimit(resource.RLIMIT_DATA, (BYTES, BYTES))
        os.chdir(self._path)
        os.environ["PYTHONPATH"] = str(self._path)
        sys.path[:] = [str(self._path), *(path for path in sys.path if path not in ("", str(ROOT)))]
        for name in [name for name in sys.modules if name.partition(".")[0] in ("tests", "placesim")]:
            del sys.modules[name]
        log = os.open("log", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(log, 1)
        os.dup2(log, 2)
        return int(
            pytest.main(
                ["-x", "-n", "0", "-p", "no:cacheprovider", "--tb=short", *tests], plugins=[Watch(failed, self._reach.seconds)]
            )
        )


def choose(folders: list[str], count: int, seed: int) -> list[Mutant]:
    """Mutants of as many lines, drawn from all lines that have one."""
    by_line: defaultdict[tuple[str, int], list[Mutant]] = defaultdict(list)
    for folder in folders:
        for path in sorted((ROOT / folder).rglob("*.py")):
            name = path.relative_to(ROOT).as_posix()
            for mutant in find_mutants(name, path.read_text()):
                by_line[name, mutant.line].append(mutant)
    chance = random.Random(seed)
    lines = sorted(by_line)
    chance.shuffle(lines)
    chosen: list[Mutant] = []
    for line in lines:
        if len(chosen) == count:
            break
        mutant = chance.choice(by_line[line])
        if mutant.compiles((ROOT / mutant.path).read_text()):
            chosen.append(mutant)
    return chosen


def missed(results: Path) -> list[Mutant]:
    """The mutants that an earlier run's tests did not catch."""
    rows = json.loads(results.read_text())
    return [
        Mutant(**{name: row[name] for name in Mutant._fields if name in row})
        for row in rows
        if row["outcome"] in ("survived", "not reached")
    ]


def told(result: Result) -> str:
    mutant = result.mutant
    line = f"{result.outcome:<11} {mutant.path}:{mutant.line}: {mutant.old} -> {mutant.new}"
    if result.outcome == "caught":
        return f"{line}  ({result.test or 'an error before the first test'})"
    if result.outcome == "timeout":
        return line
    return f"{line}\n{mutant.diff((ROOT / mutant.path).read_text())}"


def shares(results: list[Result]) -> Iterator[str]:
    """The share that is caught, for each folder and in all."""
    counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for result in results:
        for name in ("/".join(result.mutant.path.split("/")[:2]), "all"):
            counts[name][result.outcome] += 1
    for name, count in sorted(counts.items(), key=lambda item: (item[0] == "all", item[0])):
        caught = count["caught"] + count["timeout"]
        rest = f"{count['survived']} survived, {count['not reached']} not reached"
        yield f"{name}: {caught} of {count.total()} caught ({caught / count.total():.0%}), {rest}"


_TREE: list[Tree] = []


def _open_tree(reach: Path, seconds: float, scratch: Path) -> None:
    _TREE.append(Tree(Reach(reach), seconds, scratch))


def _judge(mutant: Mutant) -> Result:
    return _TREE[0].judge(mutant)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.mutation", description=__doc__)
    parser.add_argument("folders", nargs="*", default=FOLDERS, help=f"folders to change; {' '.join(FOLDERS)} without")
    parser.add_argument("--kernels", action="store_true", help="change kernels, too")
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--seconds", type=float, default=120, help="the time of a mutant's tests, after the first few")
    parser.add_argument(
        "--tests", nargs="*", default=[], help="paths of tests to record anew; all that are not recorded without"
    )
    parser.add_argument(
        "--reach", type=Path, help="a directory that keeps which test reaches what, and is read where it is there"
    )
    parser.add_argument("--again", type=Path, help="an earlier --output: test only its mutants that were not caught")
    parser.add_argument("--list", action="store_true", help="print the mutants, and test none")
    parser.add_argument("--output", type=Path, help="a JSON file with the results")
    given = parser.parse_args()
    folders = [*given.folders, *([KERNELS] if given.kernels else [])]
    mutants = missed(given.again) if given.again else choose(folders, given.count, given.seed)
    if given.list:
        print("\n".join(mutant.diff((ROOT / mutant.path).read_text()) for mutant in mutants))
        return
    with tempfile.TemporaryDirectory(prefix="mutation-") as name:
        scratch = Path(name)
        reach = (given.reach or scratch / "reach").resolve()
        record(reach, folders, given.tests)
        results = []
        fork = multiprocessing.get_context("fork")
        # its workers, unlike those of a `Pool`, may have children, as the tests of clusters do
        with ProcessPoolExecutor(given.jobs, fork, _open_tree, (reach, given.seconds, scratch)) as pool:
            for judged in as_completed([pool.submit(_judge, mutant) for mutant in mutants]):
                results.append(judged.result())
                print(told(results[-1]), flush=True)
    print("\n".join(shares(results)))
    if given.output:
        rows = [{**result.mutant._asdict(), "outcome": result.outcome, "test": result.test} for result in sorted(results)]
        given.output.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
