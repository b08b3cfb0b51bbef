"""Simulation options, which override the settings of a graph file, and their checks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields
from inspect import Parameter, cleandoc, signature
from pathlib import Path, PurePath
from typing import Any, TypedDict, TypeVar

from placesim.core.errors import UsageError
from placesim.core.releases import CURRENT, Release, find_release
from placesim.core.suggestions import SIMILAR_AMONG_FEW, did_you_mean
from placesim.machine.gpu_memory import GpuProcess
from placesim.machine.gpu_models import find_gpu_model
from placesim.machine.inventory import MAX_COUNT

STYLES = ("modern", "classic")
UNTIL = ("first-run", "end")
THREADS_LIMIT = 1 << 16
MAX_DIM = (1 << 63) - 1
MAX_TIMEOUT = MAX_DIM // 1000
"""Maximum timeout in seconds, since a ConfigProto stores milliseconds in 64 bits."""
MAX_STEPS = 1 << 40
MAX_ITERATIONS = 1 << 20
"""Maximum iteration count, since a dry run executes each iteration."""
_KERNEL_DEVICES = ("CPU", "GPU")
"""Device types of the simulated machine."""
MACHINE = ("cpu", "gpu", "gpu_model", "inventory")
"""Options that replace a graph file's `devices`."""
RANGES = {
    "cpu": (0, MAX_COUNT),
    "gpu": (0, MAX_COUNT),
    "intra_op_threads": (0, THREADS_LIMIT),
    "inter_op_threads": (-1, THREADS_LIMIT),
    "batch": (1, MAX_DIM),
    "assume_unknown": (1, MAX_DIM),
    "checkpoint_every": (1, MAX_DIM),
    "checkpoint_keep": (0, MAX_DIM),
}
"""Smallest and largest values of options that are whole numbers."""
_LISTS = {
    "link": "a list of ENDS=BANDWIDTH",
    "device": "a mapping or a list of PATTERN=DEVICE",
    "shape": "a mapping or a list of NAME=1,2,3",
    "iterations": "a mapping or a list of NAME=N",
    "assume": "a mapping or a list of NODE=N",
}
"""Options that must be a list or mapping instead of a single text."""
Paths = str | PurePath | Sequence[str | PurePath]


@dataclass(frozen=True, slots=True)
class SimulationOptions:
    """Options named like the command line's flags; None keeps the file's setting.

    - `tensorflow`: TensorFlow release to simulate, such as "1.15".
    - `inventory`: a file with a `devices:` document, or the document itself.  `profile`: one or several files with measured
      figures of a host or of GPUs.  `link`: links as `A-B=25GB/s@2us`.
    - `timeout`: seconds.  `memory_limit`: bytes, or a text with a unit.  `no_memory_limit`: let devices exceed their memory.
      `report_tensor_allocations_upon_oom`: let TensorFlow list the tensors of a device that runs out of memory.
    - `shape`, `batch`: unknown dimensions of placeholders in dry runs: shapes by name, as a mapping or as `NAME=1,2,3`, and the
      first dimension of all other placeholders.  `iterations`: iteration counts of loops if they are unknown, as a mapping or
      as `NAME=N`.  `assume`: numbers for nodes whose sizes or decisions depend on values, as a mapping or as `NODE=N`:
      elements, iterations, or a branch.  `assume_unknown`: size of each remaining unknown dimension.
    - `tag`, `signature`, `checkpoint`: selection in a TensorFlow file.
    - `clear_devices`: drop all device requests.  `device`: then request devices by node name patterns, as a mapping or as
      `PATTERN=DEVICE`.
    - `layer_assignment`: requested devices of an ONNX model's layers.  `allow_unknown`: device types with kernels for unknown
      ONNX ops, as `cpu,gpu` or as a list.
    - `allow_read`, `allow_write`: paths that the graph may read or write, beside reading its own folder.  `allow_all_files`:
      any file.
    - `until`: point at which a Python script's graph is taken.  `arguments`: its `sys.argv[1:]`.
    - `environment`: environment variables of the simulated process.  `process`: a process with earlier sessions, by default a
      new one.  The command line passes its own environment.
    - `checkpoint_every`: number of steps between checkpoints, which are named after `checkpoint`.  `checkpoint_keep`: number of
      checkpoints to keep, 0 for all.  `restart`: continue from the newest checkpoint.
    - `no_fusion`: compute each op separately.  `optimize`: fold constants once for all steps.
    """

    log_placement: bool | None = None
    cpu: int | None = None
    gpu: int | None = None
    gpu_model: str | None = None
    inventory: Any = None
    tensorflow: Any = None
    link: Sequence[str] = ()
    profile: Any = ()
    soft_placement: bool | None = None
    fetch: str | Sequence[str] | None = None
    feed: Mapping[str, Any] = field(default_factory=dict)
    log_style: str = "modern"
    intra_op_threads: int | None = None
    inter_op_threads: int | None = None
    timeout: float | None = None
    memory_limit: int | str | None = None
    no_memory_limit: bool = False
    no_fusion: bool = False
    optimize: bool | None = None
    report_tensor_allocations_upon_oom: bool = False
    shape: Mapping[str, Sequence[int]] | Sequence[str] = ()
    batch: int | None = None
    iterations: Mapping[str, int] | Sequence[str] = ()
    assume: Mapping[str, int] | Sequence[str] = ()
    assume_unknown: int | None = None
    execute: bool = True
    tag: str | Sequence[str] = ()
    signature: str | None = None
    checkpoint: Any = None
    checkpoint_every: int | None = None
    checkpoint_keep: int | None = None
    restart: bool = False
    clear_devices: bool = False
    device: Mapping[str, str] | Sequence[str] = ()
    layer_assignment: str = ""
    allow_unknown: str | Sequence[str] = ()
    allow_read: Paths = ()
    allow_write: Paths = ()
    allow_all_files: bool = False
    until: str = UNTIL[0]
    arguments: Sequence[str] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    process: GpuProcess | None = None

    @property
    def release(self) -> Release:
        """TensorFlow release named by `tensorflow` (default: the newest). Raises UsageError for an unknown release."""
        return CURRENT if self.tensorflow is None else find_release(self.tensorflow)

    @property
    def readable_paths(self) -> tuple[str | PurePath, ...]:
        """`allow_read` as a tuple."""
        return _paths("allow_read", self.allow_read)

    @property
    def writable_paths(self) -> tuple[str | PurePath, ...]:
        """`allow_write` as a tuple."""
        return _paths("allow_write", self.allow_write)

    @property
    def profiles(self) -> tuple[Any, ...]:
        """`profile` as a tuple."""
        return tuple(self.profile) if isinstance(self.profile, list | tuple) else (self.profile,)

    @property
    def is_saved(self) -> bool:
        """Whether a run writes checkpoints or continues from one."""
        return self.checkpoint_every is not None or self.restart

    @property
    def initial_checkpoint(self) -> Any:
        """Checkpoint with the initial values of variables; None if the run itself will write it."""
        if self.is_saved and not Path(f"{self.checkpoint}.index").exists():
            return None
        return self.checkpoint

    @property
    def tags(self) -> tuple[str, ...]:
        """`tag` as a tuple."""
        return (self.tag,) if isinstance(self.tag, str) else tuple(self.tag)

    @property
    def device_patterns(self) -> tuple[tuple[str, str], ...]:
        """`device` as pairs of pattern and device, in the given order.  Raises UsageError for a text without `=`."""
        if isinstance(self.device, Mapping):
            return tuple(self.device.items())
        return tuple(map(_device_pattern, self.device))

    @property
    def unknown_devices(self) -> tuple[str, ...]:
        """`allow_unknown` as a tuple of TensorFlow's device types.  Raises UsageError for an unknown type."""
        given = self.allow_unknown.split(",") if isinstance(self.allow_unknown, str) else self.allow_unknown
        words = [str(word).strip() for word in given if str(word).strip()]
        for word in words:
            if word.upper() not in _KERNEL_DEVICES:
                known = " and ".join(_KERNEL_DEVICES)
                raise UsageError(f"wrong allow_unknown: got '{word}', expected device types among {known}")
        return tuple(word.upper() for word in words)

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """`shape` by name.  Raises UsageError for an invalid shape."""
        given = self.shape.items() if isinstance(self.shape, Mapping) else map(_split_shape, self.shape)
        expected = "dimensions of 0 or more, such as 32,3"
        return {
            name: tuple(_whole_number(dim, MAX_DIM, f"shape of {name}", expected) for dim in _split_dims(dims))
            for name, dims in given
        }

    @property
    def loop_counts(self) -> dict[str, int]:
        """Return the iterations of each loop, by name.  Raises UsageError for an invalid number."""
        expected = f"a number from 0 to {MAX_ITERATIONS}"
        given = _split_counts(self.iterations, "iterations", "NAME")
        return {name: _whole_number(count, MAX_ITERATIONS, f"iterations of {name}", expected) for name, count in given}

    @property
    def assumed_numbers(self) -> dict[str, int]:
        """Return the assumed number of each node, by name.  Raises UsageError for an invalid number."""
        given = _split_counts(self.assume, "assumption", "NODE")
        return {
            name: _whole_number(number, MAX_DIM, f"assumption for {name}", "a number of 0 or more") for name, number in given
        }


class MemoryOptionValues(TypedDict, total=False):
    """Simulation options as keyword arguments, without `batch`, which also takes "auto" in `placesim.memory`."""

    log_placement: bool | None
    cpu: int | None
    gpu: int | None
    gpu_model: str | None
    inventory: Any
    tensorflow: Any
    link: Sequence[str]
    profile: Any
    soft_placement: bool | None
    fetch: str | Sequence[str] | None
    feed: Mapping[str, Any]
    log_style: str
    intra_op_threads: int | None
    inter_op_threads: int | None
    timeout: float | None
    memory_limit: int | str | None
    no_memory_limit: bool
    no_fusion: bool
    optimize: bool | None
    report_tensor_allocations_upon_oom: bool
    shape: Mapping[str, Sequence[int]] | Sequence[str]
    iterations: Mapping[str, int] | Sequence[str]
    assume: Mapping[str, int] | Sequence[str]
    assume_unknown: int | None
    execute: bool
    tag: str | Sequence[str]
    signature: str | None
    checkpoint: Any
    checkpoint_every: int | None
    checkpoint_keep: int | None
    restart: bool
    clear_devices: bool
    device: Mapping[str, str] | Sequence[str]
    layer_assignment: str
    allow_unknown: str | Sequence[str]
    allow_read: Paths
    allow_write: Paths
    allow_all_files: bool
    until: str
    arguments: Sequence[str]
    environment: Mapping[str, str]
    process: GpuProcess | None


class OptionValues(MemoryOptionValues, total=False):
    """Simulation options as keyword arguments."""

    batch: int | None


Function = TypeVar("Function", bound=Callable[..., Any])
_OPTION_PARAMETERS: list[Parameter] = []


def with_options(function: Function) -> Function:
    """Add all simulation options to the signature and docstring of a function of `**options`, for `help` and notebooks.

    Editors that analyse the source read the options from `OptionValues`.
    """
    own = signature(function)
    if not _OPTION_PARAMETERS:
        for option in fields(SimulationOptions):
            default = option.default if option.default_factory is MISSING else option.default_factory()
            _OPTION_PARAMETERS.append(Parameter(option.name, Parameter.KEYWORD_ONLY, default=default, annotation=option.type))
    kept = [parameter for parameter in own.parameters.values() if parameter.kind is not Parameter.VAR_KEYWORD]
    names = {parameter.name for parameter in kept}
    more = [parameter for parameter in _OPTION_PARAMETERS if parameter.name not in names]
    function.__signature__ = own.replace(parameters=[*kept, *more])  # type: ignore[attr-defined]  # what `inspect` looks for
    if function.__doc__ and SimulationOptions.__doc__:  # docstrings are missing under `-OO`
        function.__doc__ = f"{cleandoc(function.__doc__)}\n\n{cleandoc(SimulationOptions.__doc__)}\n"
    return function


def make_options(values: Mapping[str, Any]) -> SimulationOptions:
    """Make checked options from values by name.  Raises UsageError for an invalid name or value."""
    known = [option.name for option in fields(SimulationOptions)]
    for name in values:
        if name not in known:
            raise UsageError(
                f"no such option: got {name}, expected one of {', '.join(known)}{did_you_mean(name, known, SIMILAR_AMONG_FEW)}"
            )
    options = SimulationOptions(**values)
    for name, (low, high) in RANGES.items():
        _check_integer(name, getattr(options, name), low, high)
    for name, form in _LISTS.items():
        value = getattr(options, name)
        if isinstance(value, str):
            raise UsageError(f"wrong type of {name}: got '{value}', expected {form}")
    if options.timeout is not None and not 0 < options.timeout <= MAX_TIMEOUT:
        expected = f"expected a number of seconds above 0 and at most {MAX_TIMEOUT}"
        raise UsageError(f"timeout out of range: got {options.timeout}, {expected}")
    check_named("log style", options.log_style, STYLES)
    check_named("end of a script's run", options.until, UNTIL)
    _check_types(options)
    _check_saving(options)
    if options.gpu_model is not None:
        find_gpu_model(options.gpu_model)
    _ = (
        options.release,
        options.device_patterns,
        options.unknown_devices,
        options.readable_paths,
        options.writable_paths,
        options.shapes,
        options.loop_counts,
        options.assumed_numbers,
    )
    return options


def _check_types(options: SimulationOptions) -> None:
    if isinstance(options.arguments, str) or not all(isinstance(word, str) for word in options.arguments):
        raise UsageError(f"wrong type of arguments: got {options.arguments!r}, expected a list of strings")
    if not isinstance(options.environment, Mapping):
        raise UsageError(f"wrong type of environment: got {options.environment!r}, expected a mapping of names to strings")
    for name, text in options.environment.items():
        if not isinstance(name, str) or not isinstance(text, str):
            raise UsageError(f"wrong environment: got {name!r}: {text!r}, expected names and strings")
    if options.process is not None and not isinstance(options.process, GpuProcess):
        raise UsageError(f"wrong type of process: got {options.process!r}, expected a placesim.GpuProcess")


def _check_saving(options: SimulationOptions) -> None:
    if options.checkpoint_keep is not None and options.checkpoint_every is None:
        raise UsageError("checkpoints are kept but not written: got a number to keep, expected an interval in steps too")
    if not options.is_saved:
        return
    if options.checkpoint is None:
        option = "--restart" if options.restart else "--checkpoint-every"
        expected = "--checkpoint (in Python: `checkpoint`) with a prefix of file names, such as out/model"
        raise UsageError(f"{option} needs a prefix for checkpoints: got none, expected {expected}")
    if Path(options.checkpoint).is_dir() or not Path(options.checkpoint).name:
        name = Path(options.checkpoint) / "model"
        raise UsageError(f"checkpoint prefix is a directory: got {options.checkpoint}, expected a prefix such as {name}")


def _split_shape(text: str) -> tuple[str, Sequence[Any]]:
    name, _, dims = text.rpartition("=")
    if not name:
        raise UsageError(f"wrong shape: got '{text}', expected NAME=1,2,3")
    return name, dims


def _split_dims(given: Sequence[Any] | str) -> Sequence[Any]:
    """Return the dimensions of a text such as `1,2,3`, or of a sequence. Anything else is a single dimension."""
    if isinstance(given, str):
        return given.split(",") if given else ()
    return given if isinstance(given, Iterable) else (given,)


def _split_counts(given: Mapping[str, int] | Sequence[str], option: str, form: str) -> Iterator[tuple[str, Any]]:
    """Yield names with numbers, from a mapping or from texts such as `NAME=N`; `option` and `form` are for the error."""
    if isinstance(given, Mapping):
        yield from given.items()
        return
    for text in given:
        name, _, count = text.rpartition("=")
        if not name:
            raise UsageError(f"wrong {option}: got '{text}', expected {form}=N")
        yield name, count


def _whole_number(given: Any, most: int, option: str, expected: str) -> int:
    text = str(given).strip()
    if not (text.isascii() and text.isdecimal() and len(text) < 20) or int(text) > most:
        raise UsageError(f"wrong {option}: got '{text}', expected {expected}")
    return int(text)


def check_named(what: str, given: str, known: Sequence[str]) -> None:
    """Raise UsageError if a text is not one of the known texts; `what` names its kind in the message."""
    if given not in known:
        near = did_you_mean(given, known, SIMILAR_AMONG_FEW)
        raise UsageError(f"unknown {what}: got '{given}', expected {' or '.join(known)}{near}")


def _check_integer(name: str, value: Any, low: int, high: int) -> None:
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, int):
        raise UsageError(f"wrong type of {name}: got {value!r}, expected an integer")
    if not low <= value <= high:
        raise UsageError(f"{name} out of range: got {value}, expected an integer from {low} to {high}")


def _paths(name: str, given: Paths) -> tuple[str | PurePath, ...]:
    paths = tuple(given) if isinstance(given, list | tuple) else (given,)
    for path in paths:
        if not isinstance(path, str | PurePath) or not str(path) or "\0" in str(path):
            raise UsageError(f"wrong {name}: got {path!r}, expected a folder or a file")
    return paths


def _device_pattern(text: str) -> tuple[str, str]:
    pattern, equals, device = text.partition("=")
    if not equals or not pattern.strip():
        raise UsageError(f"wrong device: got '{text}', expected PATTERN=DEVICE, such as 'conv1/*=/device:GPU:0'")
    return pattern.strip(), device.strip()


def option_words(options: Mapping[str, Any]) -> Iterator[str]:
    """Yield options by name as words of a command line; None is left out."""
    for name, value in options.items():
        flag = name.replace("_", "-")
        if isinstance(value, bool):
            if value or name != "clear_devices":  # the only switch without a --no- form
                yield f"--{flag}" if value else f"--no-{flag}"
        elif value is not None:
            for one in value if isinstance(value, list | tuple) else (value,):
                yield from (f"--{flag}", str(one))
