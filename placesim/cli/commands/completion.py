"""`placesim completion`."""

from __future__ import annotations

import os
import shlex
from pathlib import Path

import click

from placesim.cli.command import EXITS, command
from placesim.cli.option_types import Word, option
from placesim.core.errors import UsageError

SHELLS = ("bash", "zsh", "fish")


@command("completion", exits={0: EXITS[0], 2: "the shell is not known, or a file can't be written"})
@click.argument("shell", metavar="[SHELL]", type=Word(SHELLS), required=False)
@option("--install", is_flag=True, help="Install the script for the shell instead of printing it.", folder_values="none")
def completion_command(shell: str | None, install: bool) -> int:
    """Print or install the shell completion script.

    It completes commands, options and their values, files, GPU models, rules, manual topics and ops, and the nodes,
    signatures and devices of a graph named earlier on the line.  SHELL is bash, zsh or fish (default: the shell in $SHELL).
    For bash and zsh, --install also adds one line to ~/.bashrc or ~/.zshrc.

    \b
    Examples:
      placesim completion --install
      placesim completion zsh > ~/.zfunc/_placesim
    """
    from placesim.cli.output import complain, write
    from placesim.cli.shell_completion import completion_script

    shell = shell or _own_shell()
    if not install:
        write(completion_script(shell))
        return 0
    for path in _install(shell, completion_script(shell)):
        complain(f"wrote {path}\n")
    complain("restart the shell to use it\n")
    return 0


def _own_shell() -> str:
    name = Path(os.environ.get("SHELL", "")).name
    if name not in SHELLS:
        raise UsageError(f"unknown shell: got '{name}' in SHELL, expected `placesim completion` with {', '.join(SHELLS)}")
    return name


def _install(shell: str, script: str) -> list[Path]:
    """Install the completion script, and return the files that were written."""
    from placesim.cli.output import write_files

    if shell == "fish":
        path = _folder("XDG_CONFIG_HOME", ".config") / "fish/completions/placesim.fish"
        write_files({path: [script.encode()]}, makes_folders=True)
        return [path]
    path = _folder("XDG_DATA_HOME", ".local/share") / f"placesim/completion.{shell}"
    start = (Path(os.environ.get("ZDOTDIR") or Path.home()) if shell == "zsh" else Path.home()) / f".{shell}rc"
    quoted = shlex.quote(str(path))
    line = f"[ -r {quoted} ] && . {quoted} # completion of placesim\n"
    contents = {path: [script.encode()]}
    try:
        before = start.read_bytes() if start.exists() else b""
    except OSError as error:
        raise UsageError(f"cannot read {start}: got '{error.strerror}', expected the shell's start-up file") from error
    if line.encode() not in before:
        end = b"\n" if before and not before.endswith(b"\n") else b""
        contents[start.resolve()] = [before + end + line.encode()]
    write_files(contents, makes_folders=True)
    return list(contents)


def _folder(variable: str, below_home: str) -> Path:
    return Path(os.environ.get(variable) or Path.home() / below_home)
