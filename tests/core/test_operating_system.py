"""Ways around what an operating system lacks, as far as another system can show them."""

from __future__ import annotations

import errno
import io
import os
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from placesim.core import operating_system as system


def test_windows_waits_until_a_scanner_has_closed_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    replace = os.replace
    pauses: list[float] = []

    def refuse(*paths: Any) -> None:
        if len(pauses) < closed_after:
            raise PermissionError(errno.EACCES, "used by another process")
        replace(*paths)

    monkeypatch.setattr("sys.platform", "win32")
    monkeypatch.setattr("os.replace", refuse)
    monkeypatch.setattr("time.sleep", pauses.append)
    new, old = tmp_path / "new", tmp_path / "old"
    closed_after = 2
    new.write_text("1")
    old.write_text("2")
    system.replace_file(new, old)
    assert (old.read_text(), new.exists(), len(pauses)) == ("1", False, 2)
    closed_after = 99
    with pytest.raises(PermissionError):
        system.replace_file(old, new)


def test_streams_of_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    fixed: list[bool] = []
    monkeypatch.setattr("sys.platform", "win32")
    monkeypatch.setitem(sys.modules, "colorama", SimpleNamespace(just_fix_windows_console=lambda: fixed.append(True)))
    pipe, console = (io.TextIOWrapper(io.BytesIO(), "cp1252") for _ in range(2))
    monkeypatch.setattr(console, "isatty", lambda: True)
    for stream in (pipe, console):
        system.prepare_stream(stream)
    assert (pipe.encoding, console.encoding, fixed) == ("utf-8", "cp1252", [True])
    assert system.is_reader_lost(OSError(errno.EINVAL, ""))
    monkeypatch.setattr("sys.platform", "linux")
    assert not system.is_reader_lost(OSError(errno.EINVAL, ""))
    assert system.is_reader_lost(BrokenPipeError(errno.EPIPE, ""))


@pytest.mark.linux("memory in /proc")
def test_memory_is_measured_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("psutil", reason="of the extra `dask` on Linux")
    resident, peak = system.resident_bytes(), system.peak_resident_bytes()
    assert 0 < resident < 2 * peak < 1 << 40  # the system counts the peak from time to time
    monkeypatch.setattr("sys.platform", "darwin")
    assert peak <= 1024 * system.peak_resident_bytes() < 2 * peak
    assert resident / 2 < system.resident_bytes() < 2 * resident
    assert system.free_bytes() < 1 << 50
