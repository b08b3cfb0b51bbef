"""A graph that trains with noise: what it gives depends on each step before, and on random ones too."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

CPU, GPU = "/cpu:0", "/gpu:0"


def training(steps: int = 6, rounds: int = 0) -> dict[str, Any]:
    """A variable on a GPU, and noise on a CPU; `init` runs once, and then each step.

    With `rounds` each has a loop of so many that goes over both devices, so that it takes its time.
    """
    drawn = {"dtype": "float", "seed": 7}
    nodes: list[dict[str, Any]] = [
        {"variable": "w", "shape": [2, 2], "initializer": {"random_normal": {"seed": 3}}, "device": GPU},
        {"op": "RandomStandardNormal", "name": "noise", "inputs": [[2, 2]], "attrs": drawn, "device": CPU},
        {"op": "MatMul", "name": "product", "inputs": ["w", "noise"], "device": GPU},
        {"op": "Tanh", "name": "change", "inputs": ["product"], "device": GPU},
        {"op": "AssignSub", "name": "train", "inputs": ["w", "change"], "device": GPU},
        {"initializer": "init"},
    ]
    if rounds:
        more = {"op": "Less", "inputs": ["x", float(rounds)]}
        body = [{"id": "x", "op": "AddV2", "inputs": ["x", 1.0], "device": GPU}]
        nodes.append({"op": "Const", "name": "one", "value": 1.0, "device": CPU})
        nodes.append({"while": {"loop_vars": {"x": "one"}, "cond": more, "body": body}, "name": "long"})
    fetches = ["train", "noise", *(["long"] if rounds else [])]
    run = [{"fetch": ["init"]}, {"fetch": fetches, "repeat": steps}]
    return {"devices": {"cpu": 1, "gpu": 1}, "nodes": nodes, "run": run}


def write_training(folder: Path, steps: int = 6, rounds: int = 0) -> str:
    """The same as a file; its name."""
    path = folder / "train.yaml"
    path.write_text(yaml.safe_dump(training(steps, rounds)))
    return str(path)
