"""TensorFlow's protocol buffer messages: a table of fields, from which protobuf makes classes on demand.

Only this module imports protobuf, which keeps fields that the table does not have. Source of names and numbers: the `.proto`
files of TensorFlow 2.21 (`core/framework` and `core/protobuf`).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, text_format
from google.protobuf.message import DecodeError
from google.protobuf.unknown_fields import UnknownFieldSet

from placesim.core.dtypes import DTYPES, REF_OFFSET
from placesim.core.protobuf_wire import WireError
from placesim.formats.recognition import is_text as looks_like_text
from placesim.formats.tensorflow.session_messages import SESSION_ENUMS, SESSION_MESSAGES

PACKAGE = "tensorflow"
Buffer = bytes | memoryview
Message = Any
"""A message of a class that is created at run time, and therefore has no static type."""

# One line a field: number, name, type.  `X*` is repeated, `{k:X}` a map, `X|group` a member of a oneof.
MESSAGES: dict[str, str] = {
    # --- core/framework/graph.proto, node_def.proto, versions.proto, graph_debug_info.proto
    "GraphDef": """1 node NodeDef*, 2 library FunctionDefLibrary, 3 version int32, 4 versions VersionDef,
        5 debug_info GraphDebugInfo""",
    "VersionDef": "1 producer int32, 2 min_consumer int32, 3 bad_consumers int32*",
    "NodeDef": """1 name string, 2 op string, 3 input string*, 4 device string, 5 attr {string:AttrValue},
        6 experimental_debug_info ExperimentalDebugInfo, 7 experimental_type FullTypeDef""",
    "ExperimentalDebugInfo": "1 original_node_names string*, 2 original_func_names string*",
    "FullTypeDef": "1 type_id FullTypeId, 2 args FullTypeDef*, 3 s string|attr, 4 i int64|attr",
    "GraphDebugInfo": """1 files string*, 2 traces {string:StackTrace}, 4 frames_by_id {fixed64:FileLineCol},
        5 name_to_trace_id {string:fixed64}, 6 traces_by_id {fixed64:StackTrace}""",
    "FileLineCol": "1 file_index int32, 2 line int32, 3 col int32, 4 func string, 5 code string",
    "StackTrace": "1 file_line_cols FileLineCol*, 2 frame_id fixed64*",
    # --- core/framework/attr_value.proto, tensor_shape.proto, tensor.proto, resource_handle.proto
    "AttrValue": """1 list ListValue|value, 2 s bytes|value, 3 i int64|value, 4 f float|value, 5 b bool|value,
        6 type DataType|value, 7 shape TensorShapeProto|value, 8 tensor TensorProto|value, 9 placeholder string|value,
        10 func NameAttrList|value""",
    "ListValue": """2 s bytes*, 3 i int64*, 4 f float*, 5 b bool*, 6 type DataType*, 7 shape TensorShapeProto*,
        8 tensor TensorProto*, 9 func NameAttrList*""",
    "NameAttrList": "1 name string, 2 attr {string:AttrValue}",
    "TensorShapeProto": "2 dim Dim*, 3 unknown_rank bool",
    "Dim": "1 size int64, 2 name string",
    "TensorProto": """1 dtype DataType, 2 tensor_shape TensorShapeProto, 3 version_number int32,
        4 tensor_content bytes, 5 float_val float*, 6 double_val double*, 7 int_val int32*, 8 string_val bytes*,
        9 scomplex_val float*, 10 int64_val int64*, 11 bool_val bool*, 12 dcomplex_val double*, 13 half_val int32*,
        14 resource_handle_val ResourceHandleProto*, 15 variant_val VariantTensorDataProto*, 16 uint32_val uint32*,
        17 uint64_val uint64*, 18 float8_val bytes""",
    "VariantTensorDataProto": "1 type_name string, 2 metadata bytes, 3 tensors TensorProto*",
    "ResourceHandleProto": """1 device string, 2 container string, 3 name string, 4 hash_code uint64,
        5 maybe_type_name string, 6 dtypes_and_shapes DtypeAndShape*""",
    "DtypeAndShape": "1 dtype DataType, 2 shape TensorShapeProto",
    # --- core/framework/function.proto, op_def.proto
    "FunctionDefLibrary": "1 function FunctionDef*, 2 gradient GradientDef*, 3 registered_gradients RegisteredGradient*",
    "FunctionDef": """1 signature OpDef, 3 node_def NodeDef*, 4 ret {string:string}, 5 attr {string:AttrValue},
        6 control_ret {string:string}, 7 arg_attr {uint32:ArgAttrs}, 8 resource_arg_unique_id {uint32:uint32}""",
    "ArgAttrs": "1 attr {string:AttrValue}",
    "GradientDef": "1 function_name string, 2 gradient_func string",
    "RegisteredGradient": "1 gradient_func string, 2 registered_op_type string",
    "OpDef": """1 name string, 2 input_arg ArgDef*, 3 output_arg ArgDef*, 4 attr AttrDef*, 5 summary string,
        6 description string, 8 deprecation OpDeprecation, 16 is_aggregate bool, 17 is_stateful bool,
        18 is_commutative bool, 19 allows_uninitialized_input bool, 20 control_output string*,
        21 is_distributed_communication bool""",
    "ArgDef": """1 name string, 2 description string, 3 type DataType, 4 type_attr string, 5 number_attr string,
        6 type_list_attr string, 7 handle_data DtypeAndShape*, 16 is_ref bool, 17 experimental_full_type FullTypeDef""",
    "AttrDef": """1 name string, 2 type string, 3 default_value AttrValue, 4 description string, 5 has_minimum bool,
        6 minimum int64, 7 allowed_values AttrValue""",
    "OpDeprecation": "1 version int32, 2 explanation string",
    "OpList": "1 op OpDef*",
    # --- core/protobuf/saved_model.proto, meta_graph.proto, saver.proto; core/framework/variable.proto
    "SavedModel": "1 saved_model_schema_version int64, 2 meta_graphs MetaGraphDef*",
    "MetaGraphDef": """1 meta_info_def MetaInfoDef, 2 graph_def GraphDef, 3 saver_def SaverDef,
        4 collection_def {string:CollectionDef}, 5 signature_def {string:SignatureDef}, 6 asset_file_def AssetFileDef*,
        7 object_graph_def SavedObjectGraph""",
    "MetaInfoDef": """1 meta_graph_version string, 2 stripped_op_list OpList, 3 any_info Any, 4 tags string*,
        5 tensorflow_version string, 6 tensorflow_git_version string, 7 stripped_default_attrs bool,
        8 function_aliases {string:string}""",
    "Any": "1 type_url string, 2 value bytes",
    "SaverDef": """1 filename_tensor_name string, 2 save_tensor_name string, 3 restore_op_name string,
        4 max_to_keep int32, 5 sharded bool, 6 keep_checkpoint_every_n_hours float,
        7 version SaverDef.CheckpointFormatVersion""",
    "CollectionDef": """1 node_list NodeList|kind, 2 bytes_list BytesList|kind, 3 int64_list Int64List|kind,
        4 float_list FloatList|kind, 5 any_list AnyList|kind""",
    "NodeList": "1 value string*",
    "BytesList": "1 value bytes*",
    "Int64List": "1 value int64*",
    "FloatList": "1 value float*",
    "AnyList": "1 value Any*",
    "SignatureDef": """1 inputs {string:TensorInfo}, 2 outputs {string:TensorInfo}, 3 method_name string,
        4 defaults {string:TensorProto}""",
    "TensorInfo": """1 name string|encoding, 2 dtype DataType, 3 tensor_shape TensorShapeProto,
        4 coo_sparse CooSparse|encoding, 5 composite_tensor CompositeTensor|encoding""",
    "CooSparse": "1 values_tensor_name string, 2 indices_tensor_name string, 3 dense_shape_tensor_name string",
    "CompositeTensor": "1 type_spec TypeSpecProto, 2 components TensorInfo*",
    "AssetFileDef": "1 tensor_info TensorInfo, 2 filename string",
    "VariableDef": """1 variable_name string, 2 initializer_name string, 3 snapshot_name string,
        4 save_slice_info_def SaveSliceInfoDef, 5 is_resource bool, 6 initial_value_name string, 7 trainable bool,
        8 synchronization VariableSynchronization, 9 aggregation VariableAggregation""",
    "SaveSliceInfoDef": "1 full_name string, 2 full_shape int64*, 3 var_offset int64*, 4 var_shape int64*",
    # --- core/protobuf/saved_object_graph.proto, trackable_object_graph.proto, struct.proto
    "SavedObjectGraph": "1 nodes SavedObject*, 2 concrete_functions {string:SavedConcreteFunction}",
    "SavedObject": """1 children ObjectReference*, 3 slot_variables SlotVariableReference*,
        4 user_object SavedUserObject|kind, 5 asset SavedAsset|kind, 6 function SavedFunction|kind,
        7 variable SavedVariable|kind, 8 bare_concrete_function SavedBareConcreteFunction|kind,
        9 constant SavedConstant|kind, 10 resource SavedResource|kind, 11 saveable_objects {string:SaveableObject},
        12 captured_tensor CapturedTensor|kind, 13 registered_name string, 14 serialized_user_proto Any,
        15 dependencies ObjectReference*, 16 registered_saver string""",
    "SavedUserObject": "1 identifier string, 2 version VersionDef, 3 metadata string",
    "SavedAsset": "1 asset_file_def_index int32",
    "SavedFunction": "1 concrete_functions string*, 2 function_spec FunctionSpec",
    "CapturedTensor": "1 name string, 2 concrete_function string",
    "SavedConcreteFunction": """2 bound_inputs int32*, 3 canonicalized_input_signature StructuredValue,
        4 output_signature StructuredValue""",
    "SavedBareConcreteFunction": """1 concrete_function_name string, 2 argument_keywords string*,
        3 allowed_positional_arguments int64, 4 function_spec FunctionSpec""",
    "SavedConstant": "1 operation string",
    "SavedVariable": """1 dtype DataType, 2 shape TensorShapeProto, 3 trainable bool,
        4 synchronization VariableSynchronization, 5 aggregation VariableAggregation, 6 name string, 7 device string,
        8 experimental_distributed_variable_components SavedVariable*""",
    "FunctionSpec": """1 fullargspec StructuredValue, 2 is_method bool, 5 input_signature StructuredValue,
        6 jit_compile JitCompile""",
    "SavedResource": "1 device string",
    "SaveableObject": "2 save_function int32, 3 restore_function int32",
    "TrackableObjectGraph": "1 nodes TrackableObject*",
    "TrackableObject": """1 children ObjectReference*, 2 attributes SerializedTensor*,
        3 slot_variables SlotVariableReference*, 4 registered_saver RegisteredSaver, 5 has_checkpoint_values BoolValue""",
    "ObjectReference": "1 node_id int32, 2 local_name string",
    "SerializedTensor": "1 name string, 2 full_name string, 3 checkpoint_key string",
    "SlotVariableReference": "1 original_variable_node_id int32, 2 slot_name string, 3 slot_variable_node_id int32",
    "RegisteredSaver": "1 name string, 2 object_name string",
    "BoolValue": "1 value bool",
    "StructuredValue": """1 none_value NoneValue|kind, 11 float64_value double|kind, 12 int64_value sint64|kind,
        13 string_value string|kind, 14 bool_value bool|kind, 31 tensor_shape_value TensorShapeProto|kind,
        32 tensor_dtype_value DataType|kind, 33 tensor_spec_value TensorSpecProto|kind,
        34 type_spec_value TypeSpecProto|kind, 35 bounded_tensor_spec_value BoundedTensorSpecProto|kind,
        51 list_value StructuredList|kind, 52 tuple_value StructuredList|kind, 53 dict_value DictValue|kind,
        54 named_tuple_value NamedTupleValue|kind""",
    "NoneValue": "",
    "StructuredList": "1 values StructuredValue*",
    "DictValue": "1 fields {string:StructuredValue}",
    "PairValue": "1 key string, 2 value StructuredValue",
    "NamedTupleValue": "1 name string, 2 values PairValue*",
    "TensorSpecProto": "1 name string, 2 shape TensorShapeProto, 3 dtype DataType",
    "BoundedTensorSpecProto": """1 name string, 2 shape TensorShapeProto, 3 dtype DataType, 4 minimum TensorProto,
        5 maximum TensorProto""",
    "TypeSpecProto": """1 type_spec_class TypeSpecClass, 2 type_state StructuredValue,
        3 type_spec_class_name string, 4 num_flat_components int32""",
    # --- core/protobuf/tensor_bundle.proto, core/framework/tensor_slice.proto, python/training/checkpoint_state.proto
    "BundleHeaderProto": "1 num_shards int32, 2 endianness Endianness, 3 version VersionDef",
    "BundleEntryProto": """1 dtype DataType, 2 shape TensorShapeProto, 3 shard_id int32, 4 offset int64,
        5 size int64, 6 crc32c fixed32, 7 slices TensorSliceProto*""",
    "TensorSliceProto": "1 extent Extent*",
    "Extent": "1 start int64, 2 length int64|has_length",
    "CheckpointState": """1 model_checkpoint_path string, 2 all_model_checkpoint_paths string*,
        3 all_model_checkpoint_timestamps double*, 4 last_preserved_timestamp double""",
    # --- other views of the same bytes: a NodeDef whose attrs are not parsed, and one entry of its map of attrs
    "NodeOutline": "1 name string, 2 op string, 3 input string*, 4 device string, 5 attr bytes*",
    "AttrEntry": "1 key string, 2 value AttrValue",
}

ENUMS: dict[str, dict[str, int]] = {
    "DataType": {
        "DT_INVALID": 0,
        **{dtype.enum_name: dtype.number for dtype in DTYPES.values()},
        **{dtype.enum_name + "_REF": dtype.number + REF_OFFSET for dtype in DTYPES.values()},
    },
    "FullTypeId": {
        "TFT_" + name: number
        for names, first in (
            ("UNSET VAR ANY PRODUCT NAMED", 0),
            ("FOR_EACH", 20),
            ("CALLABLE", 100),
            (
                "BOOL UINT8 UINT16 UINT32 UINT64 INT8 INT16 INT32 INT64 HALF FLOAT DOUBLE COMPLEX64 COMPLEX128 STRING BFLOAT16",
                200,
            ),
            ("TENSOR ARRAY OPTIONAL LITERAL ENCODED SHAPE_TENSOR", 1000),
            ("DATASET RAGGED ITERATOR", 10102),
            ("MUTEX_LOCK LEGACY_VARIANT", 10202),
        )
        for number, name in enumerate(names.split(), first)
    },
    "SaverDef.CheckpointFormatVersion": {"LEGACY": 0, "V1": 1, "V2": 2},
    "Endianness": {"LITTLE": 0, "BIG": 1},
    "JitCompile": {"DEFAULT": 0, "ON": 1, "OFF": 2},
    "VariableSynchronization": {
        "VARIABLE_SYNCHRONIZATION_" + name: number for number, name in enumerate(("AUTO", "NONE", "ON_WRITE", "ON_READ"))
    },
    "VariableAggregation": {
        "VARIABLE_AGGREGATION_" + name: number for number, name in enumerate(("NONE", "SUM", "MEAN", "ONLY_FIRST_REPLICA"))
    },
    "TypeSpecClass": {
        "UNKNOWN": 0,
        "SPARSE_TENSOR_SPEC": 1,
        "INDEXED_SLICES_SPEC": 2,
        "RAGGED_TENSOR_SPEC": 3,
        "TENSOR_ARRAY_SPEC": 4,
        "DATA_DATASET_SPEC": 5,
        "DATA_ITERATOR_SPEC": 6,
        "OPTIONAL_SPEC": 7,
        "PER_REPLICA_SPEC": 8,
        "VARIABLE_SPEC": 9,
        "ROW_PARTITION_SPEC": 10,
        "REGISTERED_TYPE_SPEC": 12,
        "EXTENSION_TYPE_SPEC": 13,
    },
}

_Field = descriptor_pb2.FieldDescriptorProto
_SCALARS = ("double", "float", "int64", "uint64", "int32", "fixed64", "fixed32", "bool", "string", "bytes", "uint32", "sint64")


# --- descriptors ----------------------------------------------------------------------------------------------------


@cache
def message_class(name: str) -> Any:
    """Return the class of a message in the tables."""
    pool = _pool() if name in MESSAGES else _session_pool()
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{PACKAGE}.{name}"))


def enum_wrapper(name: str) -> Any:
    """Return a top-level enum, which has protobuf's methods `Name` and `Value`. Raises KeyError for an unknown name."""
    home = _home(name)
    pool = _pool() if name in ENUMS else _session_pool()
    return getattr(message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{PACKAGE}.{home}")), name)


def enum_value(name: str) -> int:
    """Return the number of a value of a top-level enum, by the value's name. Raises KeyError for an unknown name."""
    for enum, numbers in (ENUMS | SESSION_ENUMS).items():
        if "." not in enum and name in numbers:
            return numbers[name]
    raise KeyError(name)


@cache
def _pool() -> descriptor_pool.DescriptorPool:
    pool = descriptor_pool.DescriptorPool()
    pool.Add(_file("tensorflow.proto", MESSAGES, ENUMS))
    return pool


@cache
def _session_pool() -> descriptor_pool.DescriptorPool:
    """Return the pool extended by the messages of sessions, which few commands need."""
    file = _file("session.proto", SESSION_MESSAGES, SESSION_ENUMS)
    file.dependency.append("tensorflow.proto")
    _pool().Add(file)
    return _pool()


def _file(name: str, messages: Mapping[str, str], enums: Mapping[str, Mapping[str, int]]) -> descriptor_pb2.FileDescriptorProto:
    file = descriptor_pb2.FileDescriptorProto(name=name, package=PACKAGE, syntax="proto3")
    found: dict[str, descriptor_pb2.DescriptorProto] = {}

    def message(name: str) -> descriptor_pb2.DescriptorProto:
        """Return the descriptor of a message, which is nested in the message before the last dot of its name."""
        if name not in found:
            outer, _, own = name.rpartition(".")
            found[name] = message(outer).nested_type.add(name=own) if outer else file.message_type.add(name=own)
        return found[name]

    for name, fields in messages.items():
        _describe(message(name), name, fields)
    for name, numbers in enums.items():
        # The values of a file's top-level enums would share a namespace, so each such enum gets a message around it.
        enum = message(_home(name)).enum_type.add(name=name.rpartition(".")[2])
        for value, number in numbers.items():
            enum.value.add(name=value, number=number)
    return file


def _home(enum: str) -> str:
    """Return the name of the message that contains an enum."""
    return enum.rpartition(".")[0] or enum + "Names"


def _describe(message: descriptor_pb2.DescriptorProto, full_name: str, fields: str) -> None:
    groups: dict[str, int] = {}
    for line in filter(None, map(str.strip, fields.split(","))):
        number, name, kind = line.split()
        kind, _, group = kind.partition("|")
        field = message.field.add(name=name, number=int(number), label=_Field.LABEL_OPTIONAL)
        if group:
            if group not in groups:
                groups[group] = len(groups)
                message.oneof_decl.add(name=group)
            field.oneof_index = groups[group]
        if kind.startswith("{"):
            kind = _describe_map_entry(message, full_name, name, kind)
        if kind.endswith("*"):
            field.label = _Field.LABEL_REPEATED
        _set_type(field, kind.removesuffix("*"))


def _describe_map_entry(message: descriptor_pb2.DescriptorProto, full_name: str, name: str, kind: str) -> str:
    key, value = kind[1:-1].split(":")
    entry = message.nested_type.add(name="".join(part.capitalize() for part in name.split("_")) + "Entry")
    entry.options.map_entry = True
    for number, (part, part_kind) in enumerate((("key", key), ("value", value)), 1):
        _set_type(entry.field.add(name=part, number=number, label=_Field.LABEL_OPTIONAL), part_kind)
    return f"{full_name}.{entry.name}*"


def _set_type(field: descriptor_pb2.FieldDescriptorProto, kind: str) -> None:
    if kind in _SCALARS:
        field.type = getattr(_Field, "TYPE_" + kind.upper())
    elif kind in ENUMS or kind in SESSION_ENUMS:
        field.type, field.type_name = _Field.TYPE_ENUM, f".{PACKAGE}.{_home(kind)}.{kind.rpartition('.')[2]}"
    else:
        field.type, field.type_name = _Field.TYPE_MESSAGE, f".{PACKAGE}.{kind}"


# --- the wire format and the text format ----------------------------------------------------------------------------


def parse(name: str, data: Buffer) -> Message:
    """Parse bytes as a message of that name. Raises WireError."""
    return parser(name)(data)


@cache
def parser(name: str) -> Callable[[Buffer], Message]:
    """Return a function that parses bytes as a message of that name, faster than `parse` for many messages."""
    from_bytes = message_class(name).FromString

    def parse_one(data: Buffer) -> Message:
        try:
            return from_bytes(data)
        except DecodeError as error:
            raise WireError(f"invalid {name}: {error}") from None

    return parse_one


def parse_text(name: str, data: Buffer) -> Message:
    """Parse text format in UTF-8 as a message of that name. Raises WireError with the line and column."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # protobuf warns about unknown escapes
            return text_format.Parse(bytes(data).decode(), message_class(name)())
    except text_format.ParseError as error:
        text_only = str(error).partition(" : ")[2] or str(error)
        raise WireError(f"invalid {name}: {text_only}", error.GetLine() or 0, error.GetColumn() or 0) from None
    except RecursionError:
        raise WireError(f"invalid {name}: nested too deeply") from None
    except ValueError as error:  # such as a number out of a field's range
        raise WireError(f"invalid {name}: {error}") from None


def as_binary(name: str, data: Buffer, is_text: bool | None = None) -> Buffer:
    """Return a message in binary form from its binary or text form; `is_text` None detects the form. Raises WireError."""
    return serialise(parse_text(name, data)) if (looks_like_text(data) if is_text is None else is_text) else data


def serialise(message: Message) -> bytes:
    """Serialise a message deterministically: maps in key order."""
    return bytes(message.SerializeToString(deterministic=True))


def to_text(message: Message) -> str:
    """Return a message in text format, in ASCII. Unknown fields are left out."""
    return str(text_format.MessageToString(message, as_utf8=False))


def has_unknown_fields(message: Message) -> bool:
    """Whether a message has fields that the table does not have. Messages inside it are not examined."""
    return len(UnknownFields(message)) > 0


UnknownFields: Any = UnknownFieldSet
"""The fields of a message that the table does not have, counted by `len`."""
