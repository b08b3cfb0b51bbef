"""The command line in processes that start at once: forked from one that has imported what most commands need.

Nothing of them is simulated but the start: each has its own directory, environment and streams, and a script runs in one more.
Tests of the start itself (what is imported, interrupts meanwhile, streams that are closed) start it by `tests.processes`.
"""

from __future__ import annotations

import atexit
import gc
import json
import os
import runpy
import select
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, redirect_stderr, redirect_stdout
from functools import cache
from io import StringIO
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NoReturn

from tests.processes import PLACESIM, ROOT, CommandResult, start_process

if TYPE_CHECKING:
    import pytest

_SECONDS = 60
"""The longest that a command may take."""


def run_warm(folder: Path, *arguments: str, **environment: str) -> CommandResult:
    """What a command leaves behind that runs in a directory, with these variables beside the test's own."""
    with tempfile.TemporaryDirectory(prefix="placesim-test-") as place:
        streams = [Path(place, name) for name in ("output", "complaint")]
        code = write_warm(folder, arguments, environment, streams)
        return CommandResult(code, *(stream.read_text() for stream in streams))


def write_warm(folder: Path, arguments: Sequence[str], environment: Mapping[str, str], streams: Sequence[Path]) -> int:
    """The exit code of such a command, whose output and complaint are appended to these two files, or to one."""
    if sys.platform != "linux":  # Windows can't fork, and macOS' libraries don't allow it
        with ExitStack() as stack:
            output, complaint = (stack.enter_context(streams[number].open("ab")) for number in (0, -1))
            variables = {**os.environ, **environment}
            return subprocess.run(
                (*PLACESIM, *arguments), cwd=folder, env=variables, stdin=subprocess.DEVNULL, stdout=output, stderr=complaint
            ).returncode
    paths = [str(stream) for stream in streams]
    task = {"folder": str(folder), "words": arguments, "streams": paths, "environment": {**os.environ, **environment}}
    return _ask(json.dumps(task).encode())


def start_warm(*arguments: str, **options: Any) -> AbstractContextManager[subprocess.Popen[bytes]]:
    """A command that goes on while a test talks to it, forked from the test's own process; killed when its block ends."""
    if sys.platform == "linux":
        environment = {**options.get("env", os.environ)}
        # Python itself ignores SIGPIPE
        options |= {"preexec_fn": lambda: _run_forked_command(arguments, environment), "restore_signals": False}
    return start_process((*PLACESIM, *arguments), **options)


def fork_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let processes of searches and sweeps start likewise."""
    if sys.platform == "linux":
        forking = SimpleNamespace(**vars(subprocess) | {"Popen": _ForkedWorker})
        monkeypatch.setattr("placesim.core.process.workers.subprocess", forking)


def _ask(task: bytes) -> int:
    """The exit code of a task."""
    server = _server()
    assert server.stdin is not None
    assert server.stdout is not None
    server.stdin.write(task + b"\n")
    server.stdin.flush()
    answered, _, _ = select.select([server.stdout], [], [], _SECONDS)
    if not answered:
        os.killpg(server.pid, 9)
        _server.cache_clear()
    answer = server.stdout.readline()
    assert answer, f"no command may take {_SECONDS} seconds"
    return int(answer)


@cache
def _server() -> subprocess.Popen[bytes]:
    """The process that forks, one for each worker of the tests; it ends when its input does."""
    command = [sys.executable, "-P", "-m", "tests.cli.warm"]
    return subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True)


# --- in the process that forks --------------------------------------------------------------------------------------


class _ProgramReplacement(BaseException):
    """The process is to go on as another program."""


class _ForkedScript(subprocess.Popen[bytes]):
    """The process of a script, as `subprocess` starts it up to the point where it would load Python."""

    def __init__(self, command: Sequence[str], **options: Any) -> None:
        super().__init__(command, preexec_fn=lambda: _run_forked_script(command), **options)


class _ForkedWorker(subprocess.Popen[bytes]):
    """The process of a worker, likewise."""

    def __init__(self, command: Sequence[str], **options: Any) -> None:
        super().__init__(command, preexec_fn=lambda: _run_forked_module(command[-1]), restore_signals=False, **options)


def _serve() -> None:
    import placesim.tf1.graph_defs.protos
    import placesim.tf1.running.failures
    import placesim.tf1.running.live  # noqa: F401
    from placesim.cli import main
    from tests.scripts import import_api

    import_api()
    graph = str(ROOT / "graphs" / "logging.yaml")
    plan = ["plan", graph, "--gpu", "2", "--free-all", "--evaluations", "5", "--jobs", "1"]

    def run(*words: str) -> None:
        """Import what a command needs."""
        with redirect_stdout(StringIO()), redirect_stderr(StringIO()):
            main(words)

    run("run", graph)
    run("explain", graph, "MatMul")
    run("simulate", graph)
    gc.freeze()  # no child's collector looks at what is there already, whose memory it would copy
    for line in sys.stdin.buffer:
        task = json.loads(line)
        if plan and "plan" in task["words"]:
            run(*plan)  # with solvers, whose imports take longer than most commands
            plan.clear()
        child = os.fork()
        if not child:
            _redirect(os.devnull, os.O_RDONLY, 0)
            for number, path in enumerate(task.pop("streams"), 1):
                _redirect(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, number)
            os.chdir(task.pop("folder"))
            _leave(_run_command(**task))
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


def _run_command(words: Sequence[str], environment: Mapping[str, str]) -> int:
    """The exit code of a command in this process, which has its directory and streams already."""
    from placesim.cli import main
    from placesim.core.process.interrupts import end_on_interrupt
    from placesim.formats.sources import scripts
    from placesim.tf1.running import code_origin

    code_origin._HOME = os.getcwd()  # as if imported here
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = [str(ROOT / "placesim" / "__main__.py"), *words]
    sys.orig_argv = [sys.executable, "-m", "placesim", *words]
    vars(scripts)["subprocess"] = SimpleNamespace(**vars(subprocess) | {"Popen": _ForkedScript})
    os.execv = _replace  # type: ignore[assignment]
    end_on_interrupt()
    try:
        return main()
    except _ProgramReplacement as replaced:
        _run_script(*replaced.args)
        return 0


def _leave(code: int) -> NoReturn:
    """End as Python does, but for taking its modules apart, which takes longer than most commands."""
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(code)


def _redirect(path: str, flags: int, number: int) -> None:
    opened = os.open(path, flags)
    os.dup2(opened, number)
    os.close(opened)


def _replace(program: str, command: Sequence[str]) -> NoReturn:
    raise _ProgramReplacement(command)


def _run_script(command: Sequence[str]) -> None:
    """Run a script as a command of `placesim.formats.sources.scripts.script_command` does, whose words from the fifth on its
    code takes."""
    from placesim.tf1.running import process

    sys.argv = ["-c", *command[5:]]
    sys.orig_argv = list(command)
    process.main()


def _run_forked_command(words: Sequence[str], environment: Mapping[str, str]) -> NoReturn:
    def run() -> None:
        _open_streams()
        _leave(_run_command(words, environment))

    _run_forked(run)


def _run_forked_module(name: str) -> NoReturn:
    def run() -> None:
        _open_streams()
        runpy.run_module(name, run_name="__main__")
        os._exit(0)

    _run_forked(run)


def _open_streams() -> None:
    """Make Python's streams those of the process; pytest's own are elsewhere."""
    for number, (name, mode) in enumerate((("stdin", "r"), ("stdout", "w"), ("stderr", "w"))):
        setattr(sys, name, open(number, mode, encoding="utf-8"))  # noqa: SIM115 - they stay open


def _run_forked_script(command: Sequence[str]) -> NoReturn:
    _run_forked(lambda: _run_script(command))


def _run_forked(call: Callable[[], None]) -> NoReturn:
    gc.freeze()  # what would close descriptors that are others here
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))  # one of them tells who started this that Python is there
    atexit._clear()  # a folder for a graph is the other process's
    try:
        call()
    except SystemExit as end:
        _leave(int(end.code or 0))
    except BaseException:
        traceback.print_exc()
    os._exit(1)  # what ends well has ended before


if __name__ == "__main__":
    _serve()
