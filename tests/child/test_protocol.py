"""Frames: whole, or nothing."""

from __future__ import annotations

import io
import os

import pytest

from screen.child import protocol
from screen.child.protocol import ProtocolError, Request, frame, graph_frame, pack, read_frame
from screen.child.worker import Channel


def test_frames_come_out_as_they_went_in() -> None:
    stream = io.BytesIO(frame("progress", phase="load") + graph_frame(b'{"a":[1]}') + frame("done"))
    assert read_frame(stream.read) == {"kind": "progress", "phase": "load"}
    assert read_frame(stream.read) == {"kind": "graph", "graph": {"a": [1]}}
    assert read_frame(stream.read) == {"kind": "done"}
    assert read_frame(stream.read) is None


@pytest.mark.parametrize("cut", [0, 1, 3, 4, 5, 20])
def test_a_frame_that_was_cut_is_the_end(cut: int) -> None:
    assert read_frame(io.BytesIO(frame("progress", phase="load")[:cut]).read) is None


def test_frames_survive_a_pipe_that_gives_one_byte_at_a_time() -> None:
    stream = io.BytesIO(frame("progress", phase="load"))
    assert read_frame(lambda size: stream.read(min(size, 1))) == {"kind": "progress", "phase": "load"}


@pytest.mark.parametrize("body", [b"not JSON", b"[]", b"{}", b'{"kind":1}', b"\xff\xfe"])
def test_anything_else_is_an_error(body: bytes) -> None:
    with pytest.raises(ProtocolError):
        read_frame(io.BytesIO(pack(body)).read)


def test_a_length_that_no_frame_has_is_an_error_and_not_an_allocation() -> None:
    with pytest.raises(ProtocolError):
        read_frame(io.BytesIO(b"\xff\xff\xff\xff").read)


def test_a_request_crosses_as_it_is() -> None:
    request = Request("hf:gpt2", {"n_layer": 2}, ("x=float32[1]",), 3, 1.5, 1 << 30)
    assert Request.from_json(request.to_json()) == request


def test_frames_of_unserialisable_fields_are_text() -> None:
    message = read_frame(io.BytesIO(frame("target", info={"a": object})).read)
    assert message is not None and "object" in message["info"]["a"]


def test_what_is_not_our_pipe_any_more_is_never_written_to(tmp_path: object, monkeypatch: pytest.MonkeyPatch) -> None:
    reading, writing = os.pipe()
    monkeypatch.setattr(os, "_exit", lambda code: (_ for _ in ()).throw(SystemExit(99)))
    channel = Channel(writing)
    channel.send(frame("done"))
    stolen = os.path.join(str(tmp_path), "stolen")
    other = os.open(stolen, os.O_WRONLY | os.O_CREAT)
    os.dup2(other, channel._fd)
    with pytest.raises(SystemExit):
        channel.send(frame("done"))
    assert os.path.getsize(stolen) == 0
    for fd in (reading, other, channel._fd):
        os.close(fd)


def test_limits_have_the_defaults_of_the_contract() -> None:
    assert protocol.DEFAULT_TIMEOUT == 120 and protocol.DEFAULT_MEMORY == 8 * 2**30
