"""Sources of the names in TensorFlow's own submodules (`tensorflow.python.ops.array_ops`).

Most sources follow from the submodule's name: `tensorflow.python.ops.nn_ops` has the names of `tf.nn` and of `tf`. `_ROWS` maps
the other submodules to their sources: modules of placesim.tf1 or of the public API, and `NAME=MODULE.WHAT` for a name that is
called differently in placesim.tf1.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

_ROWS = {
    "framework.ops": (
        "tf graphs.graph graphs.tensor ops.conversion graphs.default_graph_scopes graphs.graph_keys graphs.scopes "
        "graphs.elements gradients.registry internals.framework graph_defs.meta_graphs contrib.framework"
    ),
    "framework.dtypes": "types.dtypes dtypes",
    "framework.tensor": "graphs.tensor tf",
    "framework.tensor_like framework.composite_tensor framework.common_shapes": "internals.framework",
    "tf2 autograph.impl.api ops.control_flow_util distribute.summary_op_util": "internals.framework",
    "keras.utils.tf_utils": "register_symbolic_tensor_type=internals.framework.register_dense_tensor_like_type",
    "util.lazy_loader": "LazyLoader=importing.import_hook.LazyLoader",
    "autograph.pyct.transformer": "Base=importing.missing_names.MissingBase",
    "framework.type_spec": "types.type_specs BatchableTypeSpec=types.type_specs.TypeSpec",
    "framework.tensor_shape": "types.shapes types.dimensions",
    "framework.tensor_util": "ops.constant_values ops.conversion contrib.framework tf",
    "framework.constant_op": "ops.conversion",
    "framework.sparse_tensor framework.indexed_slices": "sparse.values tf",
    "framework.device": "types.device_spec",
    "framework.function": "functions.defun",
    "framework.device_spec": "types.device_spec",
    "framework.random_seed": "random.seeds",
    "framework.errors framework.errors_impl": "errors",
    "framework.graph_util framework.graph_util_impl": "graph_defs.parts",
    "framework.importer": "graph_defs.importer tf",
    "framework.meta_graph": "graph_defs.meta_graphs train",
    "framework.smart_cond": "contrib.framework",
    "framework.versions": "release",
    "framework.test_util": "test",
    "ops.array_ops ops.array_ops_stack ops.gen_array_ops": "array.shaping array.parts array.creation tf",
    "ops.math_ops": "math.elementwise math.casting math.products math.reductions tf",
    "ops.random_ops": "random.drawing tf",
    "ops.control_flow_ops": "graphs.grouping control_flow tf",
    "ops.cond ops.while_loop ops.control_flow_case ops.map_fn ops.confusion_matrix ops.custom_gradient": "tf weights",
    "ops.weights_broadcast_ops": "weights",
    "ops.op_selector": "contrib.graph_editor",
    "ops.resources": "training.initializing",
    "ops.gradients ops.gradients_impl ops.gradients_util": "gradients tf",
    "ops.variables ops.variable_scope ops.variable_v1": "variables variables.scopes variables.partitioned tf",
    "ops.resource_variable_ops": "variables.resource variables.functions tf",
    "ops.init_ops ops.init_ops_v2": "initializers variables.initializers tf",
    "ops.clip_ops": "clipping",
    "ops.rnn_cell ops.rnn_cell_impl": "nn.rnn_cell tf _zero_state_tensors=rnn.states.zeros_of",
    "ops.rnn": "nn tf",
    "ops.lookup_ops": "lookup.initializers lookup.tables contrib.lookup tf",
    "training.device_setter": "training.cluster_spec train",
    "training.moving_averages": "train optimizers.averages",
    "training.slot_creator": "optimizers.slots",
    "training.learning_rate_decay": "train",
    "training.training_util": "train optimizers.steps",
    "training.evaluation": "training.evaluation",
    "training.summary_io": "summary train",
    "training.training_ops": "train",
    "pywrap_tensorflow pywrap_tensorflow_internal training.py_checkpoint_reader": "train",
    "client.device_lib": "session.devices",
    "client.timeline": "session.timeline",
    "client.session": "session session.values tf",
    "ops.embedding_ops ops.candidate_sampling_ops ops.ctc_ops ops.nn_impl": "nn tf",
    "ops.metrics_impl": "metrics.means metrics _remove_squeezable_dimensions=metrics.means.matched",
    "ops.data_flow_ops": "queues.staging tf",
    "platform.gfile": "files.gfile io.gfile",
    "lib.io.file_io": "files.file_io",
    "lib.io.tf_record lib.io.python_io": "python_io io",
    "platform.tf_logging": "logging",
    "platform.app": "app",
    "platform.flags": "app.flags flags",
    "platform.googletest": "test",
    "platform.benchmark": "test",
    "layers.layers layers.core layers.convolutional layers.pooling layers.normalization layers.base": (
        "layers.core layers.convolutional layers.pooling layers.normalization layers.layer layers"
    ),
    "layers.utils": (
        "layers.layer contrib.outputs normalize_tuple=layers.layer.sizes normalize_padding=layers.layer.padding_of "
        "normalize_data_format=layers.layer.data_format_of"
    ),
    "training.monitored_session": "train training.monitored training.session_layers",
    "util.nest": "types.nest internals.nests is_sequence=types.nest.is_nested is_sequence_or_composite=types.nest.is_nested",
    "util.compat": "compat",
    "util.tf_inspect util.function_utils": "internals.inspection",
    "util.all_util util.deprecation util.tf_contextlib util.tf_decorator util.tf_export util.tf_should_use": (
        "internals.decorators deprecated_argument_lookup=ops.arguments.renamed"
    ),
}
SOURCES = {
    f"python.{module}": tuple("" if source == "tf" else source for source in sources.split() if "=" not in source)
    for modules, sources in _ROWS.items()
    for module in modules.split()
} | {
    "examples.tutorials.mnist": ("examples",),
    "examples.tutorials.mnist.input_data": ("examples.mnist",),
    "examples.tutorials.mnist.mnist": ("examples.mnist_network",),
    "contrib.learn.python.learn.datasets.mnist": ("examples.mnist",),
    "contrib.framework.python.ops.audio_ops": ("audio",),
    "contrib.slim.python.slim": ("contrib.slim",),
}
RENAMED = {
    f"python.{module}.{name}": tuple(what.rsplit(".", 1))
    for modules, sources in _ROWS.items()
    for module in modules.split()
    for name, _, what in (source.partition("=") for source in sources.split())
    if what
}
"""`SUBMODULE.NAME` of TensorFlow -> module of placesim.tf1 and name in it, for names that are called differently there."""
NEIGHBOURS = {path.rpartition(".")[2]: path for path in SOURCES if path.startswith("python.")}
"""Last part of a submodule's name -> the submodule.  TensorFlow's submodules import each other under these last parts."""
_ENDINGS = re.compile(r"_(ops|impl|lib|ops_impl|ops_lib|v1|v2|ops_v2)$")
_V1_ENDING = re.compile(r"(?<=[a-z])(_v1|V1)$")
_ALIASES = {"training": "train", "string": "strings", "checkpoint": "train", "linalg_ops": "linalg", "summary_ops": "summary"}
"""Part of a submodule's name -> public module with these functions, if its name differs."""


def names_of(name: str) -> Iterator[str]:
    """Possible names in placesim.tf1, the likeliest first: the name, without `_v1` or `V1` at its end, without `_` in front."""
    yield name
    if _V1_ENDING.search(name):
        yield _V1_ENDING.sub("", name)
    if name.startswith("_"):
        yield name.lstrip("_")


def sources_of(path: str) -> Iterator[str]:
    """Possible sources of a submodule's names, the likeliest first."""
    if path in SOURCES:
        yield from SOURCES[path]
        return
    head, _, inside = path.partition(".python")
    if head.startswith("contrib."):
        last = inside.rpartition(".")[2]
        yield from (f"{head}.nets.{last}", f"{head}.{last}", head)
        if last:
            yield from _by_parts(inside)
        return
    inside = path.removeprefix("python.")
    yield inside
    yield from _by_parts(inside)
    yield ""


def _by_parts(inside: str) -> Iterator[str]:
    """Return the public modules whose names occur as parts of a dotted name, beginning with the last part."""
    for part in reversed(inside.strip(".").split(".")):
        plain = _ENDINGS.sub("", part)
        yield from dict.fromkeys((_ALIASES.get(plain, plain), plain))
