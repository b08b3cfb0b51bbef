"""Names of flags, files, logging, tests and `py_func`."""

_LOGGING = (
    "DEBUG INFO WARN ERROR FATAL debug info warn warning error fatal log vlog log_if log_every_n log_first_n get_verbosity "
    "set_verbosity flush get_logger TaskLevelStatusMessage"
)

_FLAGS = (
    "FLAGS DEFINE_string DEFINE_integer DEFINE_float DEFINE_boolean DEFINE_bool DEFINE_enum DEFINE_list DEFINE_spaceseplist "
    "DEFINE_multi_string DEFINE_multi_integer DEFINE_multi_float mark_flag_as_required mark_flags_as_required "
    "register_validator FlagValues Error DuplicateFlagError IllegalFlagValueError UnrecognizedFlagError "
    "UnparsedFlagAccessError ValidationError Flag FlagHolder "
    "ArgumentParser BooleanParser IntegerParser FloatParser EnumParser EnumClassParser ListParser "
    "WhitespaceSeparatedListParser DEFINE DEFINE_multi DEFINE_enum_class DEFINE_multi_enum DEFINE_multi_enum_class "
    "DEFINE_alias register_multi_flags_validator multi_flags_validator validator mark_flags_as_mutual_exclusive "
    "mark_bool_flags_as_mutual_exclusive set_default override_value adopt_module_key_flags declare_key_flag "
    "disclaim_key_flags flag_dict_to_args get_help_width text_wrap doc_to_help"
)
_GFILE = (
    "GFile Open FastGFile Exists IsDirectory Stat Glob ListDirectory MkDir MakeDirs Remove DeleteRecursively Rename Copy Walk"
)
_IO_GFILE = (
    "GFile exists=Exists isdir=IsDirectory stat=Stat glob=Glob listdir=ListDirectory mkdir=MkDir makedirs=MakeDirs "
    "remove=Remove rmtree=DeleteRecursively rename=Rename copy=Copy walk=Walk"
)

ROWS = {
    "app.flags": " ".join([*(f"flags.{name} app.flags.{name}" for name in _FLAGS.split()), "app.run"]),
    "files.gfile": " ".join(
        [*(f"gfile.{name}" for name in _GFILE.split()), *(f"io.gfile.{item}" for item in _IO_GFILE.split())]
    ),
    "app.logging": " ".join(f"logging.{name}" for name in _LOGGING.split()) + " get_logger",
    "testing": (
        "test.TestCase test.main test.get_temp_dir test.test_src_dir_path resource_loader.get_data_files_path "
        "resource_loader.get_path_to_datafile resource_loader.get_root_dir_with_all_resources resource_loader.load_resource "
        "resource_loader.readahead_file_path"
    ),
    "gradients.gradient_checking": "test.compute_gradient test.compute_gradient_error",
    "functions.python_functions": "py_func numpy_function py_function eager_py_func",
}
