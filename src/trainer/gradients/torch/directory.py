"""Writes directories atomically: after a crash or on a full disk they are complete or absent."""

import hashlib
import os
import re
import shutil
from pathlib import Path
from typing import Any, Callable

from failure import Failure, bad_input


def write_directory(target: str, fill: Callable[[Path], None]) -> list[dict[str, Any]]:
    """Fills a temporary directory next to `target`, syncs it to disk and renames it. Returns name, bytes and sha256 of its files."""
    path = Path(target).absolute()
    if os.path.lexists(path):
        raise bad_input(f"{path} already exists; name a directory that does not")
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _remove_left_overs(path)
        temporary.mkdir()
        fill(temporary)
        files = [_describe(file) for file in sorted(temporary.iterdir())]
        _sync(temporary)
        # Fails on a non-empty directory; replaces an empty one that appeared meanwhile.
        os.rename(temporary, path)
        _sync(path.parent)
        return files
    except Failure:
        shutil.rmtree(temporary, ignore_errors=True)
        raise
    except BaseException as error:
        shutil.rmtree(temporary, ignore_errors=True)
        if isinstance(error, OSError) or type(error).__name__ == "SafetensorError":
            raise Failure("internal", f"Cannot write {path}: {' '.join(str(error).split())}; the partial directory was removed") from error
        raise


def _remove_left_overs(path: Path) -> None:
    """What killed processes left of this directory; a living process may still be writing. The names are those of files/temporary-names.ts."""
    try:
        found = list(path.parent.iterdir())
    except OSError:
        # Some directories may be written to and not listed.
        return
    for left in found:
        match = re.fullmatch(re.escape(f".{path.name}.") + r"(\d+)\.tmp", left.name)
        if match and (int(match[1]) == os.getpid() or not _is_alive(int(match[1]))):
            shutil.rmtree(left, ignore_errors=True)


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        pass
    return True


def _describe(file: Path) -> dict[str, Any]:
    digest = hashlib.sha256()
    with file.open("rb") as stream:
        os.fsync(stream.fileno())
        while block := stream.read(1 << 20):
            digest.update(block)
    return {"name": file.name, "bytes": file.stat().st_size, "sha256": digest.hexdigest()}


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
