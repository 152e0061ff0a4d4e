"""Pictures of a run: reads `<sha256>.<png|jpg|webp>` from the run's folder, checks the digest, and gives the pixels as the model's image processor makes them.

Nothing outside the folder is opened, no link is followed, and a picture's size is known before its pixels are decoded. Nobody may resize a picture here:
the policy server has counted its tokens, and another size would be another picture.
"""

import hashlib
import io
import json
import os
import re
import stat
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from failure import bad_input

EXTENSIONS = ("png", "jpg", "webp")
FORMATS = ("PNG", "JPEG", "WEBP")
# A larger file is not a picture that a model could be shown.
MAX_BYTES = 1 << 28
PROCESSOR = "preprocessor_config.json"


@dataclass(frozen=True)
class PlacedPicture:
    """A picture in a packed batch. `offset`: index in the batch's ids of its first token; `length`: number of its tokens."""

    sequence: int
    sha256: str
    offset: int
    length: int


@dataclass(frozen=True)
class Pixels:
    """`values` [patches, numbers of a patch]; the picture has `rows` x `columns` tokens, `grid` [1, 3] counts patches."""

    values: torch.Tensor
    grid: torch.Tensor
    rows: int
    columns: int


def placed_pictures(listed: Any) -> tuple[PlacedPicture, ...]:
    """Of a call's header."""
    try:
        found = tuple(PlacedPicture(**entry) for entry in listed or ())
    except TypeError as error:
        raise bad_input(f"An image of a batch has sequence, sha256, offset and length, got {json.dumps(listed)[:200]}") from error
    for picture in found:
        if not re.fullmatch(r"[0-9a-f]{64}", str(picture.sha256)):
            raise bad_input(f"An image is named by the 64 hex digits of its SHA-256, got {str(picture.sha256)[:80]!r}")
        if not all(type(number) is int for number in (picture.sequence, picture.offset, picture.length)):
            raise bad_input(f"The image {picture.sha256} needs whole numbers as sequence, offset and length")
    return found


class Pictures:
    """`folder`: the run's folder of images, None before it is known. `unit`: side of a token's square in pixels."""

    def __init__(self, model_folder: Path, patch: int, merge: int) -> None:
        self.folder: str | None = None
        self.unit = patch * merge
        self.processor = _open_processor(model_folder, patch, merge)

    def pixels(self, picture: PlacedPicture) -> Pixels:
        """Raises bad_input if the file is missing, was changed, cannot be decoded, or has another number of tokens than `length`."""
        from PIL import Image

        name, data = self._read(picture.sha256)
        try:
            # A decoder looks at nothing but the size until the pixels are asked for.
            image = Image.open(io.BytesIO(data), formats=FORMATS)
        except Exception as error:
            raise bad_input(f"{name} is not a PNG, JPEG or WebP picture: {_line(error)}") from error
        width, height = image.size
        if width % self.unit or height % self.unit or width * height != picture.length * self.unit**2:
            raise bad_input(
                f"{name} has {width} x {height} pixels, but {picture.length} places were given to it, each for {self.unit} x {self.unit} pixels; "
                "give the pixels that the server has counted, with sides that are multiples of the unit"
            )
        try:
            image.load()
            shown = as_shown(image)
        except Exception as error:
            raise bad_input(f"{name} cannot be decoded: {_line(error)}") from error
        made = self.processor(images=[shown], do_resize=False, return_tensors="pt")
        return Pixels(made["pixel_values"], made["image_grid_thw"], shown.height // self.unit, shown.width // self.unit)

    def _read(self, sha256: str) -> tuple[str, bytes]:
        """The path, for messages, and the bytes."""
        if self.folder is None:
            raise bad_input("The batch holds images, but the worker was started without the run's folder of images")
        for extension in EXTENSIONS:
            path = os.path.join(self.folder, f"{sha256}.{extension}")
            try:
                descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
            except FileNotFoundError:
                continue
            except OSError as error:
                raise bad_input(f"The image {path} cannot be read: {error.strerror}; a run's images are regular files") from error
            try:
                return path, _checked(path, sha256, descriptor)
            finally:
                os.close(descriptor)
        names = ", ".join(EXTENSIONS)
        raise bad_input(f"The image {sha256} is missing: no file of that name ({names}) in {self.folder}; restore the run's folder of images")


def _checked(path: str, sha256: str, descriptor: int) -> bytes:
    # `open` raises for a folder, so the kind is checked first.
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode) or status.st_size > MAX_BYTES:
        raise bad_input(f"The image {path} is not a regular file of at most {MAX_BYTES} bytes; restore the run's folder of images")
    with open(descriptor, "rb", closefd=False) as stream:
        data = stream.read(MAX_BYTES + 1)
    if hashlib.sha256(data).hexdigest() != sha256:
        raise bad_input(f"The image {path} was changed: its bytes have another SHA-256 than its name says; restore it, or start another run")
    return data


def as_shown(image: Any) -> Any:
    """As vLLM shows it: turned as its orientation tag says, in three colours, what is transparent in white."""
    from PIL import Image, ImageOps

    # A broken tag turns nothing.
    with suppress(Exception):
        image = ImageOps.exif_transpose(image)
    if image.mode == "RGB":
        return image
    if image.mode not in ("RGBA", "LA", "PA") and "transparency" not in image.info:
        return image.convert("RGB")
    whole = image.convert("RGBA")
    white = Image.new("RGB", whole.size, (255, 255, 255))
    white.paste(whole, mask=whole.getchannel("A"))
    return white


def _open_processor(folder: Path, patch: int, merge: int) -> Any:
    from transformers import AutoImageProcessor

    if not (folder / PROCESSOR).is_file():
        raise bad_input(f"No {PROCESSOR} in {folder}, which says how the model sees pictures; copy it from the model's original directory")
    try:
        # Needs no torchvision, and gives what vLLM's gives to the last bits of float32.
        processor = AutoImageProcessor.from_pretrained(str(folder), backend="pil", trust_remote_code=False, local_files_only=True)
        own = (processor.patch_size, processor.merge_size)
    except ImportError:
        raise
    except Exception as error:
        raise bad_input(f"transformers cannot load the image processor of {folder}: {_line(error)}") from error
    if own != (patch, merge):
        raise bad_input(f"{folder / PROCESSOR} has patches of {own[0]} pixels merged by {own[1]}, but the model has {patch} and {merge}; copy both files from one model")
    return processor


def _line(error: BaseException) -> str:
    return " ".join(str(error).split())[:300]
