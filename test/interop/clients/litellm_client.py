"""litellm against `vf-serve policy`, through its providers for OpenAI's API and for vLLM: completions, chat, streamed chat, and an error as its own class.

argv: URL of the server, model, URL of the same model with a chat template.
"""
import importlib.metadata
import json
import os
import sys

# Its prices of models come from the network otherwise.
os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
import litellm

url, model, chat_url = sys.argv[1:4]
PROMPT = "Question: Who is the mayor of Kinzer?\n"
MESSAGES = [{"role": "user", "content": "Who is the mayor of Kinzer?"}]
GREEDY = {"temperature": 0, "max_tokens": 24, "api_key": "none", "num_retries": 0}


def chat(provider):
    answer = litellm.completion(model=f"{provider}/{model}", messages=MESSAGES, api_base=chat_url, **GREEDY)
    chunks = list(litellm.completion(model=f"{provider}/{model}", messages=MESSAGES, api_base=chat_url, stream=True, **GREEDY))
    return {
        "text": answer.choices[0].message.content,
        "finish": answer.choices[0].finish_reason,
        "tokens": answer.usage.completion_tokens,
        "streamed": "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices),
        "chunks": len(chunks),
    }


def error_name():
    try:
        litellm.completion(model="openai/another", messages=MESSAGES, api_base=chat_url, **GREEDY)
    except Exception as error:
        return type(error).__name__
    return None


completion = litellm.text_completion(model=f"text-completion-openai/{model}", prompt=PROMPT, api_base=url, logprobs=1, **GREEDY)
print(
    json.dumps(
        {
            "version": importlib.metadata.version("litellm"),
            "completion": completion.choices[0].text,
            "chats": {provider: chat(provider) for provider in ("openai", "hosted_vllm")},
            "unknown_model": error_name(),
        }
    )
)
