"""GPU models as a table of facts: what the driver says of them, their peak rates, and how they are attached.

Source: the makers' data sheets and white papers (a board of two dies is two GPUs, with half its watts each); memory is what the
driver reports as total.  Rates are of dense operands at the boost clock; `flops` are single precision without tensor cores,
float16 and bfloat16 with them where there are any, summed in float32.

Each row's rates, bandwidth, clock, multiprocessors, process, cache, power and PCIe were compared with TechPowerUp's pages (as
reox007/RightNow-GPU-Database holds them); those of A6000, A100 80GB, H100 PCIe, B200 and RTX PRO 6000 also with XLA's
`gpu/target_config/specs`.  Where these differ, the row has the maker's sheet: the base clock of K40c, the boost of one of K80's
boards, P4, P100-PCIE, V100-SXM2 before its faster variant, 40 MiB of cache of A100 80GB, L4's multiprocessors by its cores,
350 W of L40S; A10G's 80 multiprocessors are what PyTorch prints of it.  Recalled alone, confirmed by nothing that was read: the
driver's total memory of what the guides don't show, tensor rates of GeForce RTX (half of what sums in float16 reach), int8
rates before Ampere, NVLink, and A10G's 300 W.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

from placesim.core.suggestions import SIMILAR_AMONG_FEW, did_you_mean

MIB = 1 << 20
GIB = 1 << 30
T = 10**12
G = 10**9
MemoryKind = Literal["stacked", "planar", "checked"]
"""Memory on the package (HBM), on the board (GDDR), or GDDR with ECC bits in the same memory, which costs bandwidth."""


class GpuFigures(NamedTuple):
    """Figures of a GPU model other than float32 rates, and its connections; 0 means none or unknown.

    Rates in operations per second; float16 and bfloat16 of 0 are computed as float32.  `process_nm` is the foundry's name for
    the process, `cache` the last level's bytes, `watts` what the board may draw, `nvlink` bytes per second each way,
    `launch` the seconds in which a thread of the host launches a kernel.
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
    """One model: memory in bytes, compute capability `major.minor`, flops per second, bandwidth in bytes per second.

    `pci_bus_ids` are those of the guides' machines; a further GPU follows `bus_id`'s rule.
    """

    name: str
    memory: int
    compute_capability: str = "3.5"
    flops: float = 0.0
    bandwidth: float = 0.0
    pci_bus_ids: tuple[str, ...] = ()
    figures: GpuFigures = GpuFigures()

    def bus_id(self, index: int) -> str:
        """The PCI bus id of the GPU with this index: the model's own ids first, then one bus after the other.

        The buses follow the last own id (without any: from 05), 16 to 255, and then go on in the next PCI domain.
        """
        if index < len(self.pci_bus_ids):
            return self.pci_bus_ids[index]
        last = self.pci_bus_ids[-1] if self.pci_bus_ids else "0000:04:00.0"
        bus = int(last.split(":")[1], 16) + 1 + index - len(self.pci_bus_ids)
        return f"{bus // 256:04x}:{bus % 256:02x}:00.0"


class _Row(NamedTuple):
    """A row of figures, in the units of data sheets."""

    name: str
    float64: float
    tf32: float
    float16: float
    bfloat16: float
    int8: float
    multiprocessors: int
    clock_mhz: int
    process_nm: int
    memory_kind: MemoryKind
    cache_kib: int
    watts: int
    pcie_generation: int
    nvlink: float
    pcie_lanes: int = 16

    def figures(self) -> GpuFigures:
        return GpuFigures(
            float64=self.float64 * T,
            tf32=self.tf32 * T,
            float16=self.float16 * T,
            bfloat16=self.bfloat16 * T,
            int8=self.int8 * T,
            multiprocessors=self.multiprocessors,
            clock_mhz=self.clock_mhz,
            process_nm=self.process_nm,
            memory_kind=self.memory_kind,
            cache=self.cache_kib << 10,
            watts=self.watts,
            pcie_generation=self.pcie_generation,
            pcie_lanes=self.pcie_lanes,
            nvlink=self.nvlink * G,
        )


_K20M_BUS_IDS = ("0000:02:00.0", "0000:03:00.0", "0000:83:00.0", "0000:84:00.0")
_PRO_6000 = "NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition"
_ROWS = (
    # name, memory, compute capability, flops, bandwidth, bus ids
    GpuModel("Tesla K40c", 11441 * MIB, "3.5", 4.29 * T, 288 * G, ("0000:05:00.0",)),
    GpuModel("Tesla K20m", 4742 * MIB, "3.5", 3.52 * T, 208 * G, _K20M_BUS_IDS),
    GpuModel("Tesla K80", 11441 * MIB, "3.7", 4.37 * T, 240 * G),
    GpuModel("GeForce GTX TITAN X", 12212 * MIB, "5.2", 6.69 * T, 336.5 * G),
    GpuModel("Tesla M40", 11443 * MIB, "5.2", 6.84 * T, 288 * G),
    GpuModel("Tesla M60", 8129 * MIB, "5.2", 4.82 * T, 160 * G),
    GpuModel("GeForce GTX 1080", 8119 * MIB, "6.1", 8.87 * T, 320 * G),
    GpuModel("GeForce GTX 1080 Ti", 11178 * MIB, "6.1", 11.34 * T, 484 * G),
    GpuModel("TITAN X (Pascal)", 12196 * MIB, "6.1", 10.97 * T, 480 * G),
    GpuModel("TITAN Xp", 12196 * MIB, "6.1", 12.15 * T, 547.7 * G),
    GpuModel("Tesla P4", 7611 * MIB, "6.1", 5.5 * T, 192 * G),
    GpuModel("Tesla P40", 22919 * MIB, "6.1", 11.76 * T, 346 * G),
    GpuModel("Tesla P100-PCIE-16GB", 16280 * MIB, "6.0", 9.3 * T, 732 * G),
    GpuModel("Tesla P100-SXM2-16GB", 16280 * MIB, "6.0", 10.6 * T, 732 * G),
    GpuModel("TITAN V", 12066 * MIB, "7.0", 14.9 * T, 652.8 * G),
    GpuModel("Tesla V100-PCIE-16GB", 16160 * MIB, "7.0", 14 * T, 900 * G),
    GpuModel("Tesla V100-PCIE-32GB", 32510 * MIB, "7.0", 14 * T, 900 * G),
    GpuModel("Tesla V100-SXM2-16GB", 16160 * MIB, "7.0", 15.7 * T, 900 * G),
    GpuModel("Tesla V100-SXM2-32GB", 32510 * MIB, "7.0", 15.7 * T, 900 * G),
    GpuModel("Tesla T4", 15109 * MIB, "7.5", 8.1 * T, 320 * G),
    GpuModel("GeForce RTX 2080", 7982 * MIB, "7.5", 10.07 * T, 448 * G),
    GpuModel("GeForce RTX 2080 Ti", 11019 * MIB, "7.5", 13.4 * T, 616 * G),
    GpuModel("A100-PCIE-40GB", 40536 * MIB, "8.0", 19.5 * T, 1555 * G),
    GpuModel("A100-SXM4-40GB", 40536 * MIB, "8.0", 19.5 * T, 1555 * G),
    GpuModel("A100 80GB PCIe", 81100 * MIB, "8.0", 19.5 * T, 1935 * G),
    GpuModel("A100-SXM4-80GB", 81251 * MIB, "8.0", 19.5 * T, 2039 * G),
    GpuModel("NVIDIA A30", 24258 * MIB, "8.0", 10.3 * T, 933 * G),
    GpuModel("NVIDIA A10", 22731 * MIB, "8.6", 31.2 * T, 600 * G),
    GpuModel("NVIDIA A10G", 22731 * MIB, "8.6", 35 * T, 600 * G),
    GpuModel("GeForce RTX 3060", 12053 * MIB, "8.6", 12.7 * T, 360 * G),
    GpuModel("GeForce RTX 3070", 7982 * MIB, "8.6", 20.3 * T, 448 * G),
    GpuModel("GeForce RTX 3080", 10018 * MIB, "8.6", 29.8 * T, 760 * G),
    GpuModel("GeForce RTX 3090", 24268 * MIB, "8.6", 35.6 * T, 936 * G),
    GpuModel("NVIDIA RTX A6000", 48685 * MIB, "8.6", 38.7 * T, 768 * G),
    GpuModel("NVIDIA L4", 22700 * MIB, "8.9", 30.3 * T, 300 * G),
    GpuModel("NVIDIA L40S", 45589 * MIB, "8.9", 91.6 * T, 864 * G),
    GpuModel("GeForce RTX 4060 Ti", 7939 * MIB, "8.9", 22.1 * T, 288 * G),
    GpuModel("GeForce RTX 4070", 12010 * MIB, "8.9", 29.1 * T, 504 * G),
    GpuModel("GeForce RTX 4080", 16072 * MIB, "8.9", 48.7 * T, 716.8 * G),
    GpuModel("GeForce RTX 4090", 24217 * MIB, "8.9", 82.6 * T, 1008 * G),
    GpuModel("GeForce RTX 5080", 16303 * MIB, "12.0", 56.3 * T, 960 * G),
    GpuModel("GeForce RTX 5090", 32607 * MIB, "12.0", 104.8 * T, 1792 * G),
    GpuModel(_PRO_6000, 97887 * MIB, "12.0", 109.7 * T, 1792 * G),
    GpuModel("H100-PCIE-80GB", 81079 * MIB, "9.0", 51 * T, 2000 * G),
    GpuModel("H100-SXM5-80GB", 81079 * MIB, "9.0", 67 * T, 3350 * G),
    GpuModel("H200-SXM5-141GB", 143771 * MIB, "9.0", 67 * T, 4800 * G),
    GpuModel("B200-SXM6-180GB", 182642 * MIB, "10.0", 75 * T, 8000 * G),
)
_FIGURES = (
    # name; T/s: float64, tf32, float16, bfloat16, int8; multiprocessors, MHz, nm; memory, cache KiB, watts, PCIe, NVLink GB/s
    _Row("Tesla K40c", 1.43, 0, 0, 0, 0, 15, 745, 28, "checked", 1536, 235, 3, 0),
    _Row("Tesla K20m", 1.17, 0, 0, 0, 0, 13, 706, 28, "checked", 1280, 225, 2, 0),
    _Row("Tesla K80", 1.455, 0, 0, 0, 0, 13, 875, 28, "checked", 1536, 150, 3, 0),
    _Row("GeForce GTX TITAN X", 0.209, 0, 0, 0, 0, 24, 1089, 28, "planar", 3072, 250, 3, 0),
    _Row("Tesla M40", 0.214, 0, 0, 0, 0, 24, 1112, 28, "checked", 3072, 250, 3, 0),
    _Row("Tesla M60", 0.151, 0, 0, 0, 0, 16, 1178, 28, "planar", 2048, 150, 3, 0),
    _Row("GeForce GTX 1080", 0.277, 0, 0, 0, 35.5, 20, 1733, 16, "planar", 2048, 180, 3, 0),
    _Row("GeForce GTX 1080 Ti", 0.354, 0, 0, 0, 45.4, 28, 1582, 16, "planar", 2816, 250, 3, 0),
    _Row("TITAN X (Pascal)", 0.343, 0, 0, 0, 43.9, 28, 1531, 16, "planar", 3072, 250, 3, 0),
    _Row("TITAN Xp", 0.38, 0, 0, 0, 48.6, 30, 1582, 16, "planar", 3072, 250, 3, 0),
    _Row("Tesla P4", 0.172, 0, 0, 0, 21.8, 20, 1075, 16, "checked", 2048, 75, 3, 0),
    _Row("Tesla P40", 0.367, 0, 0, 0, 47, 30, 1531, 16, "checked", 3072, 250, 3, 0),
    _Row("Tesla P100-PCIE-16GB", 4.7, 0, 18.7, 0, 0, 56, 1303, 16, "stacked", 4096, 250, 3, 0),
    _Row("Tesla P100-SXM2-16GB", 5.3, 0, 21.2, 0, 0, 56, 1480, 16, "stacked", 4096, 300, 3, 80),
    _Row("TITAN V", 7.45, 0, 110, 0, 59.6, 80, 1455, 12, "stacked", 4608, 250, 3, 0),
    _Row("Tesla V100-PCIE-16GB", 7, 0, 112, 0, 56, 80, 1380, 12, "stacked", 6144, 250, 3, 0),
    _Row("Tesla V100-PCIE-32GB", 7, 0, 112, 0, 56, 80, 1380, 12, "stacked", 6144, 250, 3, 0),
    _Row("Tesla V100-SXM2-16GB", 7.8, 0, 125, 0, 62.8, 80, 1530, 12, "stacked", 6144, 300, 3, 150),
    _Row("Tesla V100-SXM2-32GB", 7.8, 0, 125, 0, 62.8, 80, 1530, 12, "stacked", 6144, 300, 3, 150),
    _Row("Tesla T4", 0.254, 0, 65, 0, 130, 40, 1590, 12, "checked", 4096, 70, 3, 0),
    _Row("GeForce RTX 2080", 0.315, 0, 40.3, 0, 161, 46, 1710, 12, "planar", 4096, 215, 3, 25),
    _Row("GeForce RTX 2080 Ti", 0.42, 0, 53.8, 0, 215, 68, 1545, 12, "planar", 5632, 250, 3, 50),
    _Row("A100-PCIE-40GB", 9.7, 156, 312, 312, 624, 108, 1410, 7, "stacked", 40960, 250, 4, 300),
    _Row("A100-SXM4-40GB", 9.7, 156, 312, 312, 624, 108, 1410, 7, "stacked", 40960, 400, 4, 300),
    _Row("A100 80GB PCIe", 9.7, 156, 312, 312, 624, 108, 1410, 7, "stacked", 40960, 300, 4, 300),
    _Row("A100-SXM4-80GB", 9.7, 156, 312, 312, 624, 108, 1410, 7, "stacked", 40960, 400, 4, 300),
    _Row("NVIDIA A30", 5.2, 82, 165, 165, 330, 56, 1440, 7, "stacked", 24576, 165, 4, 100),
    _Row("NVIDIA A10", 0.488, 62.5, 125, 125, 250, 72, 1695, 8, "checked", 6144, 150, 4, 0),
    _Row("NVIDIA A10G", 0.547, 35, 70, 70, 140, 80, 1710, 8, "checked", 6144, 300, 4, 0),
    _Row("GeForce RTX 3060", 0.199, 12.7, 25.5, 25.5, 102, 28, 1777, 8, "planar", 3072, 170, 4, 0),
    _Row("GeForce RTX 3070", 0.317, 20.3, 40.6, 40.6, 163, 46, 1725, 8, "planar", 4096, 220, 4, 0),
    _Row("GeForce RTX 3080", 0.465, 29.8, 59.5, 59.5, 238, 68, 1710, 8, "planar", 5120, 320, 4, 0),
    _Row("GeForce RTX 3090", 0.556, 35.6, 71, 71, 284, 82, 1695, 8, "planar", 6144, 350, 4, 56.25),
    _Row("NVIDIA RTX A6000", 0.605, 77.4, 154.8, 154.8, 309.7, 84, 1800, 8, "planar", 6144, 300, 4, 56.25),
    _Row("NVIDIA L4", 0.473, 60, 121, 121, 242, 58, 2040, 5, "checked", 49152, 72, 4, 0),
    _Row("NVIDIA L40S", 1.43, 183, 362, 362, 733, 142, 2520, 5, "checked", 98304, 350, 4, 0),
    _Row("GeForce RTX 4060 Ti", 0.345, 22.1, 44.1, 44.1, 176.5, 34, 2535, 5, "planar", 32768, 160, 4, 0, pcie_lanes=8),
    _Row("GeForce RTX 4070", 0.455, 29.1, 58.3, 58.3, 233.2, 46, 2475, 5, "planar", 36864, 200, 4, 0),
    _Row("GeForce RTX 4080", 0.761, 48.7, 97.5, 97.5, 389.9, 76, 2505, 5, "planar", 65536, 320, 4, 0),
    _Row("GeForce RTX 4090", 1.29, 82.6, 165.2, 165.2, 660.6, 128, 2520, 5, "planar", 73728, 450, 4, 0),
    _Row("GeForce RTX 5080", 0.88, 56.3, 112.6, 112.6, 450.2, 84, 2617, 5, "planar", 65536, 360, 5, 0),
    _Row("GeForce RTX 5090", 1.64, 104.8, 209.5, 209.5, 838, 170, 2407, 5, "planar", 98304, 575, 5, 0),
    _Row(_PRO_6000, 1.71, 219.4, 438.9, 438.9, 877.7, 188, 2280, 5, "planar", 131072, 300, 5, 0),
    _Row("H100-PCIE-80GB", 25.6, 378, 756, 756, 1513, 114, 1755, 5, "stacked", 51200, 350, 5, 300),
    _Row("H100-SXM5-80GB", 33.5, 494.7, 989, 989, 1979, 132, 1980, 5, "stacked", 51200, 700, 5, 450),
    _Row("H200-SXM5-141GB", 33.5, 494.7, 989, 989, 1979, 132, 1980, 5, "stacked", 51200, 700, 5, 450),
    _Row("B200-SXM6-180GB", 37, 1100, 2250, 2250, 4500, 148, 1965, 5, "stacked", 129536, 1000, 5, 900),
)
_FIGURES_OF = {row.name: row.figures() for row in _FIGURES}
GPU_MODELS = {model.name: model._replace(figures=_FIGURES_OF[model.name]) for model in _ROWS}
DEFAULT_MODEL = GPU_MODELS["Tesla K40c"]
_MOST_NAMED = 4


def near_models(name: Any) -> str:
    """Text such as `; did you mean 'Tesla P4' or 'Tesla P40'?` with at most four similar models; empty if there are none.

    Those that have the text in their names; else those that have its numbers (`4090` and `80GB` say more than a maker's
    name does); else the nearest.
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
