"""Event files: `tf.summary.FileWriter` writes them for TensorBoard, and `summary_iterator` reads them.

An Event is a record of a TFRecord file: its length and its bytes, each followed by a masked CRC-32C.
"""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Iterator
from typing import Any, ClassVar, SupportsInt

from placesim.formats.tensorflow.messages import message_class
from placesim.tf1.files.gfile import StrPath
from placesim.tf1.files.records import framed_record, tf_record_iterator
from placesim.tf1.graphs.graph import Graph, get_default_graph

VERSION = "brain.Event:2"
_WRITER = "tensorflow.core.util.events_writer"


class FileWriter:
    """Writes Events to a new file in a directory, which is created if needed."""

    def __init__(
        self,
        logdir: StrPath,
        graph: Any = None,
        max_queue: int = 10,
        flush_secs: float = 120,
        graph_def: Any = None,
        filename_suffix: str | None = None,
        session: object = None,
    ) -> None:
        if session is not None:
            raise NotImplementedError(
                "tf.summary.FileWriter(session=...) is not there, nor are ops that write summaries; without it the writer is."
            )
        self._logdir = os.fspath(logdir)
        self._suffix = filename_suffix or ""
        self._seen_tags: set[str] = set()
        self._seen_run_tags: set[str] = set()
        self._file: Any = None
        self._closed = False
        self._open()
        if graph is not None or graph_def is not None:
            from placesim.tf1.graph_defs.meta_graphs import export_meta_graph

            self.add_graph(graph=graph, graph_def=graph_def)
            of = {"graph": graph} if isinstance(graph, Graph) else {"graph_def": graph or graph_def}
            self.add_meta_graph(export_meta_graph(**of, collection_list=[]))

    def _open(self) -> None:
        os.makedirs(self._logdir or ".", exist_ok=True)
        now = time.time()
        name = f"events.out.tfevents.{int(now):010d}.{socket.gethostname()}{self._suffix}"
        self._file = open(os.path.join(self._logdir, name), "wb")  # noqa: SIM115 (open till `close`)
        first = message_class("Event")(wall_time=now, file_version=VERSION, source_metadata={"writer": _WRITER})
        self._file.write(framed_record(first.SerializeToString()))
        self._file.flush()

    def __enter__(self) -> FileWriter:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def get_logdir(self) -> str:
        """The directory."""
        return str(self._logdir)

    def add_summary(self, summary: Any, global_step: SupportsInt | None = None) -> None:
        """Write a Summary, given as a message or serialized."""
        kind = message_class("Summary")
        given = summary if not isinstance(summary, bytes) else kind.FromString(summary)
        if isinstance(summary, bytes) or any(value.HasField("metadata") for value in given.value):
            written = kind()
            written.CopyFrom(given)
            for value in written.value:  # readers know the metadata of a tag from its first value
                if not value.HasField("metadata"):
                    continue
                if value.tag in self._seen_tags:
                    value.ClearField("metadata")
                else:
                    self._seen_tags.add(value.tag)
            given = written
        self._add(message_class("Event")(summary=given), global_step)

    def add_session_log(self, session_log: object, global_step: SupportsInt | None = None) -> None:
        """Write a SessionLog."""
        self._add(message_class("Event")(session_log=session_log), global_step)

    def add_graph(self, graph: Any, global_step: SupportsInt | None = None, graph_def: Any = None) -> None:
        """Write a graph.  Raises ValueError for two graphs, TypeError for none or another value."""
        if graph is not None and graph_def is not None:
            raise ValueError("Please pass only graph, or graph_def (deprecated), but not both.")
        if isinstance(graph, Graph) or isinstance(graph_def, Graph):
            written = (graph or graph_def).as_graph_def(add_shapes=True)
        elif isinstance(graph, message_class("GraphDef")) or isinstance(graph_def, message_class("GraphDef")):
            written = graph if graph is not None else graph_def
        else:
            raise TypeError("The passed graph must be an instance of `Graph` or the deprecated `GraphDef`")
        self._add(message_class("Event")(graph_def=written.SerializeToString()), global_step)

    def add_meta_graph(self, meta_graph_def: object, global_step: SupportsInt | None = None) -> None:
        """Write a MetaGraphDef.  Raises TypeError for another value."""
        kind = message_class("MetaGraphDef")
        if not isinstance(meta_graph_def, kind):
            raise TypeError(f"meta_graph_def must be type MetaGraphDef, saw type: {type(meta_graph_def)}")
        self._add(message_class("Event")(meta_graph_def=meta_graph_def.SerializeToString()), global_step)

    def add_run_metadata(self, run_metadata: Any, tag: str, global_step: SupportsInt | None = None) -> None:
        """Write a step's RunMetadata.  Raises ValueError for a repeated tag."""
        if tag in self._seen_run_tags:
            raise ValueError("The provided tag was already used for this event type")
        self._seen_run_tags.add(tag)
        tagged = message_class("TaggedRunMetadata")(tag=tag, run_metadata=run_metadata.SerializeToString())
        self._add(message_class("Event")(tagged_run_metadata=tagged), global_step)

    def _add(self, event: Any, step: SupportsInt | None) -> None:
        event.wall_time = time.time()
        if step is not None:
            event.step = int(step)
        self.add_event(event)

    def add_event(self, event: Any) -> None:
        """Write an Event, unless the writer is closed."""
        if not self._closed:
            self._file.write(framed_record(event.SerializeToString()))

    def flush(self) -> None:
        """Write what is buffered to the file."""
        if not self._closed:
            self._file.flush()

    def close(self) -> None:
        """Close the file."""
        if not self._closed:
            self._closed = True
            self._file.close()

    def reopen(self) -> None:
        """Open a new file if the writer is closed."""
        if self._closed:
            self._closed = False
            self._open()

    def __del__(self) -> None:
        found = self.__dict__.get("_file")
        if found is not None and not found.closed:
            found.close()


class FileWriterCache:
    """One FileWriter for each directory."""

    _lock = threading.RLock()
    _cache: ClassVar[dict[str, FileWriter]] = {}

    @staticmethod
    def clear() -> None:
        """Close all writers."""
        with FileWriterCache._lock:
            for writer in FileWriterCache._cache.values():
                writer.close()
            FileWriterCache._cache = {}

    @staticmethod
    def get(logdir: StrPath) -> FileWriter:
        """The writer of a directory."""
        path = os.fspath(logdir)
        with FileWriterCache._lock:
            if path not in FileWriterCache._cache:
                FileWriterCache._cache[path] = FileWriter(path, graph=get_default_graph())
            return FileWriterCache._cache[path]


def summary_iterator(path: StrPath) -> Iterator[Any]:
    """The Events of a file.  Raises NotFoundError for a missing file, DataLossError for a broken one."""
    return map(message_class("Event").FromString, tf_record_iterator(path))
