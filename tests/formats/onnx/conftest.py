"""Every test of this room reads models with the `onnx` package."""

import pytest

pytest.importorskip("onnx", reason="of the extra `onnx`")
