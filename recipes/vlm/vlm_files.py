"""Writes and reads the model's directory as Qwen3-VL: config, weights, image processor."""

import json
import pathlib
import re

from safetensors.torch import load_file

from ..trunk.model import hugging_face_config, read_config, save_files, stop_ids
from .texts import IMAGE_PAD, VIDEO_PAD, VISION_END, VISION_START
from .vlm import CHANNELS, FRAMES, MERGE, PATCH, SECTIONS, UNIT, TowerConfig

# Pixels of the smallest and the largest picture that is not resized.
PROCESSED_PIXELS = {"shortest_edge": UNIT**2, "longest_edge": 1024 * UNIT**2}


def full_name(name):
    """`model.layers.0...` and `visual.merger...` to Qwen3-VL's names."""
    return f"model.{name}" if name.startswith("visual.") else re.sub("^model\\.", "model.language_model.", name)


def short_name(name):
    return name.removeprefix("model.") if name.startswith("model.visual.") else name.replace("model.language_model.", "model.", 1)


def configuration(config, tower, tokenizer):
    left_out = ("architectures", "rope_theta", "use_sliding_window", "sliding_window", "max_window_layers", "torch_dtype")
    text = {key: value for key, value in hugging_face_config(config, *stop_ids(tokenizer)).items() if key not in left_out}
    rope = {"rope_type": "default", "mrope_section": list(SECTIONS), "mrope_interleaved": True, "rope_theta": config.rope_theta}
    return {
        "architectures": ["Qwen3VLForConditionalGeneration"],
        "model_type": "qwen3_vl",
        "image_token_id": tokenizer.token_to_id(IMAGE_PAD),
        "video_token_id": tokenizer.token_to_id(VIDEO_PAD),
        "vision_start_token_id": tokenizer.token_to_id(VISION_START),
        "vision_end_token_id": tokenizer.token_to_id(VISION_END),
        "tie_word_embeddings": True,
        "dtype": "float32",
        "text_config": text | {"model_type": "qwen3_vl_text", "rope_parameters": rope},
        "vision_config": {
            "model_type": "qwen3_vl",
            "depth": tower.depth,
            "hidden_size": tower.hidden,
            "hidden_act": "gelu_pytorch_tanh",
            "intermediate_size": tower.feed_forward,
            "num_heads": tower.heads,
            "in_channels": CHANNELS,
            "patch_size": PATCH,
            "spatial_merge_size": MERGE,
            "temporal_patch_size": FRAMES,
            "out_hidden_size": tower.out,
            "num_position_embeddings": tower.positions**2,
            "deepstack_visual_indexes": list(tower.deep),
            "initializer_range": 0.02,
        },
    }


def processor(kind):
    mean = [0.5, 0.5, 0.5]
    shape = {"patch_size": PATCH, "temporal_patch_size": FRAMES, "merge_size": MERGE, "size": PROCESSED_PIXELS, "image_mean": mean, "image_std": mean}
    if kind == "video":
        return {"video_processor_type": "Qwen3VLVideoProcessor", "processor_class": "Qwen3VLProcessor", **shape}
    steps = {"do_resize": True, "do_rescale": True, "do_normalize": True, "do_convert_rgb": True}
    return {"image_processor_type": "Qwen2VLImageProcessorFast", "processor_class": "Qwen3VLProcessor", **shape, **steps}


def save_vlm(config, tower, weights, tokenizer, directory):
    configs = {
        "config": configuration(config, tower, tokenizer),
        "preprocessor_config": processor("image"),
        "video_preprocessor_config": processor("video"),
    }
    save_files(tokenizer, configs, {full_name(name): tensor for name, tensor in weights.items()}, directory)


def load_vlm(directory):
    """(NanoConfig, TowerConfig, weights)."""
    directory = pathlib.Path(directory)
    read = json.loads((directory / "config.json").read_text(encoding="utf-8"))
    text, vision = read["text_config"], read["vision_config"]
    config = read_config(text, text["rope_parameters"]["rope_theta"])
    tower = TowerConfig(
        hidden=vision["hidden_size"],
        depth=vision["depth"],
        heads=vision["num_heads"],
        feed_forward=vision["intermediate_size"],
        positions=round(vision["num_position_embeddings"] ** 0.5),
        out=vision["out_hidden_size"],
        deep=tuple(vision["deepstack_visual_indexes"]),
    )
    return config, tower, {short_name(name): tensor for name, tensor in load_file(directory / "model.safetensors").items()}
