"""PNG files: the bytes that TensorFlow wrote for the same pixels."""

import base64
import gzip
import json
import zlib
from pathlib import Path

import numpy as np
import pytest

from placesim.ops.kernels.image.png_files import png_file

_CASES = Path(__file__).parents[2] / "data" / "png-files.jsonl.gz"


@pytest.mark.skipif("ng" in zlib.ZLIB_RUNTIME_VERSION, reason="zlib-ng compresses to other bytes than zlib")
def test_a_png_file_has_tensorflows_bytes() -> None:
    cases = [json.loads(line) for line in gzip.decompress(_CASES.read_bytes()).splitlines()]
    assert len(cases) == 48
    for case in cases:
        pixels = np.frombuffer(base64.b64decode(case["pixels"]), case["dtype"]).reshape(case["shape"])
        assert png_file(pixels, case["compression"]) == base64.b64decode(case["file"]), (case["shape"], case["compression"])
