"""Free memory of the machine and of this process's control group."""

from __future__ import annotations

import sys
from pathlib import Path


def free_bytes() -> int:
    """Return the free bytes of the machine or the process's control group, whichever are fewer.

    If neither is known, the result is a very large number.
    """
    return min(_available_bytes(), _group_bytes())


def _available_bytes() -> int:
    try:
        for line in Path("/proc/meminfo").read_bytes().splitlines():
            if line.startswith(b"MemAvailable:"):
                return int(line.split()[1]) * 1024
    except (OSError, ValueError, IndexError):
        pass
    return sys.maxsize


def _group_bytes() -> int:
    """Return the unused bytes of the control group's limit (cgroup version 2 or 1)."""
    root = Path("/sys/fs/cgroup")
    for group, limit, used in (
        (root, "memory.max", "memory.current"),
        (root / "memory", "memory.limit_in_bytes", "memory.usage_in_bytes"),
    ):
        try:
            in_use = int((group / used).read_text()) - _cached_bytes(group)
            return max(0, int((group / limit).read_text()) - in_use)
        except (OSError, ValueError):
            continue
    return sys.maxsize


def _cached_bytes(group: Path) -> int:
    """Return the bytes of cached files in a control group, which the system would release at once."""
    lines = map(str.split, (group / "memory.stat").read_text().splitlines())
    return sum(int(words[1]) for words in lines if words[0] in ("inactive_file", "active_file"))
