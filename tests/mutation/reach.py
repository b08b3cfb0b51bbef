"""A pytest plugin (`-p tests.mutation.reach`) that records which tests reach which statements, and how long each takes.

The tests run in a copy of the checkout. There each compiled module sets a byte of a shared file before each of its statements,
in whichever process it runs. That takes far less time than tracing, and a process that is killed has left its bytes behind.
"""

from __future__ import annotations

import ast
import importlib.util
import json
import marshal
import mmap
import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

RECORDING = "MUTATION_RECORDING"
"""The environment variable with the file that the recording is written to."""
TREE = "tree"
BYTES = "bytes"
STATEMENTS = "statements.json"
"""Names in the directory of recordings: the copy, the shared file, and the statements in the order of its bytes."""
HITS_MODULE = "statement_hits"
HITS_SOURCE = """import mmap
with open({file!r}, "r+b") as file:
    HITS = mmap.mmap(file.fileno(), 0)
"""


def probe_modules(directory: Path, folders: list[str]) -> None:
    """Compile the copy's modules in these folders with a probe before each statement."""
    tree = directory / TREE
    statements: list[tuple[str, int]] = []
    for path in sorted(path for folder in folders for path in (tree / folder).rglob("*.py")):
        source = path.read_bytes()
        module = ast.parse(source)
        lines = probe_statements(module, len(statements))
        statements += [(path.relative_to(tree).as_posix(), line) for line in lines]
        compiled = Path(importlib.util.cache_from_source(str(path)))
        compiled.parent.mkdir(exist_ok=True)
        # PEP 552: bit 0 alone marks a file that is used without a look at its source
        header = importlib.util.MAGIC_NUMBER + (1).to_bytes(4, "little") + importlib.util.source_hash(source)
        compiled.write_bytes(header + marshal.dumps(compile(module, str(path), "exec")))
    (directory / STATEMENTS).write_text(json.dumps(statements))
    (directory / BYTES).write_bytes(bytes(len(statements)))
    (tree / f"{HITS_MODULE}.py").write_text(HITS_SOURCE.format(file=str(directory / BYTES)))


def probe_statements(module: ast.Module, number: int) -> list[int]:
    """Add a probe before each statement, numbered from `number`; return the statements' lines."""
    lines: list[int] = []
    for node in list(ast.walk(module)):
        for field in ("body", "orelse", "finalbody"):
            statements = getattr(node, field, None)
            if not isinstance(statements, list):
                continue
            probed: list[ast.stmt] = []
            for statement in statements:
                if not _must_come_first(statement):
                    probed.append(_located(f"__hits__[{number + len(lines)}] = 1", statement))
                    lines.append(statement.lineno)
                probed.append(statement)
            setattr(node, field, probed)
    place = next((place for place, statement in enumerate(module.body) if not _must_come_first(statement)), len(module.body))
    module.body.insert(place, _located(f"from {HITS_MODULE} import HITS as __hits__", ast.Pass(lineno=1, col_offset=0)))
    return lines


def _must_come_first(statement: ast.stmt) -> bool:
    match statement:
        case ast.Expr(value=ast.Constant()) | ast.ImportFrom(module="__future__"):
            return True
    return False


def _located(source: str, place: ast.stmt) -> ast.stmt:
    (probe,) = ast.parse(source).body
    for node in ast.walk(probe):
        ast.copy_location(node, place)
    return probe


class Recording:
    """The plugin itself: a row of bits for each test that passes."""

    def __init__(self, path: Path) -> None:
        self._path = path
        with (path.parent / BYTES).open("r+b") as file:
            self._bytes = mmap.mmap(file.fileno(), 0)
        self._rows: dict[str, np.ndarray] = {}
        self._seconds: dict[str, float] = {}
        self._failed: set[str] = set()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        self._bytes[:] = bytes(len(self._bytes))
        try:
            return (yield)
        finally:
            self._rows[item.nodeid] = np.packbits(np.frombuffer(self._bytes[:], np.uint8))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if not isinstance(report, pytest.SubtestReport):  # its time is within its test's
            self._seconds[report.nodeid] = self._seconds.get(report.nodeid, 0.0) + report.duration
        if report.outcome != "passed":
            self._failed.add(report.nodeid)

    def pytest_sessionfinish(self) -> None:
        passed = [test for test in self._rows if test not in self._failed]
        rows = np.array([self._rows[test] for test in passed], np.uint8)
        with self._path.open("wb") as file:
            np.savez_compressed(file, tests=passed, seconds=[self._seconds[test] for test in passed], rows=rows)


def pytest_configure(config: pytest.Config) -> None:
    if RECORDING in os.environ:
        config.pluginmanager.register(Recording(Path(os.environ.pop(RECORDING))))
