"""TensorFlow's recordings of memory, compared with placesim.

`python -m tests.runtime.accounting.compare FILE...` prints for each file how many cases agree and the first that differ; it
exits with 1 where one differs, or where a file's form has no comparer.  What a file holds is told by its first case.
"""

from __future__ import annotations

import argparse
import gzip
import itertools
import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from tests.machine.memory import bfc
from tests.ops.kernels import memory_models, op_memory
from tests.runtime.accounting import oom

Case = Mapping[str, Any]


class Form(NamedTuple):
    """A form of recording: each case has `keys`; what it is compared by, where that is written."""

    name: str
    keys: tuple[str, ...]
    differences: Callable[[Case], Iterator[str]] | None = None


FORMS = (
    Form("bfc", bfc.KEYS, bfc.differences),
    Form("memory-ops", ("op", "fed"), op_memory.differences),
    Form("memory-models", ("runs", "allocator"), memory_models.differences),
    Form("memory-micro", ("runs", "graph_def"), memory_models.differences),
    Form("oom", oom.KEYS, oom.differences),
)
"""The first form whose keys a case has is the case's."""


def read_cases(path: Path) -> Iterator[Case]:
    """The cases of a file, one a line, compressed or not; raises ValueError where a line is none."""
    data = path.read_bytes()
    text = gzip.decompress(data) if data.startswith(b"\x1f\x8b") else data
    for line in text.splitlines():
        case = json.loads(line)
        if not isinstance(case, dict):
            raise ValueError(f"{path}: a case is an object")
        yield case


def form_of(case: Case) -> Form | None:
    """What form a case has."""
    return next((form for form in FORMS if case.keys() >= set(form.keys)), None)


def compare_file(path: Path, wanted: str, show: int) -> bool:
    """Prints the figures of a file; whether all of it agrees."""
    cases = read_cases(path)
    try:
        first = next(cases, None)
    except ValueError:
        first = None
    form = None if first is None else form_of(first)
    if first is None or form is None or form.differences is None:
        print(f"{path}: " + (f"no comparer for {form.name}" if form else "no recording of memory"))
        return False
    agreed = total = 0
    for case in itertools.chain([first], cases):
        if wanted not in case["id"]:
            continue
        total += 1
        found = list(form.differences(case))
        agreed += not found
        if found and total - agreed <= show:
            print(f"{case['id']}:")
            print("".join(f"    {line:.1000}\n" for line in found), end="")
    print(f"{path} ({form.name}): {agreed} / {total} agreed")
    return agreed == total


def main() -> int:
    """Print the figures; 1 where a case differs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--id", default="", help="only cases with this in their id")
    parser.add_argument("--show", type=int, default=10, help="so many cases that differ are shown")
    options = parser.parse_args()
    differing = sum(not compare_file(path, options.id, options.show) for path in options.files)
    return 1 if differing else 0


if __name__ == "__main__":
    raise SystemExit(main())
