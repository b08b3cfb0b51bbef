"""A folder of scripts against a recording of what TensorFlow made of them.

`python -m tests.tf1.compare SCRIPTS GRAPHS.jsonl.gz [--show N] [PATTERN...]`

Prints scripts and nodes that agree, of how many, by topic (a script's name up to the first `_`), and the first difference of N
scripts that do not.  A record has the fields of the corpus (`../data/tf1/README.md`); those of public scripts may have `argv`
(what follows the script on its command line: a list, or a text as a shell has it), `call` (Python lines, a list or a text, that
are run once the script is loaded as a module that is no main program) and `mode`.  The exit code is 0 where all agree, 1 where
not, 2 where there is nothing to compare.
"""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from tests.tf1.comparing import first_difference, nodes_that_agree
from tests.tf1.corpus import Record, matching, read_records
from tests.tf1.recording import record_in_fork

_MOST_SHOWN = 1200


class ScriptComparison(NamedTuple):
    """A script held against its record: the first difference, None for none; nodes that agree, and all of TensorFlow's."""

    name: str
    difference: str | None
    nodes: int
    all_nodes: int

    @property
    def topic(self) -> str:
        return self.name.partition("_")[0]


def argv_of(record: Record) -> list[str]:
    """What follows the script on its command line."""
    given = record.get("argv") or []
    return shlex.split(given) if isinstance(given, str) else list(map(str, given))


def call_of(record: Record) -> str:
    """The lines that are run once the script is loaded."""
    given = record.get("call") or ""
    return given if isinstance(given, str) else "\n".join(given)


def compare(script: Path, record: Record) -> ScriptComparison:
    """Run a script, and hold what it made against a record."""
    name = record["id"]
    if not script.is_file():
        return ScriptComparison(name, f"no script {script}", *nodes_that_agree(record, {}))
    got = record_in_fork(script, record["mode"], argv_of(record), call_of(record))
    return ScriptComparison(name, first_difference(record, got), *nodes_that_agree(record, got))


def compare_all(scripts: Path, records: Iterable[Record]) -> Iterator[ScriptComparison]:
    """Each script of a folder that has a record."""
    for record in records:
        yield compare(scripts / f"{record['id'].removesuffix('.py')}.py", record)


def shortened(difference: str) -> str:
    """A difference that is not too long to be shown."""
    return difference if len(difference) < _MOST_SHOWN else f"{difference[:300]} ...\n{difference[-800:]}"


def table(compared: Sequence[ScriptComparison]) -> str:
    """Scripts and nodes that agree, of how many, by topic and in all."""
    topics = list(dict.fromkeys(one.topic for one in compared))
    rows = [_row(topic, [one for one in compared if one.topic == topic]) for topic in topics]
    return "\n".join([f"{'topic':<12} {'scripts':>10} {'nodes':>16}", *rows, _row("all", compared)])


def _row(title: str, compared: Sequence[ScriptComparison]) -> str:
    scripts = f"{sum(one.difference is None for one in compared)}/{len(compared)}"
    nodes = f"{sum(one.nodes for one in compared)}/{sum(one.all_nodes for one in compared)}"
    return f"{title:<12} {scripts:>10} {nodes:>16}"


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line.  Gives the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.tf1.compare", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("scripts", type=lambda text: Path(text).resolve(), help="the folder of scripts")
    parser.add_argument("graphs", type=Path, help="the recording, GRAPHS.jsonl.gz")
    parser.add_argument("patterns", nargs="*", metavar="PATTERN", help="only scripts of these names or beginnings")
    parser.add_argument("--show", type=int, default=0, metavar="N", help="print the first difference of N scripts")
    parser.add_argument("--long", action="store_true", help="print differences in full")
    given = parser.parse_intermixed_args(arguments)
    if not given.scripts.is_dir():
        return _refuse(f"no folder of scripts: {given.scripts}")
    try:
        records = read_records(given.graphs)
    except (OSError, EOFError, ValueError, KeyError, TypeError) as error:
        return _refuse(f"no recording: {given.graphs}: {error}")
    if not any(given.scripts.glob("**/*.py")):
        return _refuse(f"no scripts in {given.scripts}")
    wanted = [records[name] for name in matching(records, given.patterns)]
    if not wanted:
        return _refuse(f"no records in {given.graphs}{' of these names' if given.patterns else ''}")
    compared, left = [], given.show
    for one in compare_all(given.scripts, wanted):
        compared.append(one)
        if one.difference is not None and left > 0:
            left -= 1
            print(f"{one.name}: {one.difference if given.long else shortened(one.difference)}", flush=True)
    print(table(compared))
    return 0 if all(one.difference is None for one in compared) else 1


def _refuse(message: str) -> int:
    print(message, file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main())
