"""The tutorial of the manual, a notebook: its cells, their outputs, and its code as a module for mypy.

`python -m tests.documents` writes the present outputs into the notebook, and the code into `EXPORT`.
"""

from __future__ import annotations

import ast
import io
import json
from contextlib import chdir, redirect_stdout
from pathlib import Path
from typing import Any

from tests.processes import ROOT

NOTEBOOK = ROOT / "placesim" / "manual" / "tutorial.ipynb"
EXPORT = ROOT / "tests" / "manual" / "tutorial_code.py"
_HEAD = '"""The code of the tutorial, for mypy. `python -m tests.documents` writes it."""\n'


def read_notebook() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(NOTEBOOK.read_text("utf-8"))
    return found


def code_cells(notebook: dict[str, Any]) -> list[dict[str, Any]]:
    return [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]


def run_cells(notebook: dict[str, Any], folder: Path) -> list[list[dict[str, Any]]]:
    """The outputs of each cell of code, as a kernel makes them: what it prints, and the value of a last expression as text."""
    names: dict[str, Any] = {"__name__": "__main__"}
    with chdir(folder):
        return [_run_cell("".join(cell["source"]), number, names) for number, cell in enumerate(code_cells(notebook), 1)]


def _run_cell(source: str, number: int, names: dict[str, Any]) -> list[dict[str, Any]]:
    tree, value = ast.parse(source), None
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    with redirect_stdout(io.StringIO()) as printed:
        exec(compile(tree, f"<cell {number}>", "exec"), names)
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), f"<cell {number}>", "eval"), names)
    outputs: list[dict[str, Any]] = []
    if printed.getvalue():
        outputs.append({"name": "stdout", "output_type": "stream", "text": _lines(printed.getvalue())})
    if value is not None:
        data = {"text/plain": _lines(repr(value))}
        outputs.append({"data": data, "execution_count": number, "metadata": {}, "output_type": "execute_result"})
    return outputs


def _lines(text: str) -> list[str]:
    return text.splitlines(keepends=True)


def output_text(outputs: list[dict[str, Any]]) -> str:
    """All texts of a cell's outputs."""
    return "".join("".join(part["text"] if "text" in part else part["data"]["text/plain"]) for part in outputs)


def exported(notebook: dict[str, Any]) -> str:
    return _HEAD + "".join(f"\n{''.join(cell['source'])}\n" for cell in code_cells(notebook))


def write_notebook(folder: Path) -> None:
    """Write the present outputs into the notebook, and its code into the module."""
    notebook = read_notebook()
    for number, (cell, outputs) in enumerate(zip(code_cells(notebook), run_cells(notebook, folder), strict=True), 1):
        cell |= {"execution_count": number, "outputs": outputs}
    NOTEBOOK.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n", "utf-8")
    EXPORT.write_text(exported(notebook), "utf-8")
