"""The law of checkpoints: a run that ends after some step, and goes on from its checkpoint, gives what it gives in one go.

`python -m tests.runtime.saving.law [PATTERN]` holds every graph of `graphs/` and every recorded model and function to it, with
an end between any two steps.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import replace
from fnmatch import fnmatch
from io import StringIO
from pathlib import Path
from typing import Any

from placesim.core.errors import PlacesimError
from placesim.core.files.access import FileAccess
from placesim.graph.session_steps import GraphStep
from placesim.runtime.saving.device_state import find_missing_state
from placesim.runtime.saving.session_checkpoints import SavedSession, check_graph, graph_variables, read_session, write_session
from placesim.runtime.sessions.session import GraphSession
from tests.runtime.dask.law import GRAPHS, Case, bits, fixed_seeds, graph_case, recorded_cases


def single_steps(case: Case) -> list[GraphStep]:
    """Each step as often as it runs."""
    return [replace(step, repeat=1) for step in case.steps for _ in range(step.repeat)]


def open_case(case: Case, folder: Path) -> GraphSession:
    """A session in this process."""
    files = FileAccess.of([case.directory], [folder])
    return GraphSession(case.file.graph, case.devices, case.config, initial_values=case.file.initial_values, files=files)


def results(session: GraphSession, steps: Sequence[GraphStep]) -> Iterator[Any]:
    """What each step gives and prints, to its last bit; behind an error nothing."""
    for step in steps:
        with redirect_stdout(StringIO()) as output, redirect_stderr(output):
            try:
                values = [(value.name, value.dtype.name, bits(value.value)) for value in session.run(step).values]
            except PlacesimError as error:
                yield (error.type_name, error.message, error.node, error.device, str(error.location))
                return
        yield values, output.getvalue()


def undisturbed(case: Case, folder: Path) -> tuple[list[Any], list[str]]:
    """The results of all steps; a checkpoint of each moment between two of them is in the folder, as `model-STEP`.

    With them what no checkpoint has.
    """
    session = open_case(case, folder)
    found, steps = [], single_steps(case)
    left: list[str] = []
    for number, result in enumerate(results(session, steps), 1):
        found.append(result)
        if isinstance(result[0], list):
            records = session.records()
            left = find_missing_state(records, session.graph)
            write_session(str(folder / f"model-{number}"), SavedSession(number, records, tuple(graph_variables(session.graph))))
    session.close()
    return found, left


def continued(case: Case, folder: Path, after: int) -> list[Any]:
    """The results of the steps behind a checkpoint."""
    session = open_case(case, folder)
    prefix = str(folder / f"model-{after}")
    saved = read_session(prefix)
    check_graph(saved, session.graph, prefix)
    steps = single_steps(case)
    session.restore(saved.records, steps[: saved.step])
    found = list(results(session, steps[saved.step :]))
    session.close()
    return found


def main(pattern: str) -> int:
    from tempfile import TemporaryDirectory

    fixed_seeds()
    failed = []
    for case in (*map(graph_case, GRAPHS), *recorded_cases()):
        if not fnmatch(case.name, pattern):
            continue
        with TemporaryDirectory() as name:
            folder = Path(name)
            expected, left = undisturbed(case, folder)
            same = [continued(case, folder, after) == expected[after:] for after in range(1, len(expected))]
        print(f"{case.name:32} {sum(same)} of {len(same)} {', '.join(left)}", flush=True)
        if not all(same) and not left:
            failed.append(case.name)
    print(f"{len(failed)} differ: {' '.join(failed)}")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else "*"))
