"""The benchmark against published times, over a table of a few made-up rows."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from placesim.machine.options import make_options
from placesim.planning.strategies.rewriting import Strategy, rewrite_training
from placesim.prediction.cost_formulas import predict
from placesim.prediction.work_amounts import Product, Rows, StreamedBytes
from placesim.studies.time_study import study_time
from tests.benchmarks import timing_bench
from tests.benchmarks.collective_times import Fabric, all_reduce_seconds
from tests.benchmarks.network_rows import NetworkRow, NetworkRun, ScaledRow, read_networks
from tests.benchmarks.network_tape import Numerics
from tests.benchmarks.network_times import network_seconds, recorded_step
from tests.benchmarks.strategy_times import spread_over_gpus, strategy_seconds, written_network
from tests.benchmarks.timing_rows import LAUNCHES, Measurement, UnmodelledRow, read_measurements, read_processors

DEVICES = """device,kind,fp32_tflops,tensor_f16_tflops,mem_GBps,units,clock_MHz
Tesla T4,gpu,8,64,320,40 SM,1590
Tesla K80,gpu,4.113,,240.6,13 SMX,824
Some CPU,cpu,1,,50,6P+8E cores,2300
Nothing known,gpu,,,100,,
"""
OPS = """device,op,phase,dtype,math,dims,bytes,ms,suite
Tesla T4,bmm,fwd,f32,f32,b=3;m=64;n=128;k=256,0,1,NeuSight test
Tesla T4,gemm,fwd,f16,f16*f32+,m=64;n=128;k=256;ta=N;tb=N,0,1,DeepBench train
Tesla T4,add,fwd,f32,f32,rows=10;cols=10,1200,1,NeuSight test
Tesla T4,softmax,fwd,f32,f32,rows=10;cols=20,1600,1,NeuSight test
Tesla T4,conv,bwd_total,f32,f32,out_elements=6400;c=8;k=64;fh=3;fw=3;ph=1;pw=1;sh=2;sw=2;groups=1,0,1,pipedream net
Tesla T4,sparse_gemm,fwd,f32,f32,m=1;n=1;k=1;sparsity=0.9,0,1,DeepBench inference
Nothing known,add,fwd,f32,f32,rows=10;cols=10,1200,1,NeuSight test
"""
MODELS = """device,n_devices,model,mode,dtype,batch,img,ms,framework,variant,suite
Tesla T4,1,timm/resnet18,inference,f16 amp,8,64,1,PyTorch pt240 nhwc,,timm results
Tesla T4,1,timm/resnet18,inference,f16 amp,8,64,1,PyTorch pt240 nhwc dynamo,,timm results
Tesla T4,1,timm/no_such_net,inference,f16 amp,8,64,1,PyTorch pt240 nhwc,,timm results
Some CPU,1,timm/resnet18,inference,f32,8,64,1,PyTorch pt240 nchw,,timm results
Tesla T4,1,alexnet,training,f32,2,,1,Torch7 nn,,cnn-benchmarks
Tesla K80,1,alexnet,training,f32,2,,40,TensorFlow 1.1,GCE; synthetic; ps on cpu,TF benchmarks page
Tesla K80,8,alexnet,training,f32,2,,60,TensorFlow 1.1,GCE; synthetic; ps on cpu,TF benchmarks page
"""
COLLECTIVES = """device,bytes,ranks,ms,algorithm
Tesla M40,100000000,2,16,NCCL 2.0 MPI
"""
TABLES = {"devices": DEVICES, "ops": OPS, "models": MODELS, "collectives": COLLECTIVES}


@pytest.fixture
def tables(tmp_path: Path) -> Path:
    for name, text in TABLES.items():
        (tmp_path / f"{name}.csv").write_text(text)
    return tmp_path


def test_rows_become_work(tables: Path) -> None:
    processors = read_processors(tables / "devices.csv")
    assert list(processors) == ["Tesla T4", "Tesla K80", "Some CPU"]
    assert (processors["Some CPU"].units, processors["Some CPU"].memory) == (14, "processor")
    assert processors["Tesla T4"].watts == 70
    assert processors["Tesla T4"].tensor == frozenset(("float16",))
    batched, half, added, rows, both, sparse, unknown = read_measurements(tables / "ops.csv", processors)
    assert isinstance(batched, Measurement)
    assert isinstance(half, Measurement)
    assert isinstance(batched.work[0], Product)
    assert isinstance(half.work[0], Product)
    assert batched.work[0][1:5] == (3, 64, 256, 128)
    assert half.work[0][1:6] == (1, 64, 128, 256, "float16")
    assert isinstance(added, Measurement)
    assert added.work == (StreamedBytes("elementwise", 1200.0),)
    assert isinstance(rows, Measurement)
    assert rows.work == (Rows("softmax", 10, 20, 4),)
    assert isinstance(both, Measurement)
    assert [(type(work), work[1:5]) for work in both.work] == [(Product, (1, 100, 32, 256)), (Product, (1, 64, 72, 100))]
    assert [sparse, unknown] == [UnmodelledRow("Tesla T4", "sparse_gemm"), UnmodelledRow("Nothing known", "add")]


@pytest.mark.slow
def test_the_bench_prints_errors(tables: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = [f"--{name}={tables / name}.csv" for name in TABLES]
    monkeypatch.setattr("sys.argv", ["timing_bench", *arguments])
    monkeypatch.setattr(timing_bench, "recorded_networks", list)
    assert timing_bench.main() == 0
    printed = capsys.readouterr().out
    added = next(line for line in printed.splitlines() if line.startswith("elementwise"))
    processor = read_processors(tables / "devices.csv")["Tesla T4"]
    launch = LAUNCHES["NeuSight"]
    error = 100 * (1 - predict(StreamedBytes("elementwise", 1200.0), processor, launch).seconds / 1e-3)
    assert added.split()[1:3] == ["1", f"{error:.1f}"]
    assert "rows that no formula stands for: 2: add on Nothing known (1), sparse_gemm on Tesla T4 (1)" in printed
    lines = [line.split() for line in printed.splitlines()]
    network = next(row for row in read_networks(tables / "models.csv", tables / "devices.csv") if isinstance(row, NetworkRow))
    predicted = network_seconds(recorded_step(network.run), network.model)
    error = 100 * abs(predicted[0] / 1e-3 - 1)
    assert next(line[2:5] for line in lines if line[:2] == ["timm", "results"]) == ["1", f"{error:.1f}", f"{error:.1f}"]
    for why in ("compiled: ops are fused", "a network that is not built here", "no GPU of the table", "kernels of its own"):
        assert printed.count(why) == 1, why
    # of the eight GPUs' row only the one GPU's tells how long it would be without losses
    assert next(line for line in lines if line[:2] == ["if", "nothing"])[4:] == ["1", "33.3", "33.3"]
    assert next(line for line in lines if line[:2] == ["8", "GPUs"])[2] == "1"
    scaled = next(row for row in read_networks(tables / "models.csv", tables / "devices.csv") if isinstance(row, ScaledRow))
    alone, together = (strategy_seconds(scaled.run, "ps on cpu", "GCE", "Tesla K80", gpus) for gpus in (1, 8))
    speedup = next(line for line in lines if line[2:4] == ["alexnet_tf,", "batch"])
    assert speedup[-3] == "8"
    assert speedup[-2:] == [f"{8 * 40 / 60:.2f}", f"{8 * alone / together:.2f}"]
    seconds = all_reduce_seconds(2, 1e8, Fabric(7e9, is_staged=True)) + 10e-6 + 8.4e-6
    error = 100 * abs(seconds / 16e-3 - 1)
    assert next(line for line in lines if line[:2] == ["2", "ranks"])[2:4] == ["1", f"{error:.1f}"]


def test_variables_are_spread_over_gpus() -> None:
    run = NetworkRun("alexnet_tf", 2, True, True, "NCHW", Numerics(), 67)
    loaded = written_network(run, "ps on gpu", "EC2", "Tesla K80", 2)
    assert loaded.file is not None
    file = spread_over_gpus(rewrite_training(loaded.file, Strategy(replicas=2)).file, 2)
    variables = {node.name: node.device for node in file.graph.nodes if node.op == "VariableV2"}
    assert set(variables.values()) == {"/device:GPU:0", "/device:GPU:1"}
    for name, device in variables.items():
        update = f"train/update_{name}/ApplyGradientDescent"
        assert {file.graph.node(other).device for other in (f"average/{name}", f"average/{name}/sum", update)} == {device}
    devices = {run.device for run in study_time(replace(loaded, file=file, text=None), make_options({}), "net").nodes}
    assert {device[-5:] for device in devices} == {"CPU:0", "GPU:0", "GPU:1"}


def test_a_file_that_is_not_there_is_named(
    tables: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["timing_bench", f"--ops={tables / 'no.csv'}", f"--devices={tables / 'devices.csv'}"])
    assert timing_bench.main() == 1
    told = capsys.readouterr().err
    assert str(tables / "no.csv") in told
    assert "github.com/sitar-lab/NeuSight" in told
