"""Recorded transfers over shared links, compared with placesim.

`python -m tests.prediction.compare_flows FILE...` prints for each file how many cases agree and the first that differ; it exits
with 1 where one differs, or where a file has no such cases.

A case has `id`, `links` (`name`, `bandwidth` in bytes/s, `latency` in s), `flows` (`start` in s, `bytes`, `route` as names of
links) and `end`, when each flow ended: ours must agree to a relative 1e-9.
"""

from __future__ import annotations

import argparse
import gzip
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from placesim.core.errors import PlacesimError
from placesim.machine.timelines.bandwidth_sharing import Flow, Link, transfer_ends

RELATIVE = 1e-9
KEYS = {"id", "links", "flows", "end"}


def read_flows(path: Path) -> list[Mapping[str, Any]]:
    """The cases of a file, one a line, compressed or not; raises ValueError where a line is none."""
    data = path.read_bytes()
    text = gzip.decompress(data) if data.startswith(b"\x1f\x8b") else data
    cases = [json.loads(line) for line in text.splitlines() if line.strip()]
    if not cases:
        raise ValueError("no case in it")
    for number, case in enumerate(cases, 1):
        if not isinstance(case, dict) or not case.keys() >= KEYS:
            raise ValueError(f"line {number} is no case of transfers")
    return cases


def differences(case: Mapping[str, Any]) -> Iterator[str]:
    """Where our ends are others than the recorded ones; nothing where they agree."""
    try:
        numbers = {link["name"]: number for number, link in enumerate(case["links"])}
        links = [Link(link["name"], link["bandwidth"], link["latency"]) for link in case["links"]]
        flows = [Flow(flow["start"], flow["bytes"], tuple(numbers[name] for name in flow["route"])) for flow in case["flows"]]
        ends = transfer_ends(links, flows)
    except PlacesimError as error:
        yield f"refused: {error}"
        return
    except (KeyError, TypeError) as error:
        yield f"not in the form of a case: {error!r}"
        return
    if len(ends) != len(case["end"]):
        yield f"{len(ends)} flows end, expected {len(case['end'])}"
        return
    for number, (mine, recorded) in enumerate(zip(ends, case["end"], strict=True)):
        if not abs(mine - recorded) <= RELATIVE * abs(recorded):
            yield f"flow {number} ends at {mine!r}, expected {recorded!r}"


def compare_file(path: Path, show: int) -> bool:
    """Prints the figures of a file; whether all of it agrees."""
    try:
        cases = read_flows(path)
    except (ValueError, OSError) as error:
        print(f"{path}: no recording of transfers: {error}")
        return False
    agreed = 0
    for number, case in enumerate(cases):
        found = list(differences(case))
        agreed += not found
        if found and number + 1 - agreed <= show:
            print(f"{case['id']}:")
            print("".join(f"    {line}\n" for line in found), end="")
    print(f"{path}: {agreed} / {len(cases)} agreed")
    return agreed == len(cases)


def main() -> int:
    """Print the figures; 1 where a case differs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--show", type=int, default=10, help="so many cases that differ are shown")
    options = parser.parse_args()
    differing = sum(not compare_file(path, options.show) for path in options.files)
    return 1 if differing else 0


if __name__ == "__main__":
    raise SystemExit(main())
