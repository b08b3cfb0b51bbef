"""Reading a graph from anywhere, within the time and the memory that its user allows."""

from __future__ import annotations

import sys
import time
from io import BytesIO
from itertools import count
from typing import Any, cast

import pytest

import placesim
from placesim.core.errors import DeadlineExceededError, ResourceExhaustedError
from placesim.ops.process import memory_limit
from tests.processes import run_process


class EndlessFile(BytesIO):
    """A comment that never ends."""

    name = "endless.yaml"

    def read(self, size: int | None = -1) -> bytes:
        time.sleep(0.01)
        return b"#"


def test_a_timeout_holds_while_a_graph_is_read() -> None:
    with pytest.raises(DeadlineExceededError, match=r"Timed out reading endless.yaml: it takes more than 0.05 seconds"):
        placesim.run(cast("Any", EndlessFile()), timeout=0.05)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "module"),
    [("graphs/towers.yaml", "yaml"), ("graphs/mnist.onnx", "onnx"), ("graphs/none.pb", "google.protobuf.message")],
)
def test_imports_do_not_count(name: str, module: str) -> None:
    """They are there before the clock starts, for a file whose name says its format."""
    code = (
        "import sys; from placesim.formats.sources import loading; from placesim.machine.options import make_options\n"
        f"def read_limited(*_): print({module!r} in sys.modules); sys.exit()\n"
        f"loading.read_limited = read_limited; loading.load({name!r}, None, make_options({{'timeout': 1}}))"
    )
    assert run_process((sys.executable, "-c", code)) == (0, "True\n", "")


def test_a_memory_limit_holds_while_a_graph_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = count(0, memory_limit.OWN_BYTES + 1)
    monkeypatch.setattr(memory_limit, "resident_bytes", lambda: next(sizes))
    monkeypatch.setattr(memory_limit, "peak_resident_bytes", lambda: sys.maxsize)
    with pytest.raises(ResourceExhaustedError, match=r"OOM reading endless.yaml: it takes more than 1000 bytes"):
        placesim.run(cast("Any", EndlessFile()), memory_limit=1000)
