"""The frozen tower of a vision-language base: each picture goes through it once, without a graph, and its output stands where the picture's pads are.

Qwen2.5-VL and Qwen3-VL. The language model gets positions on three axes (time, row, column), and in Qwen3-VL further outputs of the tower, which its first
layers add to the pads' hidden states.
"""

from collections import OrderedDict
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Sequence

import numpy
import torch
from torch import nn

from failure import bad_input
from pictures import Pictures, PlacedPicture

SUPPORTED = {"qwen2_5_vl": "Qwen2.5-VL", "qwen3_vl": "Qwen3-VL"}
DEFAULT_CACHE_BYTES = 1 << 30


@dataclass(frozen=True)
class Seen:
    """The language model's input for a picture of `rows` x `columns` tokens, on the host. `layers` [1 + K, tokens, D]: the embeddings, then K further outputs."""

    layers: torch.Tensor
    rows: int
    columns: int

    @property
    def bytes(self) -> int:
        return self.layers.numel() * self.layers.element_size()


class Vision:
    """`pad`: the id that stands at each token of a picture. Keeps outputs of at most `cache_bytes`; the least recently used go first."""

    def __init__(self, tower: nn.Module, pad: int, pictures: Pictures) -> None:
        self.tower, self.pad, self.pictures = tower, pad, pictures
        self.cache_bytes = DEFAULT_CACHE_BYTES
        self.passes = 0
        self._kept: OrderedDict[str, Seen] = OrderedDict()
        self._held = 0

    def use(self, folder: str | None, cache_bytes: int | None) -> None:
        self.pictures.folder = folder
        if cache_bytes is not None:
            self.cache_bytes = cache_bytes

    def check(self, pictures: Sequence[PlacedPicture], ids: numpy.ndarray, offsets: numpy.ndarray) -> None:
        """Every picture lies in its sequence, behind the one before it, and has nothing but pads in its places."""
        end = 0
        for picture in pictures:
            inside = 0 <= picture.sequence < len(offsets) - 1
            if not inside or picture.length < 1 or picture.offset < max(end, offsets[picture.sequence]) or picture.offset + picture.length > offsets[picture.sequence + 1]:
                raise bad_input(f"The image {picture.sha256} must lie in one sequence and behind the image before it, got {picture.length} tokens from {picture.offset} in sequence {picture.sequence}")
            end = picture.offset + picture.length
            other = numpy.flatnonzero(ids[picture.offset : end] != self.pad)
            if len(other):
                raise bad_input(f"The image {picture.sha256} needs id {self.pad} at each of its tokens, got {ids[picture.offset + other[0]]} at {picture.offset + other[0]}; does the tokenizer belong to another model?")

    def see(self, pictures: Sequence[PlacedPicture]) -> list[Seen]:
        """In the same order. May run out of memory; afterwards the outputs that were made are kept."""
        return [self._seen(picture) for picture in pictures]

    def _seen(self, picture: PlacedPicture) -> Seen:
        kept = self._kept.get(picture.sha256)
        if kept is None:
            kept = self._look(picture)
            self._keep(picture.sha256, kept)
        elif kept.rows * kept.columns != picture.length:
            raise bad_input(f"The image {picture.sha256} has {kept.rows * kept.columns} tokens, but {picture.length} places were given to it")
        else:
            self._kept.move_to_end(picture.sha256)
        return kept

    def _look(self, picture: PlacedPicture) -> Seen:
        pixels = self.pictures.pixels(picture)
        weight = next(self.tower.parameters())
        with torch.no_grad():
            out = self.tower(pixels.values.to(weight), grid_thw=pixels.grid.to(weight.device))
        layers = torch.stack([out.pooler_output, *(getattr(out, "deepstack_features", None) or ())])
        self.passes += 1
        return Seen(layers.cpu(), pixels.rows, pixels.columns)

    def _keep(self, sha256: str, seen: Seen) -> None:
        self._kept[sha256] = seen
        self._held += seen.bytes
        while self._held > self.cache_bytes:
            self._held -= self._kept.popitem(last=False)[1].bytes

    def inputs(self, embed: nn.Module, ids: torch.Tensor, pictures: Sequence[PlacedPicture], seen: Sequence[Seen]) -> dict[str, torch.Tensor | list[torch.Tensor]]:
        """The language model's input in place of ids [N]."""
        if not pictures:
            return {"input_ids": ids[None]}
        places = torch.cat([torch.arange(picture.offset, picture.offset + picture.length) for picture in pictures]).to(ids.device)
        with torch.no_grad():
            embeddings = embed(ids)
            layers = torch.cat([one.layers for one in seen], dim=1).to(embeddings)
            embeddings.index_copy_(0, places, layers[0])
        given: dict[str, Any] = {"inputs_embeds": embeddings[None]}
        if len(layers) > 1:
            mask = torch.zeros(ids.shape, dtype=torch.bool, device=ids.device)
            mask[places] = True
            given |= {"visual_pos_masks": mask[None], "deepstack_visual_embeds": list(layers[1:])}
        return given


def positions(offsets: numpy.ndarray, pictures: Sequence[PlacedPicture], seen: Sequence[Seen]) -> numpy.ndarray:
    """[3, N] int64. Each sequence starts at 0. Text counts up on all three axes. A picture's tokens share the time and count rows and columns from there; what
    follows it continues after its longer side."""
    found = numpy.empty((3, int(offsets[-1])), numpy.int64)
    grids = {picture.offset: (picture.length, one.rows, one.columns) for picture, one in zip(pictures, seen)}
    starts = sorted({*(int(start) for start in offsets), *grids})
    begins = {int(start) for start in offsets}
    at, place = 0, 0
    for start in starts:
        found[:, place:start] = at + numpy.arange(start - place)
        at, place = at + start - place, start
        if start in begins:
            at = 0
        if start in grids:
            length, rows, columns = grids[start]
            found[0, start : start + length] = at
            found[1, start : start + length] = at + numpy.repeat(numpy.arange(rows), columns)
            found[2, start : start + length] = at + numpy.tile(numpy.arange(columns), rows)
            at, place = at + max(rows, columns), start + length
    return found


def tower_name(config: dict[str, Any]) -> str | None:
    """The name of the vision-language architecture of a config.json; None for a text-only base."""
    if not config.get("vision_config"):
        return None
    kind = str(config.get("model_type"))
    if kind not in SUPPORTED:
        raise bad_input(f"The base has a vision tower of architecture {kind}; {' and '.join(SUPPORTED.values())} are supported, and text-only bases")
    return SUPPORTED[kind]


def open_vision(model: nn.Module, folder: Path) -> Vision:
    settings = model.config.vision_config
    return Vision(model.get_submodule("model.visual"), model.config.image_token_id, Pictures(folder, settings.patch_size, settings.spatial_merge_size))
