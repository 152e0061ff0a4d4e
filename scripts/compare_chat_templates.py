"""Renders chat templates over the conversations of test/golden/producers/chat_templates.py with transformers, for scripts/compare-chat-templates.ts.

python scripts/compare_chat_templates.py FOLDER (any Python with transformers 5); writes one JSON object a line to stdout
"""

import hashlib
import json
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "test/golden/producers"))
from chat_templates import CONVERSATIONS, rendered_text  # noqa: E402

for path in sorted(pathlib.Path(sys.argv[1]).glob("*.jinja")):
    source = path.read_text(encoding="utf8")
    for name, conversation in CONVERSATIONS.items():
        for prompt in (False, True):
            outcome = rendered_text(source, conversation, prompt, bos_token="<s>", eos_token="</s>")
            sys.stdout.write(json.dumps({"file": path.name, "sha256": hashlib.sha256(source.encode()).hexdigest(), "conversation": name, "add_generation_prompt": prompt, **outcome}) + "\n")
