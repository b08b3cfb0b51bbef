"""The vocabulary of graph files for an editor's completion and hover texts: ops, keys and element types."""

from __future__ import annotations

from placesim.core.dtypes import NAMES
from placesim.formats.graph_file.entries.control_flow_entries import COND_KEYS, WHILE_KEYS
from placesim.formats.graph_file.entries.functions import FUNCTION_KEYS
from placesim.formats.graph_file.schema import graph_file_schema
from placesim.formats.graph_file.sections.config import CONFIG_FIELDS
from placesim.formats.graph_file.sections.devices import CPU_KEYS, GPU_KEYS, TASK_KEYS
from placesim.formats.graph_file.sections.links import LINK_KEYS
from placesim.formats.graph_file.sections.steps import STEP_KEYS
from placesim.inspection.op_facts import load_registry, matching_ops
from placesim.ops.notation import format_signature
from placesim.report.text.ops import format_facts
from placesim.studies.studio.messages import Language, OpWords

_KEYS = {
    "step": STEP_KEYS,
    "config": CONFIG_FIELDS,
    "devices": TASK_KEYS,
    "cpu devices": CPU_KEYS,
    "gpu devices": GPU_KEYS,
    "link": LINK_KEYS,
    "function": FUNCTION_KEYS,
    "cond fields": COND_KEYS,
    "while fields": WHILE_KEYS,
}


def language(release: str) -> Language:
    """Return the vocabulary of graph files for a TensorFlow release."""
    schema = graph_file_schema()
    entries = {kind: found["properties"] for kind, found in schema["$defs"].items() if "properties" in found}
    keys = {"file": schema["properties"], **entries, **_KEYS}
    ops = [
        OpWords(
            name=facts.op.name,
            signature=format_signature(facts.op),
            attrs=list(facts.op.attrs),
            text=format_facts(facts),
        )
        for facts in matching_ops(load_registry(release))
    ]
    return Language(ops=ops, keys={kind: list(found) for kind, found in keys.items()}, dtypes=list(NAMES))
