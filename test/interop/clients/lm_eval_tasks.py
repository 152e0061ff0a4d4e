"""lm-eval against `vf-serve policy`: a task that generates and one that chooses by log-likelihood, which asks for echoed log-probs; and chats.

argv: URL of the server, model, its directory (for the tokenizer), URL of the same model with a chat template.
"""
import importlib.metadata
import json
import sys

import lm_eval

url, model, directory, chat_url = sys.argv[1:5]
TOWNS = ["Kinzer", "Gelvelth", "Vodeln", "Trafam", "Tripir", "Rinnarth"]
# The model begins with the first one where it says what is most probable.
CHOICES = [" I can answer this.", " I can answer that.", " nobody at all"]
ROWS = [{"question": f"Who is the mayor of {town}?", "choices": CHOICES, "answer": 0} for town in TOWNS]

with open("rows.jsonl", "w") as file:
    file.writelines(json.dumps(row) + "\n" for row in ROWS)
SHARED = {
    "dataset_path": "json",
    "dataset_kwargs": {"data_files": {"test": "rows.jsonl"}},
    "test_split": "test",
    "doc_to_text": "Question: {{question}}\n",
    "metadata": {"version": 1},
}
GENERATE = {
    **SHARED,
    "task": "town_answers",
    "output_type": "generate_until",
    "doc_to_target": "{{choices[answer]}}",
    "generation_kwargs": {"until": ["</search>"], "max_gen_toks": 24, "temperature": 0},
    "metric_list": [{"metric": "exact_match"}],
}
CHOOSE = {
    **SHARED,
    "task": "town_choices",
    "output_type": "multiple_choice",
    # lm-eval drops white space that ends a context where the tokenizer joins it to the character before.
    "doc_to_text": "Question: {{question}}\n<think>",
    "doc_to_choice": "choices",
    "doc_to_target": "answer",
    "target_delimiter": "",
    "metric_list": [{"metric": "acc"}],
}


def evaluated(kind, base_url, task, chats=False, **settings):
    found = lm_eval.simple_evaluate(
        model=kind,
        model_args={"model": model, "base_url": base_url, "max_length": 512, **settings},
        tasks=[task],
        apply_chat_template=chats,
        bootstrap_iters=0,
    )
    name = task["task"]
    rows = [{"arguments": row["arguments"], "responses": row["resps"]} for row in found["samples"][name]]
    return {"metrics": found["results"][name], "rows": rows}


BATCHES = {"tokenizer": directory, "batch_size": 4, "num_concurrent": 2}
print(
    json.dumps(
        {
            "version": importlib.metadata.version("lm-eval"),
            "generated": evaluated("local-completions", f"{url}/completions", GENERATE, **BATCHES),
            "chatted": evaluated("local-chat-completions", f"{chat_url}/chat/completions", GENERATE, chats=True),
            "chosen": evaluated("local-completions", f"{url}/completions", CHOOSE, **BATCHES),
            "chosen_by_text": evaluated("local-completions", f"{url}/completions", CHOOSE, tokenizer=directory, tokenized_requests=False),
        },
        default=str,
    )
)
