"""Commands by name; each is imported on demand."""

from __future__ import annotations

from importlib import import_module

import click

COMMANDS = {
    "run": "Place a graph, execute it with numpy, and print the results.",
    "place": "Place graphs without executing them, and print the log.",
    "devices": "List the devices of a simulated machine.",
    "ops": "List TensorFlow's ops and their kernels, or show details of one.",
    "explain": "Explain why nodes are on their devices, and which edits would move them.",
    "check": "Check a placement against a policy.",
    "diff": "Compare two placements.",
    "show": "Show a placement as a tree, a picture or a page.",
    "memory": "Report peak memory per device, and the largest batch that fits.",
    "simulate": "Predict the time of a step, and show its bottlenecks.",
    "plan": "Search for a faster placement, and bound how fast any could be.",
    "parallelize": "Rewrite a training graph for several GPUs, or for micro-batches.",
    "studio": "Change a graph or a machine on a page, and see at once what happens.",
    "sweep": "Simulate a graph under many combinations of options.",
    "calibrate": "Measure this machine's speed for time predictions.",
    "convert": "Convert a graph between YAML, JSON and TensorFlow's GraphDef.",
    "new": "Write an example graph file, or list the examples.",
    "manual": "Read the manual.",
    "help": "Show the help of a command.",
    "completion": "Set up shell completion.",
}
"""Line of help of each command. The command is a function in the module of the same name."""


def command_named(name: str) -> click.Command:
    """Import and return the command with this name, one of `COMMANDS`."""
    # by name, so that a command costs no more than its own imports
    command: click.Command = getattr(import_module(f"placesim.cli.commands.{name}"), f"{name}_command")
    return command
