"""One node each, with inputs: what ONNX Runtime gives for them is recorded in `tests/data/onnx-rows.npz`.

    python -m tests.formats.onnx.row_cases

records anew; it needs `onnxruntime`.  Where that has no kernel, ONNX's reference is what is recorded.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from tests.formats.onnx.models import info, model, node, tensor

RECORDED = Path(__file__).parents[2] / "data" / "onnx-rows.npz"
RNG = np.random.default_rng(20)


class RowCase(NamedTuple):
    """A node's op, its inputs, None where one is left out, its attributes, its opset, and how many outputs are read.

    `known` are the numbers of inputs that are initializers; the sizes of the `open` axes of input 0 are not told. Outputs that
    are `unread` have no name.
    """

    op: str
    inputs: list[Any]
    attrs: Mapping[str, Any] = MappingProxyType({})
    opset: int = 21
    outputs: int = 1
    known: tuple[int, ...] = ()
    open: tuple[int, ...] = ()
    domain: str = ""
    unread: tuple[int, ...] = ()

    @property
    def read(self) -> list[int]:
        """The indices of the outputs that are read."""
        return [index for index in range(self.outputs) if index not in self.unread]


def _array(*shape: int, dtype: Any = np.float32) -> np.ndarray[Any, Any]:
    return RNG.normal(size=shape).astype(dtype) if np.dtype(dtype).kind == "f" else RNG.integers(0, 100, shape).astype(dtype)


CASES = {
    "conv: one axis in groups": RowCase(
        "Conv", [_array(2, 4, 9), _array(6, 2, 3), _array(6)], {"group": 2, "strides": [2], "pads": [1, 2]}
    ),
    "conv: each channel alone": RowCase(
        "Conv", [_array(2, 3, 6, 7), _array(6, 1, 3, 2)], {"group": 3, "strides": [2, 2], "pads": [1, 0, 1, 1]}
    ),
    "conv: each channel alone, strides that differ": RowCase(
        "Conv", [_array(1, 3, 6, 7), _array(3, 1, 3, 2)], {"group": 3, "strides": [1, 2]}
    ),
    "conv: groups with dilations": RowCase("Conv", [_array(1, 4, 8, 8), _array(4, 2, 3, 3)], {"group": 2, "dilations": [2, 3]}),
    "conv: volumes in groups with dilations": RowCase(
        "Conv",
        [_array(1, 4, 5, 6, 7), _array(2, 2, 2, 2, 3), _array(2)],
        {"group": 2, "dilations": [2, 1, 2], "pads": [1, 0, 1, 0, 1, 1]},
    ),
    "conv: padded in front": RowCase(
        "Conv", [_array(1, 2, 7, 6), _array(3, 2, 4, 3)], {"auto_pad": "SAME_LOWER", "strides": [2, 3]}
    ),
    "conv: double": RowCase("Conv", [_array(1, 2, 5, 5, dtype=np.float64), _array(3, 2, 3, 3, dtype=np.float64)]),
    "transposed: one axis": RowCase(
        "ConvTranspose", [_array(2, 3, 5), _array(3, 2, 3), _array(2)], {"strides": [2], "pads": [1, 1]}
    ),
    "transposed: groups": RowCase(
        "ConvTranspose",
        [_array(1, 4, 4, 5), _array(4, 3, 3, 3), _array(6)],
        {"group": 2, "strides": [2, 3], "dilations": [2, 1], "output_padding": [1, 1], "pads": [1, 0, 2, 1]},
    ),
    "transposed: volumes": RowCase(
        "ConvTranspose",
        [_array(2, 2, 3, 4, 3), _array(2, 3, 2, 3, 2)],
        {"strides": [2, 1, 2], "pads": [1, 0, 0, 0, 1, 0], "output_padding": [1, 0, 0]},
    ),
    "transposed: an output_shape": RowCase(
        "ConvTranspose", [_array(1, 2, 3, 3), _array(2, 2, 3, 3)], {"strides": [3, 2], "output_shape": [10, 8]}
    ),
    "max: integers": RowCase("MaxPool", [_array(1, 2, 7, 7, dtype=np.uint8)], {"kernel_shape": [3, 2], "strides": [2, 2]}),
    "max: one axis with holes": RowCase("MaxPool", [_array(2, 3, 11)], {"kernel_shape": [3], "dilations": [2], "pads": [1, 1]}),
    "max: volumes": RowCase("MaxPool", [_array(1, 2, 5, 4, 6)], {"kernel_shape": [2, 2, 3], "pads": [1, 0, 1, 0, 1, 1]}),
    "max: volumes of doubles": RowCase("MaxPool", [_array(1, 1, 4, 4, 4, dtype=np.float64)], {"kernel_shape": [2, 2, 2]}),
    "max: places": RowCase(
        "MaxPool",
        [_array(2, 2, 5, 6, dtype=np.int8).astype(np.float32)],
        {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1], "strides": [2, 2]},
        outputs=2,
    ),
    "mean: one axis": RowCase("AveragePool", [_array(1, 2, 9)], {"kernel_shape": [4], "pads": [2, 1], "strides": [2]}),
    "mean: with holes": RowCase(
        "AveragePool", [_array(1, 2, 9, 8)], {"kernel_shape": [2, 3], "dilations": [2, 2], "pads": [1, 1, 1, 1]}
    ),
    "mean: the last not all there": RowCase(
        "AveragePool",
        [_array(1, 2, 7, 6)],
        {"kernel_shape": [3, 2], "strides": [2, 3], "pads": [1, 0, 0, 1], "ceil_mode": 1, "count_include_pad": 1},
    ),
    "mean: the last not all there, of open size": RowCase(
        "AveragePool", [_array(1, 2, 8, 7)], {"kernel_shape": [3, 3], "strides": [2, 2], "ceil_mode": 1}, open=(0, 2, 3)
    ),
    "max: the last not all there, of open size": RowCase(
        "MaxPool", [_array(1, 2, 8, 7)], {"kernel_shape": [3, 3], "strides": [2, 2], "ceil_mode": 1}, open=(2, 3)
    ),
    "mean: padding that counts, of open size": RowCase(
        "AveragePool",
        [_array(1, 2, 8, 7)],
        {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1], "ceil_mode": 1, "count_include_pad": 1},
        open=(2, 3),
    ),
    "transposed: open size": RowCase(
        "ConvTranspose", [_array(2, 3, 4, 5), _array(3, 2, 3, 3)], {"strides": [2, 2]}, open=(0, 2, 3)
    ),
    "norm: over all of a channel": RowCase("GlobalLpPool", [_array(2, 3, 4, 5)], {"p": 3}),
    "normal: three axes": RowCase(
        "BatchNormalization", [_array(2, 3, 4), _array(3), _array(3), _array(3), _array(3) ** 2], {"epsilon": 0.01}, 15
    ),
    "normal: volumes of one image": RowCase("InstanceNormalization", [_array(2, 3, 4, 2, 2), _array(3), _array(3)]),
    "normal: windows of even size": RowCase("LRN", [_array(6, 6, 2, 2)], {"size": 4, "alpha": 0.5}),
    "max roi pool": RowCase(
        "MaxRoiPool",
        [
            (np.arange(2 * 3 * 6 * 7) * 37 % 101 - 50).reshape(2, 3, 6, 7).astype(np.float32),
            np.array(
                [[0, 0, 0, 6, 5], [1, 1.4, 2.5, 4.5, 3], [1, 5, 4, 2, 1], [0, -3, -2, 2, 9], [1, 9, 9, 12, 12]], np.float32
            ),
        ],
        {"pooled_shape": [2, 3]},
    ),
    "max roi pool of a scaled region": RowCase(
        "MaxRoiPool",
        [
            np.cos(np.arange(1 * 2 * 5 * 5)).reshape(1, 2, 5, 5).astype(np.float32),
            np.array([[0, 2, 3, 9, 8], [0, 0, 0, 0, 0]], np.float32),
        ],
        {"pooled_shape": [4, 2], "spatial_scale": 0.5},
        open=(2, 3),
    ),
}
_rows = np.sin(np.arange(40, dtype=np.float32).reshape(2, 20))
CASES |= {
    "resize: lines by scales": RowCase(
        "Resize", [_array(1, 2, 4, 5), None, np.array([1, 1, 2, 2], np.float32)], {"mode": "linear"}, known=(2,)
    ),
    "resize: lines to sizes, of open size": RowCase(
        "Resize",
        [_array(1, 2, 4, 5), None, None, np.array([1, 2, 7, 3])],
        {"mode": "linear", "coordinate_transformation_mode": "align_corners"},
        known=(3,),
        open=(2, 3),
    ),
    "resize: nearest by scales": RowCase(
        "Resize",
        [_array(1, 2, 4, 5), None, np.array([1, 1, 2, 3], np.float32)],
        {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"},
        known=(2,),
    ),
    "resize: nearest along one axis": RowCase(
        "Resize", [_array(1, 2, 5), None, np.array([1, 1, 1.7], np.float32)], {"mode": "nearest"}, known=(2,)
    ),
    "resize: cubic, halves of integers": RowCase(
        "Resize", [_array(1, 1, 9, 8), None, np.array([1, 1, 0.5, 1.3], np.float32)], {"mode": "cubic"}, known=(2,)
    ),
    "upsample": RowCase(
        "Upsample", [_array(1, 2, 3, 3), np.array([1, 1, 2, 2], np.float32)], {"mode": "linear"}, 9, known=(1,)
    ),
    "largest: the smallest integers along the first axis": RowCase(
        "TopK", [_array(5, 4, dtype=np.int32), np.array([3])], {"axis": 0, "largest": 0}, outputs=2
    ),
    "boxes: by their centres": RowCase(
        "NonMaxSuppression",
        [np.abs(_array(2, 9, 4)), _array(2, 3, 9), np.array([2]), np.array([0.3], np.float32), np.array([0.1], np.float32)],
        {"center_point_box": 1},
    ),
    "unique: texts in their order": RowCase("Unique", [np.array(["b", "a", "b", "c"], object)], {"sorted": 0}, outputs=4),
    "unique: slices of the last axis": RowCase(
        "Unique", [np.array([[3, 1, 3, 1], [2, 5, 2, 4]], np.float32)], {"axis": 1}, outputs=4
    ),
    "einsum: three inputs, with an ellipsis": RowCase(
        "Einsum", [_array(2, 3, 4), _array(4, 5), _array(5)], {"equation": "...ij, jk, k -> ...i"}
    ),
    "einsum: a diagonal": RowCase("Einsum", [_array(2, 3, 3)], {"equation": "bii->bi"}),
    "dft: cut off": RowCase("DFT", [_array(2, 9, 1), np.array(6)], {"onesided": 1, "axis": 1}, 17),
    "stft: windows": RowCase("STFT", [_array(2, 20, 1), np.array(4), _array(8)], {"onesided": 1}, 17, known=(1,)),
    "stft: rows of real numbers": RowCase("STFT", [_rows, np.array(4), None, np.array(8)], {"onesided": 1}, 17, known=(1, 3)),
    "lstm: both ways, of several lengths, with peepholes": RowCase(
        "LSTM",
        [
            _array(5, 3, 4),
            _array(2, 8, 4),
            _array(2, 8, 2),
            _array(2, 16),
            np.array([5, 2, 3], np.int32),
            _array(2, 3, 2),
            _array(2, 3, 2),
            _array(2, 6),
        ],
        {"hidden_size": 2, "direction": "bidirectional"},
        outputs=3,
    ),
    "lstm: of other activations, clipped, of open sizes": RowCase(
        "LSTM",
        [_array(4, 2, 3), _array(1, 8, 3), _array(1, 8, 2), _array(1, 16)],
        {"hidden_size": 2, "activations": ["HardSigmoid", "Softsign", "Tanh"], "clip": 0.7},
        outputs=3,
        open=(0, 1),
    ),
    "gru: reset late, backwards, of several lengths": RowCase(
        "GRU",
        [_array(4, 3, 3), _array(1, 6, 3), _array(1, 6, 2), _array(1, 12), np.array([4, 1, 3], np.int32), _array(1, 3, 2)],
        {"hidden_size": 2, "linear_before_reset": 1, "direction": "reverse"},
        outputs=2,
    ),
    "gru: reset early, both ways": RowCase(
        "GRU",
        [_array(4, 3, 3), _array(2, 6, 3), _array(2, 6, 2), _array(2, 12)],
        {"hidden_size": 2, "direction": "bidirectional"},
        outputs=2,
    ),
    "rnn: leaky": RowCase(
        "RNN",
        [_array(4, 3, 3), _array(1, 2, 3), _array(1, 2, 2), _array(1, 4)],
        {"hidden_size": 2, "activations": ["LeakyRelu"], "activation_alpha": [0.3]},
        outputs=2,
        open=(0,),
    ),
    "grid: cubic, reflected, of open sizes": RowCase(
        "GridSample",
        [_array(2, 2, 4, 5), _array(2, 3, 2, 2)],
        {"mode": "cubic", "padding_mode": "reflection"},
        20,
        open=(2, 3),
    ),
    "grid: volumes beside the border": RowCase(
        "GridSample", [_array(1, 2, 3, 4, 2), _array(1, 2, 3, 2, 3)], {"padding_mode": "border", "align_corners": 1}, 20
    ),
    "regions: as many samples as each needs": RowCase(
        "RoiAlign",
        [_array(2, 2, 8, 9), np.array([[0, 0, 7, 6], [1, 2, 3, 8.5]], np.float32), np.array([1, 0])],
        {"output_height": 2, "output_width": 3, "spatial_scale": 0.9},
        16,
    ),
    "columns: of two axes": RowCase(
        "Col2Im", [_array(1, 12, 6), np.array([4, 5]), np.array([2, 3])], {"strides": [2, 1], "pads": [0, 0, 0, 0]}, 18
    ),
    "deformed: two groups": RowCase(
        "DeformConv",
        [_array(1, 4, 5, 5), _array(2, 2, 2, 2), _array(1, 16, 4, 4), _array(2), np.abs(_array(1, 8, 4, 4))],
        {"group": 2, "offset_group": 2},
        22,
    ),
    "texts: stop words": RowCase(
        "StringNormalizer",
        [np.array(["Der", "die", "Das"], object)],
        {"stopwords": ["DIE"], "case_change_action": "UPPER", "is_case_sensitive": 0},
    ),
}


def proto_of(case: RowCase) -> Any:
    """The model of a case: inputs `x0`, `x1`, ..., outputs `y0`, `y1`, ..."""
    from onnx import TensorProto, helper

    names = " ".join("_" if array is None else f"x{index}" for index, array in enumerate(case.inputs))
    infos = []
    for name, array in feeds_of(case).items():
        open_axes = case.open if name == "x0" else ()
        shape = [None if axis in open_axes else size for axis, size in enumerate(array.shape)]
        infos.append(info(name, shape, TensorProto.DataType.Name(helper.np_dtype_to_tensor_dtype(array.dtype))))
    outputs = ["_" if index in case.unread else f"y{index}" for index in range(case.outputs)]
    known = [tensor(f"x{index}", case.inputs[index]) for index in case.known]
    made_node = node(case.op, names, " ".join(outputs), domain=case.domain, **case.attrs)
    made = model([made_node], infos, [], *known, opset=case.opset)
    if case.domain:
        made.opset_import.append(helper.make_opsetid(case.domain, 3 if case.domain == "ai.onnx.ml" else 1))
    made.graph.output.extend(_output_infos(made, [name for name in outputs if name != "_"]))
    return made


def _output_infos(proto: Any, names: list[str]) -> Any:
    from onnx import helper, shape_inference

    inferred = shape_inference.infer_shapes(proto).graph.value_info
    kinds = {value.name: value.type.tensor_type.elem_type for value in inferred}
    empty = helper.make_empty_tensor_value_info
    return [helper.make_tensor_value_info(name, kinds[name], None) if name in kinds else empty(name) for name in names]


def feeds_of(case: RowCase) -> dict[str, Any]:
    """What its inputs are fed."""
    return {f"x{index}": array for index, array in enumerate(case.inputs) if array is not None and index not in case.known}


def _reference(case: RowCase) -> list[Any]:
    import onnxruntime
    from onnx.reference import ReferenceEvaluator

    proto, feeds = proto_of(case), feeds_of(case)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1  # DynamicQuantizeLSTM has a scale for each thread's part of a batch
    try:
        session = onnxruntime.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"])
        return list(session.run(None, feeds))
    except Exception as error:
        print(f"{case.op} by ONNX's reference: {str(error)[:100]}")
        return list(ReferenceEvaluator(proto).run(None, feeds))


def all_cases() -> dict[str, RowCase]:
    """The cases of ONNX's ops, and of others'."""
    from tests.formats.onnx.learning_cases import LEARNING_CASES
    from tests.formats.onnx.runtime_cases import RUNTIME_CASES

    return {**CASES, **RUNTIME_CASES, **LEARNING_CASES}


def main() -> None:
    """Records every case."""
    given = (
        (f"{name}/{index}", item)
        for name, case in all_cases().items()
        for index, item in zip(case.read, _reference(case), strict=True)
    )
    found = {name: item.astype(str) if item.dtype == object else item for name, item in given}
    np.savez_compressed(RECORDED, **found)


if __name__ == "__main__":
    main()
