"""The commands by name; each is imported when it is asked for."""

from __future__ import annotations

from importlib import import_module

import click

COMMANDS = {
    "run": "Load a graph, place it, execute it with numpy, print the results.",
    "place": "Place graphs without executing them, and print the log.",
    "devices": "List the devices of a simulated machine.",
    "ops": "List TensorFlow's ops and their kernels, or tell all about one.",
    "explain": "Explain why nodes are where they are, and what would change that.",
    "check": "Hold a placement to a policy.",
    "diff": "Compare two placements.",
    "show": "Show a placement as a tree, a picture or a page.",
    "memory": "Tell what a graph needs of its devices' memory, and what would fit.",
    "simulate": "Tell how long a step would take, and where the time goes.",
    "plan": "Search a better placement, with a bound.",
    "sweep": "Simulate a graph under many combinations of options.",
    "calibrate": "Measure this machine, for predictions of its time.",
    "convert": "Convert a graph between YAML, JSON and TensorFlow's GraphDef.",
    "new": "Write out a graph file to start from, or list those that there are.",
    "manual": "Read the manual.",
    "help": "Show the help of a command.",
    "completion": "Have a shell complete the words of placesim.",
}
"""Each command's line of help; it is the function of its name in the module of its name."""


def command_named(name: str) -> click.Command:
    """The command of that name, one of `COMMANDS`, imported."""
    # by name, so that a command costs no more than its own imports
    command: click.Command = getattr(import_module(f"placesim.cli.commands.{name}"), f"{name}_command")
    return command
