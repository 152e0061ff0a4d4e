"""The openai package against `vf-serve policy`: completions by text and by ids, chat, both streamed, and an error as its own class.

argv: URL of the server, model, URL of the same model with a chat template.
"""
import asyncio
import importlib.metadata
import json
import sys

import openai

url, model, chat_url = sys.argv[1:4]
PROMPT = "Question: Who is the mayor of Kinzer?\n"
MESSAGES = [{"role": "user", "content": "Who is the mayor of Kinzer?"}]
GREEDY = {"model": model, "temperature": 0, "max_tokens": 24}


def completion_of(client):
    by_text = client.completions.create(prompt=PROMPT, logprobs=2, extra_body={"return_token_ids": True}, **GREEDY)
    choice = by_text.choices[0]
    by_ids = client.completions.create(prompt=choice.prompt_token_ids, logprobs=2, extra_body={"return_token_ids": True}, **GREEDY)
    batch = client.completions.create(prompt=[choice.prompt_token_ids, choice.prompt_token_ids[:5]], **GREEDY)
    sampled = client.completions.create(prompt=PROMPT, model=model, n=3, temperature=1, seed=1, max_tokens=24)
    chunks = list(client.completions.create(prompt=choice.prompt_token_ids, stream=True, stream_options={"include_usage": True}, **GREEDY))
    return {
        "text": choice.text,
        "text_by_ids": by_ids.choices[0].text,
        "prompt_ids": choice.prompt_token_ids,
        "prompt_ids_by_ids": by_ids.choices[0].prompt_token_ids,
        "ids": choice.token_ids,
        "log_probs": choice.logprobs.token_logprobs,
        "top": [len(each) for each in choice.logprobs.top_logprobs],
        "finish": choice.finish_reason,
        "usage": by_text.usage.model_dump(),
        "batch": [(each.index, each.text) for each in batch.choices],
        "sampled": [each.index for each in sampled.choices],
        "streamed": "".join(chunk.choices[0].text for chunk in chunks if chunk.choices),
        "chunks": len(chunks),
        "streamed_usage": chunks[-1].usage.model_dump(),
    }


def chat_of(client):
    answer = client.chat.completions.create(messages=MESSAGES, logprobs=True, top_logprobs=2, **GREEDY)
    chunks = list(client.chat.completions.create(messages=MESSAGES, stream=True, stream_options={"include_usage": True}, **GREEDY))
    with client.chat.completions.stream(messages=MESSAGES, **GREEDY) as stream:
        for _ in stream:
            pass
        final = stream.current_completion_snapshot
    return {
        "text": answer.choices[0].message.content,
        "role": answer.choices[0].message.role,
        "finish": answer.choices[0].finish_reason,
        "usage": answer.usage.model_dump(),
        "log_probs": [each.logprob for each in answer.choices[0].logprobs.content],
        "streamed": "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices),
        "chunks": len(chunks),
        "streamed_usage": chunks[-1].usage.model_dump(),
        "accumulated": final.choices[0].message.content,
    }


async def concurrently():
    async with openai.AsyncOpenAI(base_url=url, api_key="none", max_retries=0) as client:
        answers = await asyncio.gather(*(client.completions.create(prompt=PROMPT, **GREEDY) for _ in range(16)))
    return sorted({answer.choices[0].text for answer in answers})


def error_of(call):
    try:
        call()
    except openai.APIStatusError as error:
        return [type(error).__name__, error.status_code, error.message]
    return None


client = openai.OpenAI(base_url=url, api_key="none", max_retries=0)
chats = openai.OpenAI(base_url=chat_url, api_key="none", max_retries=0)
print(
    json.dumps(
        {
            "version": importlib.metadata.version("openai"),
            "models": [each.id for each in client.models.list()],
            "completion": completion_of(client),
            "concurrent": asyncio.run(concurrently()),
            "chat": chat_of(chats),
            "unknown_model": error_of(lambda: client.completions.create(prompt=PROMPT, model="another")),
            "too_long": error_of(lambda: client.completions.create(prompt=[1] * 100_000, **GREEDY)),
        }
    )
)
