"""How long a GraphDef takes to read, beside the same graph in YAML; and what a million nodes need.

    python -m tests.benchmarks.graph_def_bench [NODES]

Times are CPU seconds, the best of three, the two readers in turn.
"""

from __future__ import annotations

import gc
import resource
import sys
import time
from collections.abc import Callable, Iterator

from placesim.formats.graph_file.reader import read_graph_file
from placesim.formats.tensorflow.graph_def import read_graph_def, write_graph_def

MILLION = 1_000_000
ROUNDS = 3


def yaml_lines(count: int) -> Iterator[str]:
    """Chains of a constant, an addition and two multiplications, in a hundred scopes."""
    yield "raw: true"
    yield "nodes:"
    for i in range(count):
        name, before = node_name(i), node_name(i - 1)
        if i % 4 == 0:
            yield f"  - {{op: Const, name: {name}, value: {i}.5, shape: [], device: '/device:CPU:0'}}"
        else:
            op, device = ("Add", ", device: '/device:GPU:0'") if i % 4 == 1 else ("Mul", "")
            yield f"  - {{op: {op}, name: {name}, inputs: [{before}, {before}], attrs: {{T: float32}}{device}}}"


def node_name(i: int) -> str:
    return f"layer{i % 100}/{('const', 'add', 'mul', 'mul')[i % 4]}_{i}"


def best_of(run: Callable[[], object]) -> float:
    """CPU seconds of the fastest of some runs."""
    times = []
    for _ in range(ROUNDS):
        gc.collect()
        start = time.process_time()
        run()
        times.append(time.process_time() - start)
    return min(times)


def compare(count: int) -> None:
    """Print the times of both readers."""
    text = "\n".join(yaml_lines(count))
    data = write_graph_def(read_graph_file(text, "bench.yaml"))
    from_yaml = best_of(lambda: read_graph_file(text, "bench.yaml"))
    from_graph_def = best_of(lambda: read_graph_def(data, "bench.pb"))
    ratio = from_graph_def / from_yaml
    print(f"{count} nodes: YAML {from_yaml:.2f} s, GraphDef {from_graph_def:.2f} s, {ratio:.2f} of it")


def measure_million(part: bytes) -> None:
    """Print time and memory of a million nodes, made of a smaller graph's bytes under ever new names."""
    pieces = [part.replace(b"layer", b"l%04d" % i) for i in range(MILLION // 10_000)]
    data = b"".join(pieces)
    start = time.process_time()
    file = read_graph_def(data, "million.pb")
    took = time.process_time() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"{len(file.graph)} nodes: {took:.2f} s, {peak:.0f} MiB at most")


def main() -> None:
    part = write_graph_def(read_graph_file("\n".join(yaml_lines(10_000)), "part.yaml"))
    measure_million(part)
    for count in map(int, sys.argv[1:] or ("10000", "100000")):
        compare(count)


if __name__ == "__main__":
    main()
