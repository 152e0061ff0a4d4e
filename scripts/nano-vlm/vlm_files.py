"""Writes and reads the model's directory as Qwen3-VL: config, weights, image processor."""

import json
import pathlib
import re

import nano_scripts  # noqa: F401
from model import NanoConfig, hugging_face_config
from safetensors.torch import load_file, save_file

from texts import IMAGE_PAD, VIDEO_PAD, VISION_END, VISION_START
from vlm import CHANNELS, FRAMES, MERGE, PATCH, SECTIONS, UNIT, TowerConfig

# Pixels of the smallest and the largest picture that is not resized.
PROCESSED_PIXELS = {"shortest_edge": UNIT**2, "longest_edge": 1024 * UNIT**2}


def full_name(name):
    """`model.layers.0...` and `visual.merger...` to Qwen3-VL's names."""
    return f"model.{name}" if name.startswith("visual.") else re.sub("^model\\.", "model.language_model.", name)


def short_name(name):
    return name.removeprefix("model.") if name.startswith("model.visual.") else name.replace("model.language_model.", "model.", 1)


def configuration(config, tower, tokenizer):
    end_of_turn, pad = tokenizer.token_to_id("<|im_end|>"), tokenizer.token_to_id("<|endoftext|>")
    left_out = ("architectures", "rope_theta", "use_sliding_window", "sliding_window", "max_window_layers", "torch_dtype")
    text = {key: value for key, value in hugging_face_config(config, end_of_turn, pad).items() if key not in left_out}
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
    """The tokenizer's files are vlm_tokenizer.py's."""
    end_of_turn, pad = tokenizer.token_to_id("<|im_end|>"), tokenizer.token_to_id("<|endoftext|>")
    files = {
        "config": configuration(config, tower, tokenizer),
        "generation_config": {"eos_token_id": end_of_turn, "pad_token_id": pad, "do_sample": True, "temperature": 1.0},
        "preprocessor_config": processor("image"),
        "video_preprocessor_config": processor("video"),
    }
    for name, content in files.items():
        (directory / f"{name}.json").write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
    tensors = {full_name(name): tensor.detach().contiguous() for name, tensor in weights.items()}
    save_file(tensors, directory / "model.safetensors", metadata={"format": "pt"})


def load_vlm(directory):
    """(NanoConfig, TowerConfig, weights)."""
    directory = pathlib.Path(directory)
    read = json.loads((directory / "config.json").read_text(encoding="utf-8"))
    text, vision = read["text_config"], read["vision_config"]
    config = NanoConfig(
        vocabulary=text["vocab_size"],
        hidden=text["hidden_size"],
        layers=text["num_hidden_layers"],
        heads=text["num_attention_heads"],
        kv_heads=text["num_key_value_heads"],
        head_dim=text["head_dim"],
        feed_forward=text["intermediate_size"],
        rope_theta=text["rope_parameters"]["rope_theta"],
        norm_eps=text["rms_norm_eps"],
        context=text["max_position_embeddings"],
    )
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
