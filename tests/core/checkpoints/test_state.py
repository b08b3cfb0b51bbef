"""The `checkpoint` file of a directory: read as protobuf reads it, and never led out of the directory."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placesim.core.checkpoints.checkpoint_state import latest_checkpoint, read_state
from placesim.core.errors import GraphFileError, InvalidArgumentError, NotFoundError, PlacesimError
from placesim.core.protobuf_wire import WireError
from placesim.formats.tensorflow.messages import message_class, parse_text, to_text

FILES = Path(__file__).parent.parent.parent / "data" / "tensorflow-files"


def test_the_newest_checkpoint() -> None:
    assert latest_checkpoint(FILES / "checkpoint_ref") == (FILES / "checkpoint_ref" / "model.ckpt").resolve()


@pytest.mark.parametrize(
    ("state", "error"),
    [
        ("model_checkpoint_path: '../model'", InvalidArgumentError),
        ("model_checkpoint_path: '/etc/passwd'", InvalidArgumentError),
        ("model_checkpoint_path: 'a\\000b'", InvalidArgumentError),
        ("model_checkpoint_path: 5", GraphFileError),
        ("", NotFoundError),
    ],
)
def test_states_that_lie(tmp_path: Path, state: str, error: type[PlacesimError]) -> None:
    (tmp_path / "checkpoint").write_text(state)
    with pytest.raises(error):
        latest_checkpoint(tmp_path)
    with pytest.raises(NotFoundError):
        latest_checkpoint(tmp_path / "nowhere")


GOOD_STATES = (
    "",
    "  # nothing\n",
    "model_checkpoint_path: 'a' 'b' \"c\"",
    "model_checkpoint_path:'a';all_model_checkpoint_paths:'x',all_model_checkpoint_paths:['y', \"z\"] # end",
    "all_model_checkpoint_paths: []",
    "all_model_checkpoint_timestamps: 1.5e+9 last_preserved_timestamp: -3 # old\nall_model_checkpoint_timestamps: [1, 2.5]",
    r"model_checkpoint_path: '\a\b\f\n\r\t\v\\\'\"\101\x41\303\274\u00fc'",
)
BAD_STATES = {
    "model_checkpoint_path: 5": "checkpoint:1:24: invalid CheckpointState: expected a string, got '5'",
    "model_checkpoint_path 'a'": "checkpoint:1:23: invalid CheckpointState: expected ':', got \"'a'\"",
    "\n nothing: 'a'": "checkpoint:2:2: invalid CheckpointState: expected one of model_checkpoint_path, "
    "all_model_checkpoint_paths, all_model_checkpoint_timestamps, last_preserved_timestamp, got 'nothing'",
    "model_checkpoint_path: 'a'\nmodel_checkpoint_path: 'b'": "checkpoint:2:1: invalid CheckpointState: "
    "duplicate model_checkpoint_path",
    "model_checkpoint_path: ['a']": "checkpoint:1:24: invalid CheckpointState: expected a string, got '['",
    "all_model_checkpoint_paths: ['a' 5": "checkpoint:1:34: invalid CheckpointState: expected ',' or ']', got '5'",
    "model_checkpoint_path: 'a": 'checkpoint:1:24: invalid CheckpointState: expected a string, got "\'"',
    "model_checkpoint_path: '\\377'": "checkpoint:1:24: invalid CheckpointState: a string is not UTF-8",
    "model_checkpoint_path:": "checkpoint:1:23: invalid CheckpointState: expected a string, got ''",
    "\0": "checkpoint:1:1: invalid CheckpointState: expected one of",
}


@pytest.mark.parametrize("text", GOOD_STATES)
def test_states_are_read_as_protobuf_reads_them(text: str) -> None:
    expected = parse_text("CheckpointState", text.encode())
    found = read_state(text.encode(), "checkpoint")
    assert found.get("model_checkpoint_path", ("",)) == (expected.model_checkpoint_path,)
    assert found.get("all_model_checkpoint_paths", ()) == tuple(expected.all_model_checkpoint_paths)
    numbers = found.get("all_model_checkpoint_timestamps", ())
    assert tuple(map(float, numbers)) == tuple(expected.all_model_checkpoint_timestamps)


@pytest.mark.parametrize("text", BAD_STATES)
def test_what_is_no_state_is_told_with_its_place(text: str) -> None:
    with pytest.raises(WireError):
        parse_text("CheckpointState", text.encode())
    with pytest.raises(GraphFileError) as caught:
        read_state(text.encode(), "checkpoint")
    assert str(caught.value).startswith(BAD_STATES[text])


def test_a_state_must_be_utf8() -> None:
    with pytest.raises(GraphFileError, match="checkpoint: invalid CheckpointState: 'utf-8' codec can't decode byte 0xff"):
        read_state(b"model_checkpoint_path: '\xff'", "checkpoint")


@given(st.text(), st.lists(st.text()))
def test_any_state_that_protobuf_writes_is_read(newest: str, paths: list[str]) -> None:
    state = message_class("CheckpointState")(model_checkpoint_path=newest, all_model_checkpoint_paths=paths)
    found = read_state(to_text(state).encode(), "checkpoint")
    assert found.get("model_checkpoint_path", ("",)) == (newest,)
    assert found.get("all_model_checkpoint_paths", ()) == tuple(paths)
