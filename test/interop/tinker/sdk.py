"""Every call of the Tinker SDK that trains or samples, against a server: sdk.py URL MODEL. Runs with SDK 0.38 (protobuf) and 0.24.1 (JSON). Prints what it found as JSON."""

import json
import os
import sys
import tempfile
import urllib.request

os.environ["TINKER_TELEMETRY"] = "0"

import tinker
from tinker import types

URL, MODEL = sys.argv[1:3]
TOKENS = [1588, 1587, 33, 44, 55, 66, 77, 88, 99, 100]
found: dict[str, object] = {"version": tinker.__version__}


def made(client):
    """Since 0.30 the SDK gives futures of clients."""
    return client.result() if hasattr(client, "result") else client


def datum(tokens: list[int], **inputs: list[float]) -> types.Datum:
    return types.Datum(model_input=types.ModelInput.from_ints(tokens[:-1]), loss_fn_inputs={"target_tokens": tokens[1:], **inputs})


def taught(tokens: list[int]) -> types.Datum:
    return datum(tokens, weights=[1.0] * (len(tokens) - 1))


def flat(output: types.ForwardBackwardOutput) -> list[float]:
    return [float(x) for each in output.loss_fn_outputs for x in each["logprobs"].tolist()]


def largest(a: list[float], b: list[float]) -> float:
    assert len(a) == len(b), (len(a), len(b))
    return max(abs(x - y) for x, y in zip(a, b))


def step(client: tinker.TrainingClient, data: list[types.Datum], rate: float = 3e-3) -> types.ForwardBackwardOutput:
    # Both are sent before either is awaited.
    passed = client.forward_backward(data, "cross_entropy")
    stepped = client.optim_step(types.AdamParams(learning_rate=rate))
    stepped.result()
    return passed.result()


def log_probs(client: tinker.TrainingClient, data: list[types.Datum]) -> list[float]:
    return flat(client.forward(data, "cross_entropy").result())


service = tinker.ServiceClient(base_url=URL)
found["models"] = [each.model_name for each in service.get_server_capabilities().supported_models]
client = made(service.create_lora_training_client(base_model=MODEL, rank=8, seed=7, train_unembed=False))
info = client.get_info()
found["info"] = [info.model_data.model_name, info.is_lora, info.lora_rank]

data = [taught(TOKENS), taught(TOKENS[:5])]
untrained = log_probs(client, data)
found["losses"] = [step(client, data).metrics["loss:sum"] for _ in range(6)]
trained = log_probs(client, data)
found["learned"] = [sum(untrained), sum(trained)]

# The state comes back to the bit, and so does the step after it.
saved = client.save_state("kept").result().path
first = [flat(step(client, data)), log_probs(client, data)]
client.load_state_with_optimizer(saved).result()
found["back"] = largest(log_probs(client, data), trained)
found["again"] = max(largest(a, b) for a, b in zip([flat(step(client, data)), log_probs(client, data)], first))
other = made(service.create_training_client_from_state_with_optimizer(saved))
found["elsewhere"] = largest(log_probs(other, data), trained)
step(other, data)
found["continued"] = largest(log_probs(other, data), first[1])
# Two models at a time, and one does not move the other.
found["apart"] = largest(log_probs(client, data), first[1])

# A sampler of the trained weights, and of the base.
sampler = made(client.save_weights_and_get_sampling_client())
prompt = types.ModelInput.from_ints(TOKENS)
scored = sampler.compute_logprobs(prompt).result()
found["scored"] = [scored[0], largest(scored[1:], log_probs(client, [taught(TOKENS)]))]
base = made(service.create_sampling_client(base_model=MODEL))
found["base"] = largest(base.compute_logprobs(prompt).result()[1:], untrained[: len(TOKENS) - 1])

start = types.ModelInput.from_ints(TOKENS[:4])
params = types.SamplingParams(max_tokens=12, temperature=1.0, seed=3)
sampled = sampler.sample(prompt=start, num_samples=3, sampling_params=params).result().sequences
again = sampler.sample(prompt=start, num_samples=3, sampling_params=params).result().sequences
found["repeats"] = [each.tokens for each in sampled] == [each.tokens for each in again]
found["differ"] = len({tuple(each.tokens) for each in sampled})
one = sampled[0]
whole = taught(TOKENS[:4] + list(one.tokens))
found["sampled"] = largest([float(x) for x in one.logprobs], log_probs(client, [whole])[3:])
# Log-probs are the model's own at any temperature.
hot = sampler.sample(prompt=start, num_samples=1, sampling_params=types.SamplingParams(max_tokens=8, temperature=0.7, seed=5)).result().sequences[0]
found["hot"] = largest([float(x) for x in hot.logprobs], log_probs(client, [taught(TOKENS[:4] + list(hot.tokens))])[3:])
stop = one.tokens[3]
stopped = sampler.sample(prompt=start, num_samples=1, sampling_params=types.SamplingParams(max_tokens=12, seed=3, stop=[stop])).result().sequences[0]
found["stopped"] = [str(stopped.stop_reason), stopped.tokens[-1] == stop, len(stopped.tokens)]
asked = sampler.sample(
    prompt=prompt, num_samples=1, sampling_params=types.SamplingParams(max_tokens=2, seed=3), include_prompt_logprobs=True, topk_prompt_logprobs=3
).result()
found["likeliest"] = [len(row) for row in asked.topk_prompt_logprobs[1:]]

# Losses of policy gradients: a token that is rewarded gets likelier, one that is punished less likely.
length = len(whole.model_input.to_ints())
old = log_probs(client, [whole])
for loss in ("importance_sampling", "ppo", "cispo"):
    before = log_probs(client, [whole])
    advantages = [0.0] * 3 + [1.0] * (length - 4) + [-1.0]
    client.forward_backward([datum(TOKENS[:4] + list(one.tokens), logprobs=before, advantages=advantages)], loss).result()
    client.optim_step(types.AdamParams(learning_rate=1e-3)).result()
    after = log_probs(client, [whole])
    found[loss] = [sum(after[3:-1]) - sum(before[3:-1]), after[-1] - before[-1]]

# What a caller gets wrong, the server says.
for name, call in {
    "unknown loss": lambda: client.forward_backward(data, "no_such_loss").result(),
    "unknown model": lambda: made(service.create_lora_training_client(base_model="Qwen/no-such-model", rank=8)),
    "token beyond the vocabulary": lambda: client.forward_backward([taught([1, 2, 10_000_000])], "cross_entropy").result(),
}.items():
    try:
        call()
        found[name] = None
    except Exception as error:
        found[name] = str(error)[:300]
# And the model goes on.
found["goes on"] = step(client, data).metrics["loss:sum"]

# Checkpoints, and the weights as PEFT.
kept = client.save_weights_for_sampler("last").result().path
rest = service.create_rest_client()
listed = rest.list_checkpoints(client.model_id).result().checkpoints
found["checkpoints"] = sorted(f"{each.checkpoint_type} {each.checkpoint_id}" for each in listed)
found["weights"] = rest.get_weights_info_by_tinker_path(saved).result().model_dump(mode="json")
found["runs"] = client.model_id in [each.training_run_id for each in rest.list_training_runs().result().training_runs]
request = urllib.request.Request(
    f"{URL}/api/v1/training_runs/{client.model_id}/checkpoints/{kept.split('/', 3)[3]}/archive", headers={"X-API-Key": os.environ["TINKER_API_KEY"]}
)
archive = urllib.request.urlopen(request).read()
folder = os.environ.get("VF_ARCHIVE", tempfile.gettempdir())
with open(f"{folder}/adapter.tar.gz", "wb") as file:
    file.write(archive)
found["kept"] = [float(x) for x in made(service.create_sampling_client(model_path=kept)).compute_logprobs(prompt).result()[1:]]
rest.delete_checkpoint_from_tinker_path(saved).result()
found["left"] = sorted(each.checkpoint_id for each in rest.list_checkpoints(client.model_id).result().checkpoints)

if "custom" in sys.argv:

    def sum_of(_, found_log_probs):
        return -sum(each.sum() for each in found_log_probs), {"own:sum": 1.0}

    before = log_probs(client, data)
    outcome = client.forward_backward_custom(data, sum_of).result()
    client.optim_step(types.AdamParams(learning_rate=1e-3)).result()
    found["custom"] = [outcome.metrics.get("own:sum"), sum(log_probs(client, data)) - sum(before)]

print(json.dumps(found))
