"""Processor time of whole processes beside `python -c "import click, yaml, numpy"`: `python -m tests.benchmarks.start_bench`.

The limits are 0.9 for `devices` and 1.9 for `run`; the shortest of several rounds counts, taken in turn.
"""

from __future__ import annotations

import sys

from tests.benchmarks.processes import usage_of

ROUNDS = 10
COMMANDS = {
    "import click, yaml, numpy": ["-c", "import click, yaml, numpy"],
    "devices --cpu 3 --gpu 2": ["-m", "placesim", "devices", "--cpu", "3", "--gpu", "2"],
    "run graphs/logging.yaml": ["-m", "placesim", "run", "graphs/logging.yaml", "--log-placement"],
}


def measure() -> dict[str, float]:
    """Each command's shortest time in seconds."""
    rounds = [[usage_of([sys.executable, *arguments]).seconds for arguments in COMMANDS.values()] for _ in range(ROUNDS)]
    return dict(zip(COMMANDS, map(min, zip(*rounds, strict=True)), strict=True))


def main() -> None:
    """Print each command's time, and its ratio to the first's."""
    shortest = measure()
    least = next(iter(shortest.values()))
    for name, found in shortest.items():
        print(f"{name:28s} {found * 1000:6.0f} ms  {found / least:.2f}x")


if __name__ == "__main__":
    main()
