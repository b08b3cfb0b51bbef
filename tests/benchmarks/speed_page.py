"""Measure placesim and write the tables of `placesim manual speed`: `make speed`.

Each section of the page has one table, whose rows are replaced.  All figures are processor time, since
other processes on the machine hardly change it.  Both sides of a ratio run in turns.  `--only NAME` measures one table.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import NamedTuple

from placesim.formats.graph_file.reader import read_graph_file
from placesim.formats.tensorflow.graph_def import write_graph_def
from tests.benchmarks import start_bench
from tests.benchmarks.beside_tensorflow import ROWS, OtherSide, measure
from tests.benchmarks.processes import ROOT, usage_of
from tests.benchmarks.reading_bench import graph_text

PAGE = ROOT / "placesim" / "manual" / "speed.md"
TURNS = 3
GPUS = ("--gpu-model", "Tesla V100-SXM2-16GB")


class Growth(NamedTuple):
    """A command of growing graphs: its name in the table, the largest number of nodes, the kind of file, and its options."""

    name: str
    nodes: int
    kind: str
    options: Sequence[str]


GROWTHS = (
    Growth("`place`, graph file", 1_000_000, "yaml", ("place", "--gpu", "1")),
    Growth("`place`, GraphDef", 1_000_000, "pb", ("place", "--gpu", "1")),
    Growth("`simulate`, graph file", 100_000, "yaml", ("simulate", "--gpu", "1", *GPUS)),
    Growth(
        "`plan`, 20 evaluations",
        20_000,
        "yaml",
        ("plan", "--gpu", "2", *GPUS, "--free-all", "--soft-placement", "--evaluations", "20"),
    ),
)


def write_graph(path: Path, nodes: int) -> None:
    """Write a graph of so many nodes as a graph file or, with the ending `.pb`, as a GraphDef."""
    text = graph_text(nodes)
    path.write_bytes(write_graph_def(read_graph_file(text, "graph.yaml")) if path.suffix == ".pb" else text.encode())


def growth_rows() -> Iterator[str]:
    """Seconds and memory for a quarter of the nodes, half of them, and all."""
    for row in GROWTHS:
        for nodes in (row.nodes // 4, row.nodes // 2, row.nodes):
            with tempfile.TemporaryDirectory() as directory:
                path = Path(directory, f"graph.{row.kind}")
                # another process makes the graph: Linux counts this process's memory in the peak of a command that it starts
                with ProcessPoolExecutor(1, get_context("spawn")) as maker:
                    maker.submit(write_graph, path, nodes).result()
                found = usage_of([sys.executable, "-m", "placesim", *row.options, str(path)])
            microseconds = found.seconds / nodes * 1e6
            yield f"| {row.name} | {nodes:,} | {found.seconds:.1f} | {microseconds:.1f} | {found.mebibytes:,} |"


def start_rows() -> Iterator[str]:
    """Seconds of short commands, and their ratio to the imports."""
    found = start_bench.measure()
    least = next(iter(found.values()))
    for name, seconds in found.items():
        yield f"| `{name}` | {seconds * 1e3:.0f} ms | {seconds / least:.2f} |"


def step_rows() -> Iterator[str]:
    """Steps of models in one thread, in turns with TensorFlow's."""
    python = os.environ.get("TENSORFLOW_PYTHON")
    if not python:
        sys.exit("where is TensorFlow? `make speed` makes a Python with it; or set $TENSORFLOW_PYTHON")
    side = OtherSide(python, has_onednn=True)
    for row in ROWS:
        model = row.build()
        theirs, ours = measure(model, side, TURNS, 1, optimizes=False)
        yield f"| {model.name} | {theirs * 1e3:.1f} ms | {ours * 1e3:.1f} ms | {ours / theirs:.2f} |"
    side.close()


HEADINGS = {"start": "Start-up", "growth": "Growth", "steps": "Steps beside TensorFlow"}
TABLES: dict[str, Callable[[], Iterator[str]]] = {"start": start_rows, "growth": growth_rows, "steps": step_rows}


def write_rows(name: str, rows: Sequence[str]) -> None:
    """Replace the rows of the table of a section, below its head of two lines."""
    table = re.compile(rf"(## {HEADINGS[name]}\n[^#|]*(?:\|.*\n){{2}})(?:\|.*\n)*")
    text = "".join(f"{row}\n" for row in rows)
    PAGE.write_text(table.sub(lambda found: found[1] + text, PAGE.read_text(encoding="utf-8")), encoding="utf-8")


def main() -> None:
    """Measure the tables, and write each into the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=TABLES)
    only = parser.parse_args().only
    for name in [only] if only else TABLES:
        rows = []
        for line in TABLES[name]():
            print(line, flush=True)
            rows.append(line)
        write_rows(name, rows)


if __name__ == "__main__":
    main()
