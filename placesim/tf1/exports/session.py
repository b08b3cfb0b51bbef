"""Sessions, their configs and statistics, the machine's devices, and errors."""

ROWS = {
    "session.sessions": "Session InteractiveSession",
    "session.stacks": "get_default_session",
    "graph_defs.protos": (
        "ConfigProto GPUOptions GraphOptions OptimizerOptions RunOptions RunMetadata NodeDef AttrValue GraphDef MetaGraphDef "
        "Summary Event HistogramProto LogMessage SessionLog NameAttrList "
        "summary.Event summary.Summary summary.SessionLog summary.TaggedRunMetadata"
    ),
    "session.devices": (
        "test.gpu_device_name test.is_gpu_available test.is_built_with_cuda test.is_built_with_gpu_support=is_built_with_cuda"
    ),
    "errors": (
        "OpError "
        "errors.OK errors.CANCELLED errors.UNKNOWN errors.INVALID_ARGUMENT errors.DEADLINE_EXCEEDED errors.NOT_FOUND "
        "errors.ALREADY_EXISTS errors.PERMISSION_DENIED errors.RESOURCE_EXHAUSTED errors.FAILED_PRECONDITION errors.ABORTED "
        "errors.OUT_OF_RANGE errors.UNIMPLEMENTED errors.INTERNAL errors.UNAVAILABLE errors.DATA_LOSS errors.UNAUTHENTICATED "
        "errors.OpError errors.CancelledError errors.UnknownError errors.InvalidArgumentError errors.DeadlineExceededError "
        "errors.NotFoundError errors.AlreadyExistsError errors.PermissionDeniedError errors.ResourceExhaustedError "
        "errors.FailedPreconditionError errors.AbortedError errors.OutOfRangeError errors.UnimplementedError "
        "errors.InternalError errors.UnavailableError errors.DataLossError errors.UnauthenticatedError "
        "errors.exception_type_from_error_code errors.error_code_from_exception_type errors.raise_exception_on_not_ok_status"
    ),
}
