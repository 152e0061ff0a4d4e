"""Frames on a byte stream: the worker's half of frames.ts. Only this module knows the byte format.

A frame: the magic `VFG1`, the lengths of header and payload as little-endian u32, the header as JSON in UTF-8, the payload. The header's
`arrays` lists the payload's arrays, in order and without gaps: `{"name", "dtype", "length"}`, dtype `i32` or `f32`, little-endian.
"""

from __future__ import annotations

import json
import struct
from typing import TYPE_CHECKING, Any, BinaryIO

if TYPE_CHECKING:
    import numpy

MAGIC = b"VFG1"
PRELUDE = struct.Struct("<4sII")
MAX_HEADER_BYTES = 1 << 24
MAX_PAYLOAD_BYTES = 1 << 30
ITEM_BYTES = 4
DTYPES = {"i32": "<i4", "f32": "<f4"}

Arrays = dict[str, "numpy.ndarray"]


class FrameError(Exception):
    """The bytes are not a frame: nothing after them can be trusted."""


def read_frame(stream: BinaryIO) -> tuple[dict[str, Any], Arrays] | None:
    """Returns the next header and its arrays, each 1-D; None if the stream ends between two frames."""
    prelude = stream.read(PRELUDE.size)
    if not prelude:
        return None
    if len(prelude) < PRELUDE.size:
        raise FrameError("The stream ended inside a frame's prelude")
    magic, header_bytes, payload_bytes = PRELUDE.unpack(prelude)
    if magic != MAGIC:
        raise FrameError(f"Expected a frame that starts with {MAGIC!r}, got {prelude!r}")
    if header_bytes > MAX_HEADER_BYTES or payload_bytes > MAX_PAYLOAD_BYTES:
        raise FrameError(f"Frame too large: header of {header_bytes} bytes, payload of {payload_bytes} bytes")
    header = json.loads(_read_exactly(stream, header_bytes))
    payload = _read_exactly(stream, payload_bytes)
    return header, _split(header.get("arrays", []), payload)


def write_frame(stream: BinaryIO, header: dict[str, Any], arrays: Arrays) -> None:
    """Writes one frame and flushes. Arrays are 1-D, int32 or float32."""
    listed, parts = [], []
    for name, array in arrays.items():
        dtype = "i32" if array.dtype.kind == "i" else "f32"
        parts.append(array.astype(DTYPES[dtype], copy=False).tobytes())
        listed.append({"name": name, "dtype": dtype, "length": int(array.size)})
    payload = b"".join(parts)
    # JSON has no infinity and no NaN: a caller that may have one sends a string.
    text = json.dumps({**header, "arrays": listed}, allow_nan=False).encode()
    stream.write(PRELUDE.pack(MAGIC, len(text), len(payload)) + text + payload)
    stream.flush()


def _read_exactly(stream: BinaryIO, count: int) -> bytes:
    data = stream.read(count)
    if len(data) < count:
        raise FrameError(f"The stream ended inside a frame, {len(data)} bytes into {count}")
    return data


def _split(listed: list[dict[str, Any]], payload: bytes) -> Arrays:
    arrays: Arrays = {}
    at = 0
    if listed:
        # Imported here, so that the first call can report that numpy is missing.
        import numpy
    for entry in listed:
        end = at + ITEM_BYTES * entry["length"]
        if end > len(payload):
            raise FrameError(f"Array {entry['name']} ends at byte {end} of a payload of {len(payload)} bytes")
        # A copy, because torch needs writable memory.
        arrays[entry["name"]] = numpy.frombuffer(payload[at:end], DTYPES[entry["dtype"]]).copy()
        at = end
    if at != len(payload):
        raise FrameError(f"The arrays take {at} of the payload's {len(payload)} bytes")
    return arrays
