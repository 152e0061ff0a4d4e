"""Compares logits of `vlm.py` with transformers' Qwen3-VL, pictures through its image processor and positions by its `get_rope_index`.

    python -m recipes.vlm.agreement DIR

Prints the largest differences; exits with 1 if they are above 1e-4, or positions or patches differ.
"""

import random

import numpy as np
import torch
from PIL import Image
from transformers import AutoImageProcessor, Qwen3VLForConditionalGeneration

from ..trunk.byte_pairs import load_tokenizer
from ..trunk.commands import command_parser
from .encoder import Encoder
from .episodes import episode
from .pages import TITLES, draw_page
from .pictures import crop_picture
from .texts import NEXT_REPLY, OBSERVATION_HEAD, PROMPT_HEAD
from .vlm import make_batch, patches, vlm_forward
from .vlm_files import load_vlm

AREAS = [(64, 0, 128, 64), (0, 0, 256, 64), (10, 20, 200, 90)]


def main():
    parser = command_parser(__doc__)
    parser.add_argument("model", help="model directory")
    directory = parser.parse_args().model
    config, tower, weights = load_vlm(directory)
    theirs = Qwen3VLForConditionalGeneration.from_pretrained(directory, dtype=torch.float32, attn_implementation="sdpa")
    processor = AutoImageProcessor.from_pretrained(directory)
    encoder, rng = Encoder(load_tokenizer(directory)), random.Random(5)
    worst = {"patches": 0.0, "positions": 0.0, "logits": 0.0}
    for case in range(4):
        page = draw_page(rng, rng.choice(TITLES))
        more = [part for area in AREAS[:case] for part in ((OBSERVATION_HEAD, 0), (crop_picture(page, area), 0), (NEXT_REPLY, 0))]
        ids, pictures, _ = encoder.sequence([(PROMPT_HEAD, 0), *episode(rng), *more])
        batch = make_batch([(ids, pictures)], encoder.image, encoder.pad, [0])
        with torch.no_grad():
            ours = vlm_forward(config, tower, weights, batch)
            given = processor([Image.fromarray(picture) for picture in pictures], return_tensors="pt") if pictures else {}
            kinds = {"mm_token_type_ids": (batch.ids == encoder.image).int()}
            other = theirs(input_ids=batch.ids, **given, **(kinds if pictures else {})).logits
            if pictures:
                own = torch.cat([patches(picture[None])[0] for picture in pictures])
                rope, _ = theirs.model.get_rope_index(batch.ids, **kinds, image_grid_thw=given["image_grid_thw"])
                worst["patches"] = max(worst["patches"], (own - given["pixel_values"]).abs().max().item())
                worst["positions"] = max(worst["positions"], (rope - batch.positions).abs().max().item())
        worst["logits"] = max(worst["logits"], (ours - other).abs().max().item())
    print({name: float(np.format_float_scientific(value, 2)) for name, value in worst.items()})
    if worst["positions"] > 0 or max(worst.values()) > 1e-4:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
