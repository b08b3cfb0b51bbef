"""Clusters, and what runs training."""

from __future__ import annotations

ROWS = {
    "cluster_spec": "train.ClusterSpec train.replica_device_setter",
    "training.queues": (
        "FIFOQueue RandomShuffleQueue PaddingFIFOQueue QueueBase queue.FIFOQueue=FIFOQueue "
        "queue.RandomShuffleQueue=RandomShuffleQueue queue.PaddingFIFOQueue=PaddingFIFOQueue queue.QueueBase=QueueBase"
    ),
    "training.queue_runners": (
        "train.Coordinator train.LooperThread train.QueueRunner train.queue_runner.QueueRunner=QueueRunner "
        "train.add_queue_runner train.queue_runner.add_queue_runner=add_queue_runner train.start_queue_runners "
        "train.queue_runner.start_queue_runners=start_queue_runners"
    ),
    "training.input_producers": (
        "train.limit_epochs train.input_producer train.string_input_producer train.range_input_producer "
        "train.slice_input_producer train.batch train.shuffle_batch"
    ),
    "protos": "train.ClusterDef=ClusterDef train.ServerDef=ServerDef",
}
