"""Directories that are there whole or not at all, through crashes and full disks."""

import hashlib
import os
import shutil
from pathlib import Path
from typing import Any, Callable

from failure import Failure, bad_input


def write_directory(target: str, fill: Callable[[Path], None]) -> list[dict[str, Any]]:
    """Fills a temporary directory beside `target`, makes it durable and renames it. Gives name, bytes and sha256 of its files."""
    path = Path(target).absolute()
    if os.path.lexists(path):
        raise bad_input(f"Expected a directory that does not exist yet, {path} does; name another")
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(temporary, ignore_errors=True)
        temporary.mkdir()
        fill(temporary)
        files = [_describe(file) for file in sorted(temporary.iterdir())]
        _sync(temporary)
        # Refuses a directory that holds something; an empty one that came up meanwhile is replaced.
        os.rename(temporary, path)
        _sync(path.parent)
        return files
    except Failure:
        shutil.rmtree(temporary, ignore_errors=True)
        raise
    except BaseException as error:
        shutil.rmtree(temporary, ignore_errors=True)
        if isinstance(error, OSError) or type(error).__name__ == "SafetensorError":
            raise Failure("internal", f"Expected to write {path}: {' '.join(str(error).split())}; nothing was left behind") from error
        raise


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
