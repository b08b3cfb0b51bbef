"""Compiler of the op tables: `tensorflow-*.ops` beside this module become the compressed tables that the package reads.

`python -m placesim.ops.compile_tables` (a part of `make tables`) writes each table that no longer agrees with its source. To
add an op, add its paragraph to the source; to add a release, add a source. The sources are in the repository but not in the
wheel.
"""

from __future__ import annotations

import gzip
import json
import sys
from pathlib import Path

from placesim.core.errors import GraphFileError
from placesim.ops.source import SourceFacts, read_source

FOLDER = Path(__file__).parent


def table_lines(facts: SourceFacts) -> str:
    """Return a line with the release, and a line of JSON per op, so that one op can be read without the others."""
    head = json.dumps({"tensorflow": facts.release})
    rows = ([name, op, facts.kernels[name]] for name, op in facts.ops.items())
    return "".join(f"{line}\n" for line in (head, *(json.dumps(row, separators=(",", ":")) for row in rows)))


def compress(text: str) -> bytes:
    """Compress a text deterministically, without time and file name."""
    return gzip.compress(text.encode(), 9, mtime=0)


def table_of(source: Path) -> Path:
    """Return the path of a source's table."""
    return source.with_suffix(".json.gz")


def compile_table(source: Path) -> bool:
    """Write a source's table if it has changed; return whether it was written. Raises GraphFileError for an invalid source.

    A table with the same contents is kept, since another version of zlib would write other bytes.
    """
    text = table_lines(read_source(source.read_text(encoding="utf-8"), str(source)))
    table = table_of(source)
    if table.exists() and gzip.decompress(table.read_bytes()).decode() == text:
        return False
    table.write_bytes(compress(text))
    return True


def main() -> int:
    """Compile all sources; return the exit code, 2 if one is invalid."""
    code = 0
    for source in sorted(FOLDER.glob("tensorflow-*.ops")):
        try:
            if compile_table(source):
                print(f"wrote {table_of(source).name}")
        except GraphFileError as error:
            print(error, file=sys.stderr)
            code = 2
    return code


if __name__ == "__main__":
    sys.exit(main())
