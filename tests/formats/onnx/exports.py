"""Writes `tests/data/onnx`: small models with random weights as PyTorch exports them, and what ONNX Runtime makes of them.

`python -m tests.formats.onnx.exports [NAME ...]` where torch, onnx, onnxscript and onnxruntime are installed; none of
them is needed to run the tests.  Each model is `NAME.onnx` and `NAME.npz`, which holds its inputs and outputs by their names.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnx
import onnxruntime
import torch
from torch import Tensor, nn
from torch.nn import functional

ROOT = Path(__file__).parent.parent.parent.parent
FOLDER = ROOT / "tests" / "data" / "onnx"
EXAMPLES = {"image-towers": ROOT / "graphs"}
"""Models that are examples too, and their folder."""


class Export(NamedTuple):
    """A model, what it is given, and how it is exported; `other` are inputs of other sizes than those that were traced."""

    make: Callable[[], nn.Module]
    inputs: Mapping[str, Tensor]
    outputs: Sequence[str]
    opset: int
    dynamo: bool = False
    dynamic: Mapping[str, Mapping[int, str]] = {}
    other: Mapping[str, Tensor] = {}


class ResidualBlock(nn.Module):
    """Two convolutions with batch normalization beside a shortcut of one (He et al. 2016)."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(8, 16, 3, 2, 1, bias=False)
        self.first_norm = nn.BatchNorm2d(16)
        self.second = nn.Conv2d(16, 16, 3, 1, 1, bias=False)
        self.second_norm = nn.BatchNorm2d(16)
        self.shortcut = nn.Sequential(nn.Conv2d(8, 16, 1, 2, bias=False), nn.BatchNorm2d(16))

    def forward(self, x: Tensor) -> Tensor:
        y = functional.relu(self.first_norm(self.first(x)))
        return functional.relu(self.second_norm(self.second(y)) + self.shortcut(x))


class InvertedResidual(nn.Module):
    """A block of MobileNetV2: wider, by channel, narrower (Sandler et al. 2018)."""

    def __init__(self, given: int, made: int, stride: int, expansion: int) -> None:
        super().__init__()
        wide = given * expansion
        layers = [nn.Conv2d(given, wide, 1, bias=False), nn.BatchNorm2d(wide), nn.ReLU6()] if expansion != 1 else []
        layers += [nn.Conv2d(wide, wide, 3, stride, 1, groups=wide, bias=False), nn.BatchNorm2d(wide), nn.ReLU6()]
        self.layers = nn.Sequential(*layers, nn.Conv2d(wide, made, 1, bias=False), nn.BatchNorm2d(made))
        self.is_added = stride == 1 and given == made

    def forward(self, x: Tensor) -> Tensor:
        return x + self.layers(x) if self.is_added else self.layers(x)


class MobileNet(nn.Module):
    """MobileNetV2 at an eighth of its width, with ten classes."""

    def __init__(self) -> None:
        super().__init__()
        layers: list[nn.Module] = [nn.Conv2d(3, 8, 3, 2, 1, bias=False), nn.BatchNorm2d(8), nn.ReLU6()]
        width = 8
        for expansion, made, count, stride in ((1, 4, 1, 1), (6, 4, 2, 2), (6, 8, 3, 2), (6, 8, 2, 2), (6, 16, 1, 1)):
            for i in range(count):
                layers.append(InvertedResidual(width, made, stride if i == 0 else 1, expansion))
                width = made
        self.features = nn.Sequential(*layers, nn.Conv2d(width, 64, 1, bias=False), nn.BatchNorm2d(64), nn.ReLU6())
        self.classifier = nn.Sequential(nn.Dropout(0.2), nn.Linear(64, 10))

    def forward(self, x: Tensor) -> Tensor:
        return self.classifier(self.features(x).mean((2, 3)))


class DecoderStep(nn.Module):
    """One token through one layer of a decoder that keeps the keys and values of the tokens before."""

    def __init__(self, width: int = 32, heads: int = 4, words: int = 50) -> None:
        super().__init__()
        self.heads = heads
        self.words = nn.Embedding(words, width)
        self.norm, self.last_norm = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attended = nn.Linear(width, 3 * width)
        self.projected = nn.Linear(width, width)
        self.wide, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, token: Tensor, past_key: Tensor, past_value: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        x = self.words(token)
        batch, length, width = x.shape
        parts = self.attended(self.norm(x)).chunk(3, -1)
        query, key, value = (part.view(batch, length, self.heads, width // self.heads).transpose(1, 2) for part in parts)
        key, value = torch.cat((past_key, key), 2), torch.cat((past_value, value), 2)
        scores = torch.softmax(query @ key.transpose(2, 3) / math.sqrt(width // self.heads), -1)
        x = x + self.projected((scores @ value).transpose(1, 2).reshape(batch, length, width))
        x = x + self.narrow(functional.gelu(self.wide(self.last_norm(x))))
        return x @ self.words.weight.T, key, value


class Encoder(nn.Module):
    """Two layers of a transformer's encoder over padded sequences."""

    def __init__(self) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True, norm_first=True, activation="gelu")
        self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)

    def forward(self, x: Tensor, padding: Tensor) -> Tensor:
        return self.layers(x, src_key_padding_mask=padding)


class Lstm(nn.Module):
    """Two layers both ways, and a class of the last step."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(8, 12, 2, batch_first=True, bidirectional=True)
        self.out = nn.Linear(24, 5)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        y, (hidden, _) = self.lstm(x)
        return self.out(y[:, -1]), hidden


class UNet(nn.Module):
    """Two levels: pooled, convolved, brought back by a transposed convolution and by interpolation, joined."""

    def __init__(self) -> None:
        super().__init__()
        self.down = self._twice(3, 8)
        self.lower = self._twice(8, 16)
        self.lowest = self._twice(16, 16)
        self.raised = nn.ConvTranspose2d(16, 8, 2, 2)
        self.middle = self._twice(32, 16)
        self.up = self._twice(16, 8)
        self.out = nn.Conv2d(8, 2, 1)

    @staticmethod
    def _twice(given: int, made: int) -> nn.Module:
        first = nn.Conv2d(given, made, 3, padding=1), nn.GroupNorm(2, made), nn.SiLU()
        return nn.Sequential(*first, nn.Conv2d(made, made, 3, padding=1), nn.InstanceNorm2d(made), nn.LeakyReLU())

    def forward(self, x: Tensor) -> Tensor:
        top = self.down(x)
        lower = self.lower(functional.max_pool2d(top, 2))
        lowest = self.lowest(functional.avg_pool2d(lower, 2))
        up = functional.interpolate(lowest, scale_factor=2.0, mode="bilinear", align_corners=False)
        middle = self.middle(torch.cat((up, lower), 1))
        return torch.sigmoid(self.out(self.up(torch.cat((self.raised(middle), top), 1))))


class Towers(nn.Module):
    """Two images through convolutions of their own, compared by what is left of each."""

    def __init__(self, width: int = 24) -> None:
        super().__init__()
        self.left, self.right = self._tower(width), self._tower(width)
        self.head = nn.Linear(2 * width, 2)

    @staticmethod
    def _tower(width: int) -> nn.Module:
        layers: list[nn.Module] = [nn.Conv2d(3, width, 3, padding=1), nn.ReLU()]
        for _ in range(3):
            layers += [nn.Conv2d(width, width, 3, padding=1), nn.ReLU()]
        return nn.Sequential(*layers)

    def forward(self, left: Tensor, right: Tensor) -> Tensor:
        parts = [tower(image).mean((2, 3)) for tower, image in ((self.left, left), (self.right, right))]
        return self.head(torch.cat(parts, 1))


class Steps(nn.Module):
    """A loop and a conditional that the exporter keeps where the module is scripted."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(4, 4) / 2)

    def forward(self, x: Tensor, count: Tensor) -> tuple[Tensor, Tensor]:
        total = torch.zeros_like(x)
        for i in range(int(count)):
            x = torch.tanh(x @ self.weight)
            if bool(x.sum() > 0):  # noqa: SIM108 - TorchScript keeps it as a conditional
                total = total + x * i
            else:
                total = total - x
        return x, total


def _random(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape)))


PADDING = torch.tensor([[False] * 6, [False] * 4 + [True] * 2])
_CACHE = {0: "batch", 2: "past"}
_STEP = {"token": torch.tensor([[3]]), "past_key": _random(1, 4, 5, 8), "past_value": _random(1, 4, 5, 8)}
_LATER = {"token": torch.tensor([[7], [9]]), "past_key": _random(2, 4, 9, 8), "past_value": _random(2, 4, 9, 8)}
_STEP_OUTPUTS = ("logits", "key", "value")
_STEP_AXES = {"token": {0: "batch"}, "past_key": _CACHE, "past_value": _CACHE}
_BATCH = {0: "batch"}
_IMAGES = {"left": _random(1, 3, 64, 64), "right": _random(2, 3, 64, 64)[:1]}
EXPORTS = {
    "image-towers": Export(Towers, _IMAGES, ["same"], 17, False, {"left": _BATCH, "right": _BATCH}),
    "resnet-block": Export(ResidualBlock, {"x": _random(1, 8, 12, 12)}, ["y"], 13),
    "resnet-block-dynamo": Export(
        ResidualBlock, {"x": _random(2, 8, 12, 12)}, ["y"], 20, True, {"x": {0: "batch"}}, {"x": _random(3, 8, 12, 12)}
    ),
    "mobilenet": Export(
        MobileNet, {"x": _random(1, 3, 32, 32)}, ["y"], 11, False, {"x": {0: "batch"}}, {"x": _random(2, 3, 32, 32)}
    ),
    "mobilenet-dynamo": Export(MobileNet, {"x": _random(1, 3, 32, 32)}, ["y"], 18, True),
    "encoder": Export(Encoder, {"x": _random(2, 6, 32), "padding": PADDING}, ["y"], 17),
    "encoder-dynamo": Export(Encoder, {"x": _random(2, 6, 32), "padding": PADDING}, ["y"], 21, True),
    "decoder-step": Export(DecoderStep, _STEP, _STEP_OUTPUTS, 14, False, _STEP_AXES, _LATER),
    "decoder-step-dynamo": Export(DecoderStep, _LATER, _STEP_OUTPUTS, 23, True, _STEP_AXES, _STEP),
    "lstm": Export(Lstm, {"x": _random(2, 7, 8)}, ["y", "hidden"], 12, False, {"x": {0: "batch", 1: "time"}}),
    "lstm-dynamo": Export(Lstm, {"x": _random(2, 7, 8)}, ["y", "hidden"], 18, True),
    "unet": Export(UNet, {"x": _random(1, 3, 16, 16)}, ["y"], 16, False, {"x": {0: "batch", 2: "rows", 3: "columns"}}),
    "unet-dynamo": Export(UNet, {"x": _random(1, 3, 16, 16)}, ["y"], 22, True),
    "scripted-steps": Export(
        lambda: torch.jit.script(Steps()), {"x": _random(3, 4), "count": torch.tensor(5)}, ["last", "total"], 15
    ),
}


def export(name: str, model: Export) -> None:
    """Write `NAME.onnx` and `NAME.npz`."""
    torch.manual_seed(20)
    module = model.make().eval()
    for norm in module.modules():
        if isinstance(norm, nn.BatchNorm2d):
            nn.init.uniform_(norm.running_mean, -0.2, 0.2)
            nn.init.uniform_(norm.running_var, 0.5, 1.5)
    path = EXAMPLES.get(name, FOLDER) / f"{name}.onnx"
    given: dict[str, Any] = {"input_names": [*model.inputs], "output_names": [*model.outputs], "opset_version": model.opset}
    if model.dynamo:
        if model.dynamic:
            given["dynamic_shapes"] = {
                key: {axis: torch.export.Dim(text) for axis, text in model.dynamic.get(key, {}).items()} for key in model.inputs
            }
        torch.onnx.export(module, tuple(model.inputs.values()), path, dynamo=True, external_data=False, verbose=False, **given)
    else:
        torch.onnx.export(module, tuple(model.inputs.values()), path, dynamo=False, dynamic_axes=model.dynamic, **given)
    _without_places(path)
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    feeds = {key: value.numpy() for key, value in (model.other or model.inputs).items()}
    outputs = session.run(None, feeds)
    recorded = {f"input:{key}": value for key, value in feeds.items()}
    recorded |= {f"output:{item.name}": value for item, value in zip(session.get_outputs(), outputs, strict=True)}
    np.savez_compressed(FOLDER / f"{name}.npz", **recorded)


def _without_places(path: Path) -> None:
    """Take out what says where in the exporting machine's files a node comes from: most of a small model's bytes."""
    model = onnx.load(path)
    for node in _nodes(model.graph):
        node.doc_string = ""
        kept = [item for item in node.metadata_props if item.key != "pkg.torch.onnx.stack_trace"]
        del node.metadata_props[:]
        node.metadata_props.extend(kept)
    onnx.save(model, path)


def _nodes(graph: onnx.GraphProto) -> Iterator[onnx.NodeProto]:
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            yield from _nodes(attribute.g)


def main(names: Sequence[str]) -> None:
    """Write the models of these names, or all."""
    for name, model in EXPORTS.items():
        if not names or name in names:
            export(name, model)


if __name__ == "__main__":
    main(sys.argv[1:])
