"""`coverage json` -> the share of lines and branches that tests reach, by room."""

from __future__ import annotations

import json
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any


def by_room(files: dict[str, Any]) -> Iterator[str]:
    """A line for each folder of the package, for the modules beside them, and for all, from the report's `files`."""
    rooms: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for path, file in sorted(files.items()):
        parts = Path(path).parts
        inside = parts[parts.index("placesim") + 1 :]
        for room in (f"{inside[0]}/" if len(inside) > 1 else "(loose)", "all"):
            rooms[room].update({name: value for name, value in file["summary"].items() if isinstance(value, int)})
    yield f"{'room':<16}{'lines':>8}{'reached':>9}{'branches':>10}{'reached':>9}"
    for room, counts in sorted(rooms.items(), key=lambda item: (item[0] == "all", item[0])):
        lines, branches = counts["num_statements"], counts["num_branches"]
        reached = counts["covered_lines"] / max(1, lines)
        taken = counts["covered_branches"] / max(1, branches)
        yield f"{room:<16}{lines:>8}{reached:>9.1%}{branches:>10}{taken:>9.1%}"


if __name__ == "__main__":
    print("\n".join(by_room(json.loads(Path(sys.argv[1]).read_text())["files"])))
