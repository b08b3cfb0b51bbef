"""Writes models of `tests/data/onnx` as ONNX Runtime's quantizer and optimizer write them, and what it makes of them.

`python -m tests.formats.onnx.runtime_exports` where onnx and onnxruntime are installed; no test needs them.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

FOLDER = Path(__file__).parents[2] / "data" / "onnx"


def dynamic(source: Path, target: Path, inputs: dict[str, Any]) -> None:
    """Weights of a byte, and inputs that are quantized as they come."""
    from onnxruntime.quantization import QuantType, quantize_dynamic

    quantize_dynamic(source, target, weight_type=QuantType.QUInt8)


def static(source: Path, target: Path, inputs: dict[str, Any]) -> None:
    """Ops of quantized tensors."""
    from onnxruntime.quantization import CalibrationDataReader, QuantFormat, quantize_static

    class Once(CalibrationDataReader):
        given = iter([inputs])

        def get_next(self) -> Any:
            return next(self.given, None)

    quantize_static(source, target, Once(), quant_format=QuantFormat.QOperator, per_channel=True)


def optimized(source: Path, target: Path, inputs: dict[str, Any]) -> None:
    """Ops that stand for several."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    options.optimized_model_filepath = str(target)
    onnxruntime.InferenceSession(str(source), options, providers=["CPUExecutionProvider"])


MADE: dict[str, tuple[str, Callable[[Path, Path, dict[str, Any]], None]]] = {
    "encoder-dynamic": ("encoder", dynamic),
    "lstm-dynamic": ("lstm", dynamic),
    "unet-dynamic": ("unet", dynamic),
    "unet-static": ("unet", static),
    "decoder-step-optimized": ("decoder-step", optimized),
}


def main() -> None:
    """Writes every model."""
    import onnxruntime

    for name, (source, make) in MADE.items():
        with np.load(FOLDER / f"{source}.npz") as recorded:
            inputs = {key.partition(":")[2]: recorded[key] for key in recorded if key.startswith("input:")}
        target = FOLDER / f"{name}.onnx"
        make(FOLDER / f"{source}.onnx", target, inputs)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1  # DynamicQuantizeLSTM has a scale for each thread's part of a batch
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        session = onnxruntime.InferenceSession(str(target), options, providers=["CPUExecutionProvider"])
        outputs = zip([output.name for output in session.get_outputs()], session.run(None, inputs), strict=True)
        found = {f"input:{key}": value for key, value in inputs.items()} | {f"output:{key}": value for key, value in outputs}
        np.savez_compressed(target.with_suffix(".npz"), **found)


if __name__ == "__main__":
    main()
