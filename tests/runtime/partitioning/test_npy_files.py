"""Damaged `.npy` files: each is one error that names the file, whatever numpy's own reader raises."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from placesim.runtime.partitioning.step_requests import load_npy

GOOD = "{{'descr': {}, 'fortran_order': False, 'shape': {}, }}\n"
HEADERS = [
    # header, what is said of it
    *((text, "invalid header") for text in ("", "{", "'''", "(\t\n  )\n)", "[" * 5000, "9" * 5000, "f'{1}'", "[]")),
    (GOOD.format("'<f4'", "(2)*9"), "invalid header"),
    (GOOD.format("('<f4',)", "(2,)"), "invalid header"),
    (GOOD.format("'<f4'", "(True,)"), "its shape is (True,)"),
    (GOOD.format("'<f4'", "(-2, -2)"), "its shape is (-2, -2)"),
    (GOOD.format("'<f4'", "(0, -1)"), "its shape is (0, -1)"),
    (GOOD.format("'<f4'", "(" + "1," * 70 + ")"), "maximum supported dimension"),
    (GOOD.format("'<f4'", "(1000000000000000000000000000000,)"), "it has 64 bytes of data, its header says 4"),
    (GOOD.format("'<f4'", "(0, 1000000000000000000000000000000)"), "Maximum allowed dimension exceeded"),
    (GOOD.format("('<f4', (2,))", "(2,)"), "its elements are not single numbers"),
    (GOOD.format("[('a', '<f4')]", "(2,)"), "its elements are not single numbers"),
    (GOOD.format("'V0'", "(2,)"), "its elements are not single numbers"),
    (GOOD.format("'O'", "(2,)"), "it holds pickled objects, which are not supported"),
]


def write(path: Path, header: str) -> None:
    path.write_bytes(b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode() + bytes(64))


@pytest.mark.parametrize(("header", "message"), HEADERS, ids=[header[:60] for header, _ in HEADERS])
def test_a_damaged_header(header: str, message: str, tmp_path: Path) -> None:
    write(tmp_path / "x.npy", header)
    expected = f"{tmp_path / 'x.npy'} is not a .npy file of numbers: {message}"
    with pytest.raises(ValueError, match=f"^{re.escape(expected)}"):
        load_npy(tmp_path / "x.npy", ValueError)


def test_a_header_of_python_2_is_read(tmp_path: Path) -> None:
    write(tmp_path / "x.npy", GOOD.format("'<f4'", "(2L,)"))
    np.testing.assert_array_equal(load_npy(tmp_path / "x.npy", ValueError), np.zeros(2, np.float32))
