"""Clusters, queues and training."""

from __future__ import annotations


def _hooks(names: str) -> str:
    """Map the hooks of `tf.train`, which `tf.estimator` has too."""
    return " ".join(f"{module}.{name}" for module in ("train", "estimator") for name in names.split())


ROWS = {
    "training.cluster_spec": "train.ClusterSpec train.replica_device_setter",
    "queues.queues": (
        "FIFOQueue RandomShuffleQueue PaddingFIFOQueue QueueBase PriorityQueue queue.PriorityQueue=PriorityQueue "
        "io.PriorityQueue=PriorityQueue io.PaddingFIFOQueue=PaddingFIFOQueue io.QueueBase=QueueBase "
        "io.RandomShuffleQueue=RandomShuffleQueue queue.FIFOQueue=FIFOQueue "
        "queue.RandomShuffleQueue=RandomShuffleQueue queue.PaddingFIFOQueue=PaddingFIFOQueue queue.QueueBase=QueueBase"
    ),
    "queues.queue_runners": (
        "train.Coordinator train.LooperThread train.QueueRunner train.queue_runner.QueueRunner=QueueRunner "
        "train.add_queue_runner train.queue_runner.add_queue_runner=add_queue_runner train.start_queue_runners "
        "train.queue_runner.start_queue_runners=start_queue_runners"
    ),
    "queues.batching": (
        "train.batch train.batch_join train.shuffle_batch train.shuffle_batch_join train.maybe_batch train.maybe_batch_join "
        "train.maybe_shuffle_batch train.maybe_shuffle_batch_join"
    ),
    "queues.readers": (
        "ReaderBase WholeFileReader TextLineReader FixedLengthRecordReader TFRecordReader IdentityReader "
        "io.ReaderBase=ReaderBase io.WholeFileReader=WholeFileReader io.TextLineReader=TextLineReader "
        "io.FixedLengthRecordReader=FixedLengthRecordReader io.TFRecordReader=TFRecordReader io.IdentityReader=IdentityReader"
    ),
    "files.records": (
        "python_io.TFRecordCompressionType python_io.TFRecordOptions python_io.TFRecordWriter python_io.tf_record_iterator "
        "io.TFRecordCompressionType io.TFRecordOptions io.TFRecordWriter io.tf_record_iterator"
    ),
    "queues.input_producers": (
        "train.limit_epochs train.input_producer train.string_input_producer train.range_input_producer "
        "train.slice_input_producer train.match_filenames_once io.match_filenames_once"
    ),
    "training.servers": "train.Server test.create_local_cluster",
    "training.watching_loops": "train.basic_train_loop train.checkpoints_iterator",
    "queues.accumulators": "ConditionalAccumulator ConditionalAccumulatorBase SparseConditionalAccumulator",
    "optimizers.sync_replicas": "train.SyncReplicasOptimizer",
    "training.run_hooks": _hooks("SessionRunHook SessionRunArgs SessionRunContext SessionRunValues"),
    "training.step_hooks": _hooks("SecondOrStepTimer LoggingTensorHook StopAtStepHook StepCounterHook GlobalStepWaiterHook"),
    "training.value_hooks": _hooks("NanTensorHook NanLossDuringTrainingError FinalOpsHook FeedFnHook"),
    "training.saving_hooks": _hooks("CheckpointSaverHook CheckpointSaverListener SummarySaverHook ProfilerHook"),
    "estimators.specs": "estimator.ModeKeys estimator.EstimatorSpec contrib.learn.ModeKeys=LearnModeKeys",
    "estimators.run_config": "estimator.RunConfig contrib.learn.RunConfig",
    "estimators.estimator": "estimator.Estimator",
    "estimators.input_functions": "estimator.inputs.numpy_input_fn",
    "estimators.tpu": " ".join(
        f"{module}.tpu.{name}"
        for module in ("estimator", "contrib")
        for name in ["TPUEstimator", "TPUEstimatorSpec", "TPUConfig", "RunConfig", "InputPipelineConfig"]
    ),
    "estimators.train_and_evaluate": "estimator.TrainSpec estimator.EvalSpec estimator.train_and_evaluate",
    "training.scaffold": "train.Scaffold",
    "training.session_manager": "train.SessionManager",
    "training.session_creators": "train.SessionCreator train.ChiefSessionCreator train.WorkerSessionCreator",
    "training.monitored": "train.MonitoredSession train.SingularMonitoredSession train.MonitoredTrainingSession",
    "training.supervisor": "train.Supervisor",
    "training.initializing": "tables_initializer initializers.tables_initializer initialize_all_tables=tables_initializer",
    "graph_defs.protos": (
        "train.ClusterDef=ClusterDef train.ServerDef=ServerDef train.JobDef=JobDef train.Example train.Features train.Feature "
        "train.FeatureList train.FeatureLists train.SequenceExample train.BytesList train.FloatList train.Int64List"
    ),
}
