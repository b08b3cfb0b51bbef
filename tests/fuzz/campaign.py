"""Surfaces tried for some time: what was found, each once and made small, and how much was tried."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from itertools import count
from pathlib import Path
from random import Random
from typing import NamedTuple

from tests.fuzz.findings import Finding, judge
from tests.fuzz.inputs import Input, Surface, write_files
from tests.fuzz.runner import HANG, Runner
from tests.fuzz.shrinking import shrink
from tests.fuzz.surfaces import graphs, onnx_files, op_cases, options, reports, signatures, tensorflow_files

SURFACES: dict[str, Surface] = {
    "graphs": graphs.inputs,
    "op-cases": op_cases.inputs,
    "signatures": signatures.inputs,
    "tensorflow-files": tensorflow_files.inputs,
    "onnx-files": onnx_files.inputs,
    "reports": reports.inputs,
    "options": options.inputs,
}
_MAX_SHOWN = 400
_SHRINK_SECONDS = 10.0
_CONFIRMED_AFTER = 2
"""So many times its limit an input may take that is tried once more."""

Key = tuple[str, str, str]


class Discovery(NamedTuple):
    """A finding, the smallest input that ends in it, and whether it does so in a fresh process."""

    surface: str
    finding: Finding
    smallest: Input
    is_stable: bool

    @property
    def headline(self) -> str:
        """What is wrong, and where."""
        finding = self.finding
        parts = (
            finding.kind,
            finding.error,
            finding.frame and f"at {finding.frame}",
            "" if self.is_stable else "(not in a fresh process)",
        )
        return f"[{self.surface}] {' '.join(filter(None, parts))}"

    def __str__(self) -> str:
        files = (
            f"\n    {name!r}: {content[:_MAX_SHOWN]!r}{'...' * (len(content) > _MAX_SHOWN)}"
            for name, content in self.smallest.files.items()
        )
        lines = (self.headline, repr(self.finding.message), self.smallest.shell()[:_MAX_SHOWN])
        return "\n    ".join(lines) + "".join(files)


class Campaign:
    """Runs inputs and keeps what it finds; `keep` is where each finding gets a folder."""

    def __init__(self, runner: Runner, keep: Path | None = None, say: Callable[[str], None] = print) -> None:
        self._runner = runner
        self._keep = keep
        self._say = say
        self.found: dict[Key, Discovery] = {}
        self.tried: dict[str, int] = {}
        self.hits: dict[Key, int] = {}

    def run(self, surfaces: Mapping[str, Surface], seed: str, seconds: float) -> None:
        """Each surface for an equal part of the time."""
        for name, surface in surfaces.items():
            end = time.monotonic() + seconds / len(surfaces)
            self.run_surface(name, surface(Random(f"{seed}/{name}")), end)

    def run_surface(self, name: str, inputs: Iterator[Input], end: float) -> None:
        """Inputs until the clock says `end`, or until there are no more."""
        for given in inputs:
            if time.monotonic() > end:
                return
            self.tried[name] = self.tried.get(name, 0) + 1
            self._try(name, given)

    def _try(self, surface: str, given: Input) -> None:
        for finding in judge(given, self._runner.run(given), self._runner):
            if finding.kind == HANG and not self._hangs(given):
                continue
            self.hits[finding.key] = self.hits.get(finding.key, 0) + 1
            if finding.key not in self.found:
                self.found[finding.key] = found = self._settled(surface, finding, given)
                self._say(found.headline)
                self._write(found)

    def _hangs(self, given: Input) -> bool:
        """Whether an input takes too long in a fresh process and with more time, too: the machine may have been busy."""
        self._runner.restart()
        return self._runner.run(given, self._runner.limits.seconds * _CONFIRMED_AFTER).fate == HANG

    def _settled(self, surface: str, finding: Finding, given: Input) -> Discovery:
        self._runner.restart()
        if not any(self._ends_in(finding, given) for _ in range(2)):  # twice: on a busy machine one may be cut off
            return Discovery(surface, finding, given, False)
        if finding.kind == HANG:
            return Discovery(surface, finding, given, True)
        return Discovery(
            surface, finding, shrink(given, lambda smaller: self._ends_in(finding, smaller), _SHRINK_SECONDS), True
        )

    def _ends_in(self, finding: Finding, given: Input) -> bool:
        outcome = self._runner.run(given)
        return any(other.key == finding.key for other in judge(given, outcome, self._runner))

    def _write(self, found: Discovery) -> None:
        if self._keep is None:
            return
        folder = next(path for n in count(1) if not (path := self._keep / f"{found.surface}-{n}").exists())
        folder.mkdir(parents=True)
        write_files(found.smallest.files, folder)
        facts = {
            **found.finding._asdict(),
            "surface": found.surface,
            "argv": found.smallest.argv,
            "command": found.smallest.shell(),
        }
        (folder / "finding.json").write_text(json.dumps(facts, indent=1) + "\n")

    def summary(self) -> str:
        """What was tried and found, by surface, and how often each finding came up."""
        lines = [f"{'surface':18} {'inputs':>8} {'findings':>9}"]
        for name, tried in self.tried.items():
            distinct = sum(found.surface == name for found in self.found.values())
            lines.append(f"{name:18} {tried:8} {distinct:9}")
        for key, found in sorted(self.found.items(), key=lambda item: -self.hits[item[0]]):
            lines.append(f"{self.hits[key]:6} x {found}")
        return "\n".join(lines)
