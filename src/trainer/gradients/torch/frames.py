"""Frames on a byte stream, the worker's half of frames.ts; nothing else here knows the bytes.

A frame: the magic `VFG1`, the header's length and the payload's as little-endian u32, the header as JSON in UTF-8, the payload. The header's
`arrays` lists what the payload holds, in order and without gaps: `{"name", "dtype", "length"}`, dtype `i32` or `f32`, little-endian.
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
    """The bytes are not a frame: the stream cannot be trusted from here on."""


def read_frame(stream: BinaryIO) -> tuple[dict[str, Any], Arrays] | None:
    """The next header and its arrays, each 1-D; None where the stream ends between two frames."""
    prelude = stream.read(PRELUDE.size)
    if not prelude:
        return None
    if len(prelude) < PRELUDE.size:
        raise FrameError("Expected a whole frame, the stream ended inside its prelude")
    magic, header_bytes, payload_bytes = PRELUDE.unpack(prelude)
    if magic != MAGIC:
        raise FrameError(f"Expected a frame that starts with {MAGIC!r}, got {prelude!r}")
    if header_bytes > MAX_HEADER_BYTES or payload_bytes > MAX_PAYLOAD_BYTES:
        raise FrameError(f"Expected a frame within bounds, got a header of {header_bytes} and a payload of {payload_bytes} bytes")
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
    # Infinity and NaN are no JSON: whoever may have one sends text.
    text = json.dumps({**header, "arrays": listed}, allow_nan=False).encode()
    stream.write(PRELUDE.pack(MAGIC, len(text), len(payload)) + text + payload)
    stream.flush()


def _read_exactly(stream: BinaryIO, count: int) -> bytes:
    data = stream.read(count)
    if len(data) < count:
        raise FrameError(f"Expected {count} more bytes of a frame, the stream ended after {len(data)}")
    return data


def _split(listed: list[dict[str, Any]], payload: bytes) -> Arrays:
    arrays: Arrays = {}
    at = 0
    if listed:
        # Only here: where numpy is missing the first call must still be answered, to say so.
        import numpy
    for entry in listed:
        end = at + ITEM_BYTES * entry["length"]
        if end > len(payload):
            raise FrameError(f"Expected {entry['name']} within a payload of {len(payload)} bytes, it ends at {end}")
        # A copy: torch wants memory that it may write to.
        arrays[entry["name"]] = numpy.frombuffer(payload[at:end], DTYPES[entry["dtype"]]).copy()
        at = end
    if at != len(payload):
        raise FrameError(f"Expected arrays of {len(payload)} bytes together, they take {at}")
    return arrays
