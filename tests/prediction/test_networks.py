"""The benchmark's networks: as large as published, walked through like any graph, and shared by several GPUs."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from placesim.machine.gpu_models import GPU_MODELS
from placesim.machine.timelines import event_simulation
from placesim.machine.timelines.workload import LinkTransfer
from placesim.prediction.node_shapes import node_shapes
from tests.benchmarks import scaling
from tests.benchmarks.collective_times import Fabric, all_reduce_seconds
from tests.benchmarks.network_rows import NetworkRow, NetworkRun, read_networks
from tests.benchmarks.network_tape import Numerics
from tests.benchmarks.network_times import network_seconds, placed_on, recorded_step
from tests.benchmarks.networks import architecture, build
from tests.benchmarks.scaling import Stretch, TrainingStep, scale_of, step_seconds, training_step

PUBLISHED = [
    # millions of parameters, billions of multiplications, convolutions: the papers' and the models' own tables
    ("alexnet", 60.97, 0.72, 5),
    ("alexnet_owt", 61.10, 0.71, 5),
    ("vgg11", 132.86, 7.61, 8),
    ("vgg16", 138.36, 15.47, 13),
    ("vgg19_bn", 143.68, 19.63, 16),
    ("resnet18", 11.69, 1.82, 20),
    ("resnet34", 21.80, 3.67, 36),
    ("resnet50", 25.56, 4.11, 53),
    ("resnet101", 44.55, 7.83, 104),
    ("resnet152", 60.19, 11.56, 155),
    ("timm/gluon_resnet101_v1d", 44.57, 8.08, 106),
    ("wide_resnet50_2", 68.88, 11.43, 53),
    ("resnext101_32x8d", 88.79, 16.48, 104),
    ("seresnet50", 28.09, 4.11, 85),
    ("resnetv2_101", 44.54, 7.83, 104),
    ("densenet121", 7.98, 2.87, 120),
    ("densenet264", 72.69, 12.95, 264),
    ("mobilenetv1_100", 4.23, 0.58, 27),
    ("mobilenetv2_100", 3.50, 0.31, 52),
    ("mobilenetv2_120d", 5.83, 0.69, 79),
    ("regnetx_032", 15.30, 3.20, 80),
    ("regnety_032", 19.44, 3.20, 110),
    ("googlenet", 6.62, 1.50, 57),
    ("googlenet_plain", 7.00, 1.58, 57),
    ("inception_v3", 23.83, 5.73, 94),
    ("inception_v4", 42.68, 12.28, 149),
]
STEP = TrainingStep((Stretch(0.01, (0,), ()), Stretch(0.02, (1,), (1,)), Stretch(0.03, (), (0,))), (40 << 20, 10 << 20))


@pytest.mark.parametrize(("name", "parameters", "multiply_adds", "convolutions"), PUBLISHED)
def test_a_network_is_as_large_as_published(name: str, parameters: float, multiply_adds: float, convolutions: int) -> None:
    built = build(name, 1)
    assert built is not None
    assert built.parameters / 1e6 == pytest.approx(parameters, abs=0.006)
    # most tables count normalization and pooling too
    assert 0.965 * multiply_adds < built.multiply_adds / 1e9 < multiply_adds + 0.006
    ops = Counter(node["op"] for node in built.graph["nodes"])
    assert ops["Conv2D"] + ops["DepthwiseConv2dNative"] == convolutions


@pytest.mark.parametrize(
    ("name", "length", "parameters", "multiply_adds", "products"),
    [
        # with 0.15 million numbers of positions and biases, which are none of the layers
        ("vit_base_patch16_224", None, 86.57, 17.58, 24),
        # 124.4 million, and the vocabulary's products with a table of their own
        ("gpt2", 1024, 124.4 + 50257 * 768 / 1e6, None, 24),
        ("bert-large", 512, 335.1 + 30522 * 1024 / 1e6, None, 48),
        ("bert-large-classifier", 512, 335.1, None, 48),
        # 222.9 million, the second table of words, the product with the vocabulary and its bias, and numbers for distances
        ("t5-base", 512, 222.9 + 2 * 32128 * 768 / 1e6 + 12 * (512**2 + 128**2) / 1e6, None, 72),
    ],
)
def test_a_transformer_is_as_large_as_published(
    name: str, length: int | None, parameters: float, multiply_adds: float | None, products: int
) -> None:
    built = build(name, 1, pixels=length)
    assert built is not None
    assert built.parameters / 1e6 == pytest.approx(parameters, rel=0.01)
    if multiply_adds is not None:
        assert built.multiply_adds / 1e9 == pytest.approx(multiply_adds, rel=0.002)
    assert sum(node["op"] == "BatchMatMulV2" for node in built.graph["nodes"]) == products


@pytest.mark.parametrize("name", ["resnet51q", "resnext50", "regnetz_c16", "t5_small", "vgg12", "densenet122"])
def test_a_network_that_no_rule_makes_is_none(name: str) -> None:
    assert architecture(name) is None
    assert build(name, 1) is None


def run(name: str, **changes: Any) -> NetworkRun:
    return NetworkRun(name, 2, True, True, "NCHW", Numerics(), None)._replace(**changes)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "numerics"),
    [
        # casts are all that mixed precision adds
        *((name, Numerics("half", "float32"))
          for name in ("vgg11_bn", "seresnet18", "resnetv2_18d", "mobilenetv2_050", "densenet121")),
        ("vgg11_bn", Numerics()),
        # response normalization has a kernel for float32 alone
        *((name, Numerics()) for name in ("alexnet", "googlenet_plain")),
    ],
)  # fmt: skip
def test_training_gives_every_parameter_its_gradient(name: str, numerics: Numerics) -> None:
    step = recorded_step(run(name, pixels=64 if "net_plain" not in name and name != "alexnet" else None, numerics=numerics))
    executed = [execution for execution in step if execution.site is not None]
    updates = [e for e in executed if e.site is not None and e.site.instruction.node.op == "ResourceApplyMomentum"]
    reads = [e for e in executed if e.site is not None and e.site.instruction.node.op == "ReadVariableOp"]
    assert len(updates) == len(reads) - 1  # the images are a variable too
    for update in updates:
        # variable, momentum, learning rate, gradient
        assert update.inputs[0] == update.inputs[1] == update.inputs[3]


@pytest.mark.parametrize(
    ("numerics", "kernels"),
    [
        (Numerics(), ["Softmax"]),
        (Numerics("half", "half"), ["Softmax"]),
        # one kernel converts from half, and none from bfloat16
        (Numerics("half", "float32"), ["Cast", "Cast"]),
        (Numerics("bfloat16", "float32"), ["Cast", "Softmax", "Cast"]),
    ],
)
def test_a_softmax_casts_as_autocast_does(numerics: Numerics, kernels: list[str]) -> None:
    """Of 2 images, 3 heads and 5 tokens, in each of 12 layers."""
    step = recorded_step(run("vit_tiny_patch16_32", is_training=False, pixels=32, numerics=numerics))
    of_scores = [e for e in step if e.site is not None and (2, 3, 5, 5) in node_shapes(e.site, e).inputs]
    read = [e.site.instruction.node.op for e in of_scores if e.site is not None]
    assert [op for op in read if op in {"Cast", "Softmax"}] == kernels * 12


@pytest.mark.slow
@pytest.mark.parametrize("numerics", [Numerics(), Numerics("bfloat16", "float32")])
def test_the_gradient_of_a_softmax_multiplies_first(numerics: Numerics) -> None:
    """Two kernels in each of 12 layers, the first with the softmax's results."""
    step = recorded_step(run("vit_tiny_patch16_32", is_training=True, pixels=32, numerics=numerics))
    ops = [e.site.instruction.node.op for e in step if e.site is not None and e.site.name.startswith("softmax_")]
    assert ops.count("Mul") == 24


@pytest.mark.parametrize(("mode", "network"), [("training", "bert-large"), ("inference", "bert-large-classifier")])
def test_neusight_measures_bert_as_a_classifier_without_training(mode: str, network: str, tmp_path: Path) -> None:
    models, devices = tmp_path / "models.csv", tmp_path / "devices.csv"
    models.write_text(
        "device,n_devices,model,mode,dtype,batch,seq,img,ms,framework,variant,suite\n"
        f"Tesla T4,1,bert_large,{mode},f32,8,512,,1,PyTorch 2.1 eager,,NeuSight label\n"
    )
    devices.write_text("device,kind\nTesla T4,gpu\n")
    (row,) = read_networks(models, devices)
    assert isinstance(row, NetworkRow)
    assert (row.run.network, row.run.pixels, row.family) == (network, 512, "Transformer")


def test_layouts_hold_the_same_numbers() -> None:
    steps = [recorded_step(run("resnet18", layout=layout, is_training=False)) for layout in ("NHWC", "NCHW")]
    counts = [Counter(e.site.instruction.node.op for e in step if e.site is not None) for step in steps]
    assert counts[0] == counts[1]
    # without matrix units only the mean differs, which is of rows where channels are planes
    model = GPU_MODELS["TITAN Xp"]
    others = [
        sum(
            cost.predicted.seconds
            for execution, cost in zip(step, placed_on(step, model)[1], strict=True)
            if execution.site is None or execution.site.instruction.node.op != "Mean"
        )
        for step in steps
    ]
    assert others[0] == pytest.approx(others[1])
    # matrix units want the channels side by side
    half = [recorded_step(run("resnet18", layout=layout, is_training=False, numerics=Numerics("half", "half"), batch=64))
            for layout in ("NHWC", "NCHW")]  # fmt: skip
    model = GPU_MODELS["A100-SXM4-40GB"]
    assert network_seconds(half[0], model)[0] < network_seconds(half[1], model)[0]


def test_a_training_step_is_cut_where_variables_are_read_and_gradients_made() -> None:
    step = recorded_step(run("vgg11"))
    machine, placed = placed_on(step, GPU_MODELS["Tesla K80"])
    found = training_step(step, placed)
    assert sum(found.variables) == 4 * 132_863_336
    assert sorted(number for stretch in found.stretches for number in stretch.needs) == list(range(22))
    assert sorted(number for stretch in found.stretches for number in stretch.gives) == list(range(22))
    updates = sum(
        cost.predicted.seconds
        for execution, cost in zip(step, placed, strict=True)
        if execution.site is not None and execution.site.instruction.node.op == "ResourceApplyMomentum"
    )
    total = sum(cost.predicted.seconds for cost in placed)
    assert sum(stretch.seconds for stretch in found.stretches) == pytest.approx(total - updates)
    assert len(machine.places) == 2


@pytest.mark.parametrize("ranks", [2, 4, 8])
@pytest.mark.parametrize("is_staged", [False, True])
def test_a_ring_moves_twice_all_but_one_part(ranks: int, is_staged: bool) -> None:
    size, fabric = 1e9, Fabric(5e9, is_staged=is_staged)
    times = 2 if is_staged else 1
    passed = 2 * (ranks - 1) / ranks * size * times
    seconds = all_reduce_seconds(ranks, size, fabric)
    pcie = 16 * 8e9 * 128 / 130 / 8 * scaling.PCIE_SHARE
    assert seconds == pytest.approx(passed / pcie + 2 * (ranks - 1) * times * 5e-6)
    # copies one after the other take as long as those of a pipeline that share a link's rate
    assert all_reduce_seconds(ranks, size, fabric, "waiting") == pytest.approx(
        2 * (ranks - 1) * (2 * size / ranks / pcie + 2 * 5e-6)
    )


def test_a_ring_over_hosts_is_as_fast_as_its_network() -> None:
    fabric = Fabric(1e9, has_gpus=False)
    assert all_reduce_seconds(16, 1e9, fabric) == pytest.approx(2 * 15 / 16 + 30 * 2e-6)
    # the network's hop begins once a part has come from the GPU before
    assert all_reduce_seconds(16, 1e9, Fabric(1e9)) == pytest.approx(2 * 15 / 16 + 30 * 7e-6, rel=0.01)


SHARINGS: list[scaling.Sharing] = ["ps on cpu", "ps on gpu", "replicated", "nccl", "distributed"]


@pytest.mark.parametrize("sharing", SHARINGS)
def test_more_gpus_never_make_a_step_shorter(sharing: scaling.Sharing) -> None:
    machine = "DGX-1" if sharing == "nccl" else "EC2"
    times = [step_seconds(STEP, machine, "Tesla K80", gpus, sharing) for gpus in (1, 2, 4, 8)]
    assert times == sorted(times)
    assert times[0] >= 0.06
    scale = scale_of(STEP, machine, "Tesla K80", sharing, 2 * times[0])
    assert step_seconds(STEP, machine, "Tesla K80", 1, sharing, scale) == pytest.approx(2 * times[0], rel=1e-3)


@pytest.mark.parametrize(
    ("sharing", "gpus", "times"),
    [
        ("ps on cpu", 4, 2 * 4),  # each GPU reads every variable and sends every gradient
        ("ps on gpu", 4, 2 * 3),  # but the one that holds it
        ("replicated", 4, 2 * 3),
        ("nccl", 4, 2 * 3),  # 2 (n - 1) / n of the bytes over each of n links
        ("distributed", 16, 2 * 16 + 2),  # every GPU sends and gets; of two tasks, one sends to the other and gets it back
    ],
)
def test_sharing_moves_each_variable_so_often(
    monkeypatch: pytest.MonkeyPatch, sharing: scaling.Sharing, gpus: int, times: int
) -> None:
    moved: list[float] = []

    def counted(tasks: Any, resources: Any, links: Any) -> Any:
        moved.append(sum(task.bytes for task in tasks if isinstance(task, LinkTransfer) and task.route))
        return simulate(tasks, resources, links)

    simulate = event_simulation.simulate
    monkeypatch.setattr(scaling, "simulate", counted)
    step_seconds(STEP, "DGX-1", "Tesla P100-SXM2-16GB", gpus, sharing)
    assert moved == [pytest.approx(times * sum(STEP.variables))]
