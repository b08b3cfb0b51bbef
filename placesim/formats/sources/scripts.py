"""Execution of a Python script in a separate process, in which `import tensorflow` imports `placesim.tf1`.

The process returns the graph as bytes (`formats/script_graph`), and an error as plain values. Like any program, the script runs
with its user's rights.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

from placesim.core.errors import DeadlineExceededError, Location, PlacesimError, UnavailableError
from placesim.core.process.interrupts import InterruptDelay, InterruptGrace
from placesim.formats.recognition import ScriptGraph
from placesim.machine.options import MACHINE, SimulationOptions

_BOOT = "import sys; sys.path.insert(0, sys.argv.pop(1)); import placesim; del sys.path[0]; \
from placesim.tf1.running.process import main; main()"
"""Code that starts the process. It adds only this installation of the package to the path."""
_PACKAGE_PARENT = str(Path(__file__).parents[3])
_END_SECONDS = 1.0


class ScriptFailedError(PlacesimError):
    """An exception that a script did not catch, with the name of its class."""

    def __init__(self, kind: str, message: str, location: Location) -> None:
        super().__init__(message, location=location)
        self.kind = kind

    @property
    def type_name(self) -> str:
        return self.kind


class ScriptRefusedError(ScriptFailedError):
    """An uncaught exception that TensorFlow raises."""

    exit_code = 1


def script_command(path: str | Path, job: Mapping[str, Any], arguments: Sequence[str]) -> list[str]:
    """Return the command line of a process that runs a script with these arguments. `job` has the settings of the run."""
    return [sys.executable, "-P", "-c", _BOOT, _PACKAGE_PARENT, json.dumps(job, default=str), str(path), *arguments]


MACHINE_OPTIONS = (*MACHINE, "tensorflow", "link", "environment")
"""Options of a command that affect its script: the machine, the release and the environment."""


def record_script(
    path: str | Path,
    options: SimulationOptions,
    tell: Callable[[str], None] | None = None,
    sources: Mapping[str, str] | None = None,
) -> ScriptGraph:
    """Run a script on the options' machine up to their `until`, and return the graph that it has built.

    `sources` has other texts of the script and its modules, by absolute path. The script's prints go to standard error. `tell`
    receives a message with the line that the script reached. Raises ScriptFailedError for an exception of the script,
    DeadlineExceededError after `timeout` seconds, and UnavailableError if its process dies.
    """
    with tempfile.TemporaryDirectory(prefix="placesim-") as folder:
        answer = Path(folder, "answer")
        machine = {name: value for name in MACHINE_OPTIONS if (value := getattr(options, name)) is not None}
        job = {"purpose": "record", "until": options.until, "answer": str(answer), "options": machine}
        if sources:
            job["sources"] = str(Path(folder, "sources"))
            Path(folder, "sources").write_text(json.dumps(sources), encoding="utf-8")
        code = _run(script_command(path, job, options.arguments), path, options.timeout)
        data = answer.read_bytes() if answer.exists() else None
    if data is None:
        raise _ended(path, code)
    head, _, graph = data.partition(b"\n")
    said = json.loads(head)
    if "error" in said:
        _fail(said["error"])
    if tell is not None:
        tell(said["told"])
    return ScriptGraph(graph)


def _run(command: Sequence[str], path: str | Path, timeout: float | None) -> int:
    """Return the exit code of the script's process. The process is killed after the timeout or an interruption."""
    sys.stdout.flush()
    process: subprocess.Popen[bytes] | None = None
    with InterruptGrace():
        try:
            with InterruptDelay():  # an interrupt meanwhile would leave the process to itself
                process = subprocess.Popen(command, stdout=_standard_error())
            import placesim.formats.script_graph  # noqa: F401 - imported while the script starts, to read its graph sooner

            return process.wait(timeout)
        except subprocess.TimeoutExpired:
            message = f"Timed out waiting for {path}: it has run for {timeout:g} seconds"
            raise DeadlineExceededError(message) from None
        finally:
            if process is not None and process.poll() is None:
                process.terminate()
                with suppress(subprocess.TimeoutExpired):
                    process.wait(_END_SECONDS)
                process.kill()
                process.wait()


def _standard_error() -> int:
    """Return the file descriptor for a script's prints, so that standard output has only the result."""
    try:
        return sys.stderr.fileno()
    except (OSError, ValueError, AttributeError):  # a test or a notebook has replaced sys.stderr
        return subprocess.DEVNULL


def _ended(path: str | Path, code: int) -> PlacesimError:
    """Return the error for a script whose process returned nothing."""
    if code < 0:
        return UnavailableError(f"the process of {path} died of signal {-code}, perhaps out of memory")
    found = ScriptFailedError("SystemExit", str(code), Location(str(path), 0, 0))
    found.help = ("the script built no graph; pass its own arguments after `--`",)
    return found


def _fail(error: Mapping[str, Any]) -> NoReturn:
    """Raise the error that ended a script."""
    kind = ScriptRefusedError if error["raised_by_tensorflow"] else ScriptFailedError
    found = kind(error["kind"], error["message"], Location(error["file"], error["line"], error["column"]))
    found.help = tuple(error["help"])
    raise found
