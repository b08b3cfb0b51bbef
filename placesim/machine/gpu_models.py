"""GPU models as a table of facts: the driver's figures, peak rates, and connections.

Sources are the makers' data sheets and white papers.  A board with two dies counts as two GPUs, each with half its watts.
Memory is the total that the driver reports. Rates are for dense operands at the boost clock. `flops` is the rate of single
precision without tensor cores. The rates of float16 and bfloat16 are for tensor cores, if there are any, with sums in float32.

Rates, bandwidth, clock, multiprocessors, process, cache, power and PCIe of each row were compared with TechPowerUp's pages (as
in reox007/RightNow-GPU-Database).  The rows of A6000, A100 80GB, H100 PCIe, B200 and RTX PRO 6000 were also compared with XLA's
`gpu/target_config/specs`. If the sources differ, the row follows the maker's sheet:

- the base clock of K40c, and the boost clock of one of K80's boards, P4 and P100-PCIE
- the boost clock of V100-SXM2: that of its first variant, not of the later, faster one
- 40 MiB of cache of A100 80GB, L4's number of multiprocessors (derived from its cores), and 350 W of L40S

A10G's 80 multiprocessors are the number that PyTorch prints. Some figures are from memory, and were not found in any source:

- the driver's total memory of models that the guides don't show
- tensor rates of GeForce RTX (half of the rates with sums in float16), int8 rates of GPUs older than Ampere, and NVLink
- A10G's 300 W
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal, NamedTuple, cast

from placesim.core.errors import UsageError
from placesim.core.suggestions import SIMILAR_AMONG_FEW, did_you_mean

MIB = 1 << 20
T = 10**12
G = 10**9
MemoryKind = Literal["stacked", "planar", "gddr6x", "checked"]
"""Kind of memory: "stacked" on the package (HBM), "planar" on the board (GDDR), "gddr6x", or "checked".

Checked memory is GDDR that also stores its ECC bits, which costs bandwidth.
"""


class GpuFigures(NamedTuple):
    """Figures of a GPU model other than memory and float32 rates; 0 means none or unknown.

    - Rates are operations per second.  A GPU without a rate for float16 or bfloat16 computes them as float32.
    - `process_nm` is the foundry's name for the manufacturing process.
    - `cache` is the size of the last cache level in bytes.
    - `watts` is the maximum power of the board.
    - `nvlink` is bytes per second in each direction.
    - `launch` is the time in seconds in which a host thread launches a kernel.
    """

    float64: float = 0.0
    tf32: float = 0.0
    float16: float = 0.0
    bfloat16: float = 0.0
    int8: float = 0.0
    multiprocessors: int = 0
    clock_mhz: int = 0
    process_nm: int = 0
    memory_kind: MemoryKind = "planar"
    cache: int = 0
    watts: int = 0
    pcie_generation: int = 3
    pcie_lanes: int = 16
    nvlink: float = 0.0
    launch: float = 0.0


class GpuModel(NamedTuple):
    """A GPU model: memory in bytes, compute capability `major.minor`, flops per second, and bandwidth in bytes per second.

    `pci_bus_ids` are the ids in TensorFlow's guides; `bus_id` returns ids for any number of GPUs.
    """

    name: str
    memory: int
    compute_capability: str = "3.5"
    flops: float = 0.0
    bandwidth: float = 0.0
    pci_bus_ids: tuple[str, ...] = ()
    figures: GpuFigures = GpuFigures()

    def bus_id(self, index: int) -> str:
        """Return the PCI bus id of the GPU with this index.

        The model's own ids come first, and each further GPU has the next bus.  Without own ids, buses start at 05.  After bus
        255, they continue in the next PCI domain.
        """
        if index < len(self.pci_bus_ids):
            return self.pci_bus_ids[index]
        last = self.pci_bus_ids[-1] if self.pci_bus_ids else "0000:04:00.0"
        bus = int(last.split(":")[1], 16) + 1 + index - len(self.pci_bus_ids)
        return f"{bus // 256:04x}:{bus % 256:02x}:00.0"


_LONG_NAMES = {"RTX PRO 6000": "NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition"}
_BUS_IDS = {
    "Tesla K40c": ("0000:05:00.0",),
    "Tesla K20m": ("0000:02:00.0", "0000:03:00.0", "0000:83:00.0", "0000:84:00.0"),
}
# memory, compute capability, 10**12 operations per second by type, bandwidth, multiprocessors, clock, process, kind of memory,
# last cache, power, PCIe generation and lanes, GB/s each way of NVLink; `-` where there is none
_TABLE = """
   MiB   cc float32 float64  tf32 float16 bfloat16  int8  GB/s SMs  MHz nm  memory    KiB watts PCIe NVLink name
 11441  3.5    4.29    1.43     -       -        -     -   288  15  745 28 checked   1536   235 3x16      - Tesla K40c
  4742  3.5    3.52    1.17     -       -        -     -   208  13  706 28 checked   1280   225 2x16      - Tesla K20m
 11441  3.7    4.37   1.455     -       -        -     -   240  13  875 28 checked   1536   150 3x16      - Tesla K80
 12212  5.2    6.69   0.209     -       -        -     - 336.5  24 1089 28  planar   3072   250 3x16      - GeForce GTX TITAN X
 11443  5.2    6.84   0.214     -       -        -     -   288  24 1112 28 checked   3072   250 3x16      - Tesla M40
  8129  5.2    4.82   0.151     -       -        -     -   160  16 1178 28  planar   2048   150 3x16      - Tesla M60
  8119  6.1    8.87   0.277     -       -        -  35.5   320  20 1733 16  planar   2048   180 3x16      - GeForce GTX 1080
 11178  6.1   11.34   0.354     -       -        -  45.4   484  28 1582 16  planar   2816   250 3x16      - GeForce GTX 1080 Ti
 12196  6.1   10.97   0.343     -       -        -  43.9   480  28 1531 16  planar   3072   250 3x16      - TITAN X (Pascal)
 12196  6.1   12.15    0.38     -       -        -  48.6 547.7  30 1582 16  planar   3072   250 3x16      - TITAN Xp
  7611  6.1     5.5   0.172     -       -        -  21.8   192  20 1075 16 checked   2048    75 3x16      - Tesla P4
 22919  6.1   11.76   0.367     -       -        -    47   346  30 1531 16 checked   3072   250 3x16      - Tesla P40
 16280  6.0     9.3     4.7     -    18.7        -     -   732  56 1303 16 stacked   4096   250 3x16      - Tesla P100-PCIE-16GB
 16280  6.0    10.6     5.3     -    21.2        -     -   732  56 1480 16 stacked   4096   300 3x16     80 Tesla P100-SXM2-16GB
 12066  7.0    14.9    7.45     -     110        -  59.6 652.8  80 1455 12 stacked   4608   250 3x16      - TITAN V
 16160  7.0      14       7     -     112        -    56   900  80 1380 12 stacked   6144   250 3x16      - Tesla V100-PCIE-16GB
 32510  7.0      14       7     -     112        -    56   900  80 1380 12 stacked   6144   250 3x16      - Tesla V100-PCIE-32GB
 16160  7.0    15.7     7.8     -     125        -  62.8   900  80 1530 12 stacked   6144   300 3x16    150 Tesla V100-SXM2-16GB
 32510  7.0    15.7     7.8     -     125        -  62.8   900  80 1530 12 stacked   6144   300 3x16    150 Tesla V100-SXM2-32GB
 15109  7.5     8.1   0.254     -      65        -   130   320  40 1590 12 checked   4096    70 3x16      - Tesla T4
  7982  7.5   10.07   0.315     -    40.3        -   161   448  46 1710 12  planar   4096   215 3x16     25 GeForce RTX 2080
 11019  7.5    13.4    0.42     -    53.8        -   215   616  68 1545 12  planar   5632   250 3x16     50 GeForce RTX 2080 Ti
 40536  8.0    19.5     9.7   156     312      312   624  1555 108 1410  7 stacked  40960   250 4x16    300 A100-PCIE-40GB
 40536  8.0    19.5     9.7   156     312      312   624  1555 108 1410  7 stacked  40960   400 4x16    300 A100-SXM4-40GB
 81100  8.0    19.5     9.7   156     312      312   624  1935 108 1410  7 stacked  40960   300 4x16    300 A100 80GB PCIe
 81251  8.0    19.5     9.7   156     312      312   624  2039 108 1410  7 stacked  40960   400 4x16    300 A100-SXM4-80GB
 24258  8.0    10.3     5.2    82     165      165   330   933  56 1440  7 stacked  24576   165 4x16    100 NVIDIA A30
 22731  8.6    31.2   0.488  62.5     125      125   250   600  72 1695  8 checked   6144   150 4x16      - NVIDIA A10
 22731  8.6      35   0.547    35      70       70   140   600  80 1710  8 checked   6144   300 4x16      - NVIDIA A10G
 12053  8.6    12.7   0.199  12.7    25.5     25.5   102   360  28 1777  8  planar   3072   170 4x16      - GeForce RTX 3060
  7982  8.6    20.3   0.317  20.3    40.6     40.6   163   448  46 1725  8  planar   4096   220 4x16      - GeForce RTX 3070
 10018  8.6    29.8   0.465  29.8    59.5     59.5   238   760  68 1710  8  gddr6x   5120   320 4x16      - GeForce RTX 3080
 24268  8.6    35.6   0.556  35.6      71       71   284   936  82 1695  8  gddr6x   6144   350 4x16  56.25 GeForce RTX 3090
 48685  8.6    38.7   0.605  77.4   154.8    154.8 309.7   768  84 1800  8  planar   6144   300 4x16  56.25 NVIDIA RTX A6000
 22700  8.9    30.3   0.473    60     121      121   242   300  58 2040  5 checked  49152    72 4x16      - NVIDIA L4
 45589  8.9    91.6    1.43   183     362      362   733   864 142 2520  5 checked  98304   350 4x16      - NVIDIA L40S
  7939  8.9    22.1   0.345  22.1    44.1     44.1 176.5   288  34 2535  5  planar  32768   160  4x8      - GeForce RTX 4060 Ti
 12010  8.9    29.1   0.455  29.1    58.3     58.3 233.2   504  46 2475  5  gddr6x  36864   200 4x16      - GeForce RTX 4070
 16072  8.9    48.7   0.761  48.7    97.5     97.5 389.9 716.8  76 2505  5  gddr6x  65536   320 4x16      - GeForce RTX 4080
 24217  8.9    82.6    1.29  82.6   165.2    165.2 660.6  1008 128 2520  5  gddr6x  73728   450 4x16      - GeForce RTX 4090
 16303 12.0    56.3    0.88  56.3   112.6    112.6 450.2   960  84 2617  5  planar  65536   360 5x16      - GeForce RTX 5080
 32607 12.0   104.8    1.64 104.8   209.5    209.5   838  1792 170 2407  5  planar  98304   575 5x16      - GeForce RTX 5090
 97887 12.0   109.7    1.71 219.4   438.9    438.9 877.7  1792 188 2280  5  planar 131072   300 5x16      - RTX PRO 6000
 81079  9.0      51    25.6   378     756      756  1513  2000 114 1755  5 stacked  51200   350 5x16    300 H100-PCIE-80GB
 81079  9.0      67    33.5 494.7     989      989  1979  3350 132 1980  5 stacked  51200   700 5x16    450 H100-SXM5-80GB
143771  9.0      67    33.5 494.7     989      989  1979  4800 132 1980  5 stacked  51200   700 5x16    450 H200-SXM5-141GB
182642 10.0      75      37  1100    2250     2250  4500  8000 148 1965  5 stacked 129536  1000 5x16    900 B200-SXM6-180GB
"""


def _read_models() -> Iterator[GpuModel]:
    head, *rows = _TABLE.strip().splitlines()
    columns = head.split()
    for row in rows:
        cells = dict(zip(columns, row.split(maxsplit=len(columns) - 1), strict=True))
        generation, _, lanes = cells["PCIe"].partition("x")
        yield GpuModel(
            name=_LONG_NAMES.get(cells["name"], cells["name"]),
            memory=int(cells["MiB"]) * MIB,
            compute_capability=cells["cc"],
            flops=_number(cells["float32"]) * T,
            bandwidth=_number(cells["GB/s"]) * G,
            pci_bus_ids=_BUS_IDS.get(cells["name"], ()),
            figures=GpuFigures(
                **{name: _number(cells[name]) * T for name in ("float64", "tf32", "float16", "bfloat16", "int8")},
                multiprocessors=int(cells["SMs"]),
                clock_mhz=int(cells["MHz"]),
                process_nm=int(cells["nm"]),
                memory_kind=cast("MemoryKind", cells["memory"]),
                cache=int(cells["KiB"]) << 10,
                watts=int(cells["watts"]),
                pcie_generation=int(generation),
                pcie_lanes=int(lanes),
                nvlink=_number(cells["NVLink"]) * G,
            ),
        )


def _number(text: str) -> float:
    return 0 if text == "-" else int(text) if text.isdecimal() else float(text)


GPU_MODELS = {model.name: model for model in _read_models()}
DEFAULT_MODEL = GPU_MODELS["Tesla K40c"]
_MOST_NAMED = 4


def find_gpu_model(name: str) -> GpuModel:
    """Return a model of the catalogue. Raises UsageError, with the most similar name, for an unknown model."""
    found = GPU_MODELS.get(name)
    if found is None:
        raise UsageError(f"unknown GPU model: got '{name}', expected one in the catalogue{near_models(name)}")
    return found


def near_models(name: Any) -> str:
    """Return a text such as `; did you mean 'Tesla P4' or 'Tesla P40'?` with at most four similar models, or an empty text.

    Models whose names contain the given one come first, then models that contain its words with digits, such as `4090` or
    `80GB`.  Otherwise the models with the most similar names are suggested.
    """
    if not isinstance(name, str):
        return ""
    for wanted in ([_letters(name)], [word for word in map(_letters, name.split()) if not word.isalpha()]):
        holding = [repr(model) for model in GPU_MODELS if all(wanted) and all(word in _letters(model) for word in wanted)]
        if wanted and 0 < len(holding) <= _MOST_NAMED:
            return f"; did you mean {' or '.join(holding)}?"
    return did_you_mean(name, GPU_MODELS, SIMILAR_AMONG_FEW)


def _letters(name: str) -> str:
    return "".join(filter(str.isalnum, name)).lower()
