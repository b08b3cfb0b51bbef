"""Help for a script's exceptions: another Python or TensorFlow version, a missing library."""

from __future__ import annotations

import linecache
import re
import sys
import traceback

from placesim.tf1.running.code_origin import is_users

_PYTHON_2_LINES = re.compile(
    r"""^\s*(print\s+[^\s(=.,\[]|print\s*$|exec\s+['"\w]|raise\s+[\w.]+\s*,|except\s+[\w.()\s,]+,\s*\w+\s*:)"""
    r"""|<>|`[^`]+`|\b\d+[lL]\b|\b0\d+\b|\bur['"]"""
)
_PYTHON_2_NAMES = (
    *("basestring", "cmp", "execfile", "file", "long", "raw_input", "reduce", "reload", "unichr", "unicode", "xrange"),
)
_PYTHON_2_METHODS = ("has_key", "iteritems", "iterkeys", "itervalues")
_PYTHON_2_MODULES = (
    *("__builtin__", "ConfigParser", "cPickle", "cStringIO", "commands", "HTMLParser", "httplib", "Queue", "StringIO"),
    *("SocketServer", "Tkinter", "urllib2", "urlparse"),
)
_GPU_LIBRARIES = (
    *("byteps", "cupy", "horovod", "mxnet", "nccl", "numba", "nvidia", "pycuda", "pynvml", "tensorrt", "torch", "triton"),
)
"""Libraries other than TensorFlow that compute on real GPUs."""
_TRAINING_LOOP = ("compile", "fit", "evaluate", "predict", "train_on_batch")
_NO_SUCH_NAME = re.compile(r"module 'tensorflow(?:\._api\.v2\.compat\.v1)?\.?([\w.]*)' has no attribute '(\w+)'")
_TENSORFLOW_2_NAMES = re.compile(
    r"\btf\.(function|GradientTape|keras\.optimizers)\b|'tensorflow' has no attribute 'optimizers'"
)
_NEEDS_EAGER = re.compile(
    r"Using a symbolic `tf\.Tensor` as |Cannot convert a symbolic tf\.Tensor|only support.* in eager mode"
)
_GRAPH_MODE = re.compile(r"\bSession\b|\bplaceholder\b|compat\.v1|disable_(v2_behavior|eager_execution)|tf\.Graph\b")
"""Names in a script for TensorFlow 1, or in a script that builds graphs with TensorFlow 2."""


def advice(error: BaseException) -> list[str]:
    """Lines of help for an exception; none if there is nothing to suggest."""
    library = _gpu_library(error)
    if _is_python_2(error):
        file = getattr(error, "filename", None) or "SCRIPT"
        return [f"this is Python 2: `2to3 -w {file}` converts it (Python up to 3.12 brings 2to3)"]
    if library is not None:
        return [
            f"{library} works on real GPUs, and placesim simulates only TensorFlow: remove what needs {library} from the script"
        ]
    if isinstance(error, ModuleNotFoundError) and error.name:
        return [f"{error.name.partition('.')[0]} is not installed for {sys.executable}"]
    in_keras = isinstance(error, AttributeError) and type(error.obj).__module__.startswith("placesim.tf1.keras")
    if isinstance(error, AttributeError) and in_keras and error.name in _TRAINING_LOOP:
        return [
            f"of Keras there are layers and models, but no {error.name}: tf.train has optimizers, a Session runs their steps"
        ]
    return list(NO_EAGER) if _is_tensorflow_2(error) else _near_name(error)


NO_EAGER = (
    "placesim does not run TensorFlow 2's eager mode: here an op makes a node, and a tf.Session runs the graph (TensorFlow 1)",
    "write a tf.function's graph to a file with TensorFlow: f.get_concrete_function(...).graph.as_graph_def(), or a SavedModel",
)
"""Help for a script that is written for TensorFlow 2's eager mode."""


def _near_name(error: BaseException) -> list[str]:
    """Suggest a TensorFlow name similar to one that it lacks."""
    found = _NO_SUCH_NAME.fullmatch(str(error)) if isinstance(error, AttributeError) else None
    if found is None:
        return []
    from placesim.core.suggestions import did_you_mean
    from placesim.tf1.importing.namespaces import public_names

    near = did_you_mean(found[2], public_names(found[1]))
    return [near.removeprefix("; ")] if near else []


def _is_python_2(error: BaseException) -> bool:
    if isinstance(error, TabError):
        return True
    if isinstance(error, SyntaxError):
        said = ("Missing parentheses in call to", "multiple exception types must be", "leading zeros in decimal")
        return error.msg.startswith(said) or bool(_PYTHON_2_LINES.search(error.text or ""))
    if isinstance(error, ModuleNotFoundError):
        return error.name in _PYTHON_2_MODULES
    if isinstance(error, NameError):
        return error.name in _PYTHON_2_NAMES
    return isinstance(error, AttributeError) and error.name in _PYTHON_2_METHODS and isinstance(error.obj, dict)


def _gpu_library(error: BaseException) -> str | None:
    """Name of a GPU library that the script could not import or whose code failed; None for other errors."""
    if isinstance(error, ImportError):
        found = [*(error.name or "").split("."), *re.findall(r"cannot import name '(\w+)'", str(error))]
        return next((name for name in found if name in _GPU_LIBRARIES), None)
    if isinstance(error, AttributeError) and error.name in _GPU_LIBRARIES:
        return str(error.name)
    frames = traceback.extract_tb(error.__traceback__)
    innermost = frames[-1].filename.replace("\\", "/") if frames else ""
    return next((name for name in _GPU_LIBRARIES if f"/site-packages/{name}/" in innermost), None)


def _is_tensorflow_2(error: BaseException) -> bool:
    if isinstance(error, AttributeError) and error.name == "numpy":
        return type(error.obj).__module__.startswith(("placesim.tf1", "tensorflow."))
    text = str(error)
    if _NEEDS_EAGER.search(text):
        files = {frame.filename for frame in traceback.extract_tb(error.__traceback__) if is_users(frame.filename)}
        return not any(_GRAPH_MODE.search("".join(linecache.getlines(file))) for file in files)
    kinds = (AttributeError, ImportError, NotImplementedError)
    return isinstance(error, kinds) and bool(_TENSORFLOW_2_NAMES.search(text))
