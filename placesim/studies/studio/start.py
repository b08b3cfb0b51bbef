"""The initial data of the studio's page, which comes from a server or is one file."""

from __future__ import annotations

from typing import Any

from placesim.core.errors import PlacesimError
from placesim.core.releases import RELEASES
from placesim.core.version import __version__
from placesim.machine.gpu_models import GPU_MODELS
from placesim.studies.studio.messages import OptionField, Start, State
from placesim.studies.studio.saving import save_kinds
from placesim.studies.studio.studio import Studio

_FIELDS = (
    ("gpu", "GPUs", "count", "Number of GPUs of each task."),
    ("gpu_model", "GPU model", "choice", "Model of all GPUs."),
    ("cpu", "CPU devices", "count", "Number of CPU devices of each task."),
    ("link", "Links", "texts", "Bandwidth and latency of the link between two ends, such as GPU:0-GPU:1=25GB/s@2us."),
    ("batch", "Batch", "count", "Unknown first dimension of placeholders."),
    ("shape", "Shapes", "texts", "Shape of a placeholder whose shape is unknown, such as x=32,10."),
    (
        "soft_placement",
        "Soft placement",
        "flag",
        "Fall back to another device if the requested one is missing or has no kernel.",
    ),
    ("clear_devices", "Ignore requests", "flag", "Ignore the devices that nodes request."),
    ("tensorflow", "TensorFlow", "choice", "Release to simulate."),
    ("optimize", "Fold constants", "flag", "Fold constants once for all steps."),
    ("inter_op_threads", "Inter-op threads", "count", "Threads that run nodes; 0 lets TensorFlow choose."),
    ("intra_op_threads", "Intra-op threads", "count", "Threads inside a node; 0 lets TensorFlow choose."),
)


def start_document(studio: Studio, state: State | None = None, baseline: State | None = None, *, is_live: bool = True) -> Start:
    """Return the initial data of a page.

    With a server, it has the command line's state; otherwise any state with all answers.
    """
    source = studio.source
    state = state or source.start
    baseline = baseline or source.start
    choices: dict[str, list[str]] = {"gpu_model": list(GPU_MODELS), "tensorflow": list(RELEASES)}
    return Start(
        is_live=is_live,
        name=source.path,
        source=source.kind,
        state=state,
        baseline_state=baseline,
        answer=studio.answer(0, state, baseline, explains=not is_live),
        measure=None if is_live else studio.measure(0, state, baseline),
        baseline_lanes=None if is_live or baseline == state else _lanes(studio, baseline),
        options=[
            OptionField(
                name=name, label=label, kind=kind, help=text, value=_given(source.start, name), choices=choices.get(name, [])
            )
            for name, label, kind, text in _FIELDS
        ],
        saves=save_kinds(source),
        gpu_models=[[model.name, model.memory, model.compute_capability] for model in GPU_MODELS.values()],
        version=__version__,
    )


def _lanes(studio: Studio, state: State) -> dict[str, Any] | None:
    try:
        return studio.measure(0, state)["lanes"]
    except PlacesimError:  # the baseline can't be read
        return None


def _given(state: State, name: str) -> Any:
    return state["options"].get(name)
