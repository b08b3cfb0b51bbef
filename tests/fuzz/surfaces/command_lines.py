"""Command lines over a graph: each command with some of its options, and values for them that mean something or do not."""

from __future__ import annotations

from random import Random

from tests.fuzz.mutation import mutate_text, odd_int, odd_text

_NUMBERS = (
    "0",
    "1",
    "2",
    "4",
    "-1",
    "1e3",
    "",
    "0x2",
    " 1",
    "\u0661",
    "99999999999999999999",
    "9" * 5000,
    "nan",
    "1.5",
    "65536",
)
_DEVICES = (
    "/cpu:0",
    "/gpu:0",
    "/gpu:*",
    "/job:ps/task:1",
    "GPU:1",
    "/gpu:99999999999999999999",
    "",
    "/",
    "//",
    "/device:",
    "x",
)
_PATTERNS = ("*", "a*", "op", "", "[", "[!a]", "a/", "?", "**", "{", "\x1b[31m*", "é*", "*" * 60)
_RULES = (
    *("no-soft-fallback", "max-transfers=1", "max-transfers=-1", "max-transfer-bytes: {bytes: 4MiB, from: GPU:0}", "balance"),
    *("no-ignored-colocation", "balance: {of: operations, within: 20%}", "balance: {of: bytes, type: CPU, within: 0}"),
    *("variables-with-consumers", "max-memory: {bytes: 1KiB, device: GPU:0}", "on-device: {ops: [MatMul], device: '/gpu:*'}"),
    *("apart: [a/, b/]", "together: ['*']", "not-on-device: {nodes: ['*'], device: /cpu:0}", "baseline: report.json"),
    *("max-step-time=1us", "max-step-time: {seconds: 9, step: 4}", "max-link-bytes: {bytes: 1, link: '*'}", "max-step-time=-1"),
    *("no-overridden-request", "max-memory=999999TiB", "x", "balance: {of: operations, within: -1}", "{a: [}"),
)
_LINKS = (
    "GPU:0-GPU:1=25GB/s@2us",
    "GPU:0>host=free",
    "host-network=none",
    "GPU:9-host=1",
    "GPU:0-host=-1",
    "a-b=1",
    "=",
    "\x1b-host=1",
)
_FEEDS = (
    "x=1",
    "x=[[1.0, 2.0]]",
    "a=@x.npy",
    "=",
    "a=",
    "a",
    "a:0={zeros: [2]}",
    "a=.nan",
    "a={bytes: AA==}",
    "a=@missing",
    "^a=1",
)
MACHINE = {"--cpu": _NUMBERS, "--gpu": _NUMBERS, "--gpu-model": ("Tesla K20m", "Tesla K20x", "", "\x1b", "A100")}
SOURCE = {
    "--tag": ("serve", "", "train", "\x1b[1m"),
    "--signature": ("serving_default", "", "x"),
    "--checkpoint": ("model/model.ckpt", "model", "missing", ""),
    "--clear-devices": (),
    "--allow-unknown": ("cpu", "cpu,gpu", "moon"),
    "--device": tuple(f"{pattern}={device}" for pattern in _PATTERNS[:6] for device in _DEVICES[:8]),
}
PLACEMENT = {
    "--soft-placement": (),
    "--no-soft-placement": (),
    "--fetch": ("a", "op", "op:0", "a:1", "a:-1", "a:9999999999999999999999", "", "^a", ":0", "\x1b", "a:0:0"),
}
REPORT = {
    "--log-style": ("modern", "classic", "odd"),
    "--summary": (),
    "--log-filter": _PATTERNS,
    "--format": ("json", "json", "json", "text", "odd"),
}
OPTIONS: dict[str, dict[str, tuple[str, ...]]] = {
    "place": MACHINE | SOURCE | PLACEMENT | REPORT,
    "run": MACHINE
    | SOURCE
    | PLACEMENT
    | REPORT
    | {
        "--log-placement": (),
        "--feed": _FEEDS,
        "--intra-op-threads": _NUMBERS,
        "--inter-op-threads": _NUMBERS,
        "--no-execute": (),
    },
    "explain": MACHINE
    | SOURCE
    | PLACEMENT
    | {"--edits": _NUMBERS, "--cost": (), "--batch": _NUMBERS, "--format": ("json", "json", "text")},
    "check": MACHINE
    | SOURCE
    | PLACEMENT
    | {"--rule": _RULES, "--batch": _NUMBERS, "--format": ("json", "sarif", "github", "text")},
    "show": MACHINE
    | SOURCE
    | PLACEMENT
    | {
        "--depth": _NUMBERS,
        "--format": ("json", "dot", "mermaid", "html", "text"),
        "--output": ("out.html", "out.dot", "missing/out.html", ""),
    },
    "memory": MACHINE
    | SOURCE
    | PLACEMENT
    | {
        "--batch": (*_NUMBERS, "auto", "many"),
        "--shape": ("a=1,2", "a=", "=1", "a=-1", "a=1,x", "a=99999999999999999999", "\x1b=1"),
        "--feed": _FEEDS,
        "--execute": (),
        "--dump": (),
        "--top": _NUMBERS,
        "--format": ("json", "html", "text", "odd"),
        "--output": ("out.html", "out.json", "missing/out.html", ""),
    },
    "simulate": MACHINE
    | SOURCE
    | PLACEMENT
    | {
        "--batch": (*_NUMBERS, "many"),
        "--shape": ("a=1,2", "a=", "a=-1", "a=99999999999999999999", "\x1b=1"),
        "--feed": _FEEDS,
        "--steps": _NUMBERS,
        "--link": _LINKS,
        "--top": _NUMBERS,
        "--format": ("json", "text", "odd"),
        "--output": ("out.json", "missing/out.json", ""),
    },
    "sweep": SOURCE
    | PLACEMENT
    | {
        "--gpu": (*_NUMBERS, "1..3", "0..2/2", "3..1", "1,1,x"),
        "--gpu-model": ("Tesla K80,Tesla T4", "Tesla", ""),
        "--batch": (*_NUMBERS, "1..8*2", "1..99999999999999999999", "0..0"),
        "--cpu": ("1,2", "0"),
        "--set": (
            "soft-placement=true,false",
            "shape:a=1x2,[]",
            "shape:a=",
            "feed:a=[1,2],{tensor: 3}",
            "link:GPU:0-host=1GB/s,0",
            "link:GPU:0-GPU:1=free,none",
            "device:*=/gpu:0,/cpu:0,x",
            "config:allow_growth=true",
            "config:virtual_devices=[{memory_limit_mb: [1]}]",
            "config:x=1",
            "steps=1..2",
            "inventory=missing.yaml",
            "\x1b=1",
            "=",
        ),
        "--examples": _NUMBERS,
        "--jobs": ("1", "0", "x"),
        "--max-combinations": ("3", "0"),
        "--link": _LINKS,
        "--format": ("json", "csv", "html", "text", "odd"),
        "--output": ("out.csv", "out.json", "out.html", "missing/out.json", ""),
    },
    "convert": MACHINE
    | SOURCE
    | PLACEMENT
    | {"--placed": (), "--partitioned": ("parts", ""), "--format": ("json", "yaml", "pbtxt")},
    "parallelize": MACHINE
    | SOURCE
    | PLACEMENT
    | {
        "--replicas": ("2", "1", "0", "3"),
        "--accumulate": ("2", "1", "x"),
        "--reduce": ("ring", "tree", "nccl", "cpu", "odd"),
        "--variables": ("mirrored", "cpu"),
        "--stages": ("2", "3", "1", "0"),
        "--micro-batches": ("2", "1", "x"),
        "--schedule": ("gpipe", "1f1b", "interleaved", "odd"),
        "--chunks": ("2", "1"),
        "--stage": ("x", "op", "layer1/", ""),
        "--recompute": ("auto", "sqrt", "2", "0", "h1", "h1/"),
        "--precision": ("float16", "bfloat16", "float8"),
        "--loss-scale": ("8", "dynamic", "0", "-1", "nan", "x"),
        "--split": ("x", "op", "a:1", ""),
        "--format": ("json", "yaml", "pbtxt"),
    },
    "diff": MACHINE
    | SOURCE
    | PLACEMENT
    | {"--a-gpu": _NUMBERS, "--b-gpu": _NUMBERS, "--b-cpu": _NUMBERS, "--b-soft-placement": (), "--format": ("json", "text")}
    | {"--time": (), "--no-memory": (), "--b-batch": _NUMBERS},
    "devices": MACHINE | {"--format": ("json", "text"), "--gpu-models": ()},
    "ops": {
        "--device": ("CPU", "GPU", "XLA_CPU", "TPU"),
        "--dtype": ("float", "float32_ref", "x"),
        "--numpy": (),
        "--no-numpy": (),
        "--format": ("json", "text"),
    },
}
"""The options of each command, and values for them; none for a flag."""
GRAPH_COMMANDS = ("run", "run", "run", "place", "explain", "check", "show", "memory", "simulate", "sweep", "convert", "diff")
STEP_SECONDS = "3"
"""No step may run longer, so that a graph with an endless loop is no hang."""


_SANE = 3
_RARELY_SANE = ("--tag", "--signature", "--checkpoint", "--fetch", "--feed", "--no-execute", "--log-filter")


def command_line(rng: Random, graph: str, command: str = "", *, options: int = 2, is_sane: bool = False) -> tuple[str, ...]:
    """A command over a graph, with up to so many options; sane ones have one of the first values that they may have."""
    command = command or rng.choice(GRAPH_COMMANDS)
    words = [command, graph, *_operands(rng, command, graph)]
    for _ in range(rng.randrange(options + 1)):
        words += _option(rng, command, is_sane=is_sane)
    if rng.random() < 0.3 and "--format" in OPTIONS[command] and "--format" not in words:
        words += ["--format", OPTIONS[command]["--format"][0]]
    if command == "run" and "--timeout" not in words:
        words += ["--timeout", STEP_SECONDS]
    if command == "sweep" and "--jobs" not in words:
        words += ["--jobs", "1"]  # processes of its own would be out of sight
    return tuple(words)


def _operands(rng: Random, command: str, graph: str) -> list[str]:
    if command == "explain":
        return rng.choice(([], [], ["*"], ["op"], ["a", "b"], [rng.choice(_PATTERNS)]))
    if command == "convert":
        return [rng.choice(("-", "-", "out.yaml", "out.json", "out.pb", "out.pbtxt"))]
    if command == "diff":
        return rng.choice(([graph], [], ["missing"]))
    return []


def _option(rng: Random, command: str, *, is_sane: bool = False) -> list[str]:
    options = OPTIONS[command]
    name = rng.choice([name for name in options if not (is_sane and name in _RARELY_SANE)])
    values = options[name][: _SANE if is_sane else None]
    if not values:
        return [name]
    return [name, rng.choice(values)]


def odd_option(rng: Random, command: str) -> list[str]:
    """An option whose value is nothing that it expects, or whose name is none."""
    name, *value = _option(rng, command)
    kind = rng.randrange(4)
    if kind == 0:
        return [mutate_text(rng, name), *value]
    if kind == 1:
        return [name, str(odd_int(rng))]
    return [name, _word(odd_text(rng) if kind == 2 else mutate_text(rng, "".join(value)))]


def _word(text: str) -> str:
    """A text as a process can be given it: without NUL, and other bytes than UTF-8 as Python hands them on."""
    return text.replace("\0", "").encode("utf-8", "surrogatepass").decode("utf-8", "surrogateescape")
