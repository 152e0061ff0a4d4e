"""
Frames of fields: a length of four bytes, then the fields, each after its own length. Little-endian, UTF-8. Jobs come over standard input. A reply goes
over the descriptor that the starter names: in one write, so that a host can tell it from what a program prints there.
"""

import posix
import sys

JOBS = 0
REPLIES = int(sys.replies)


def receive():
    """The fields of the next message as bytes; None when no further one comes."""
    head = _exactly(4)
    return None if head is None else _fields(_exactly(int.from_bytes(head, 'little')))


def send(fields):
    body = b''.join(len(field).to_bytes(4, 'little') + field for field in map(_bytes, fields))
    message = len(body).to_bytes(4, 'little') + body
    while message:
        message = message[posix.write(REPLIES, message) :]


def _bytes(field):
    return field if isinstance(field, bytes) else field.encode('utf-8', 'backslashreplace')


def _exactly(size):
    data = b''
    while len(data) < size:
        more = posix.read(JOBS, size - len(data))
        if not more:
            return None
        data += more
    return data


def _fields(body):
    fields, at = [], 0
    while at < len(body):
        end = at + 4 + int.from_bytes(body[at : at + 4], 'little')
        fields.append(body[at + 4 : end])
        at = end
    return fields
