/** Declares `vf-doctor`, which checks the requirements of a training run and changes nothing. */
import { defineCommand, optionalArgument } from '../options/define-command.ts';
import { file, flag, number, text, texts, wholeNumber } from '../options/kinds.ts';
import { table } from '../options/option.ts';

const NOTES = `
What it checks:
  embedded: this package's engine, its build and threads; samples one token
  node, python, torch, transformers, safetensors, numpy: installed, version
  device: what torch would train on, and whether it has bfloat16
  model, tokenizer, weights: a folder that loads, safetensors only
  environment, retriever: rows and passages load, the retrieval server answers
  agent: plays an agent once with a script in place of the model: what of its
    requests the policy does not honour, how often it forks, and why
  role: the models of the environment's roles, and that their servers answer
  server, tokens, log-probs, window: it returns token ids and log-probs
  adapters, limits: LoRA adapters of this rank load while the server runs
  wasi, bubblewrap: sandboxes for the programs that a model writes
  lancedb: stores the vectors of dense and hybrid retrieval
  vllm, port: what a server started with the run ([policy.launch]) needs
  gpu memory: what worker and vLLM need, compared with the GPUs
  memory, disk: what is free, compared with what the run needs

A server for a run with [lora].rank = 16:
  VLLM_ALLOW_RUNTIME_LORA_UPDATING=1 vllm serve MODEL --enable-lora \\
      --max-lora-rank 16 --max-loras 2 --max-cpu-loras 4 \\
      --gpu-memory-utilization SHARE --generation-config vllm
vf-doctor run.toml prints this command with the SHARE that leaves the worker its
part, while that server is missing.

It installs nothing, writes nothing and leaves the server as it is. With a
configuration it loads the environment that the file names, as the run would.
API keys are read from the environment, then from ./.env, and never shown.

Exit codes:
  0  nothing is missing (there may be warnings)
  1  something is missing
  2  a flag, a file or the configuration is wrong
  129  stopped because the terminal was closed (SIGHUP)
  130  stopped by Ctrl-C
  143  the same for SIGTERM`;

export const vfDoctor = defineCommand({
  name: 'vf-doctor',
  summary: 'Checks what a training run needs: shows each problem with the command that fixes it.',
  arguments: { config: optionalArgument('a training configuration (.toml), or an environment with --preset', { completion: 'files' }) },
  options: table({
    preset: text('ready-made settings, as those of vf-train (vf-train --list-presets)', { placeholder: 'NAME', completion: 'presets' }),
    launch: flag("with a configuration or a preset: the run starts vLLM, instead of the configuration's server"),
    python: file("the worker's Python", { otherwise: "the configuration's, else python3" }),
    vllmPython: file('the Python with vLLM, for a server started with the run', { otherwise: '--python' }),
    apiBaseUrl: texts(
      "a running policy server, up to and including /v1, instead of the configuration's; one for each replica, also with commas between them",
      {
        letter: 'b',
        placeholder: 'URL',
        commas: true,
      },
    ),
    apiKeyVar: text('environment variable that holds its API key', { letter: 'k', placeholder: 'NAME' }),
    memory: flag('print only how the run would divide the memory of the GPUs; loads nothing'),
    gpus: text('with --memory: GPUs of these sizes in GiB instead of those here, such as 80 or 80,80', { placeholder: 'SIZES' }),
    context: wholeNumber('with --memory: tokens of the longest rollout', { from: 1, otherwise: '4596, as Search-R1 has by default' }),
    gpuPrice: number('with --memory: US dollars for one GPU and hour; shows what a step and the run cost', { above: 0, placeholder: 'USD' }),
    json: flag('one JSON object on stdout'),
  }),
  conflicts: [['memory', 'json']],
  examples: [
    ['vf-doctor', 'Node, Python, torch, memory, disk, GPU'],
    ['vf-doctor run.toml', 'everything that this training run needs'],
    ['vf-doctor --python .venv/bin/python', 'a Python other than python3'],
    ['vf-doctor -b http://127.0.0.1:8000/v1', 'also a running policy server'],
    ['vf-doctor run.toml --json', 'for scripts'],
    ['vf-doctor run.toml --memory', 'only the plan of GPU memory'],
    ['vf-doctor run.toml --memory --gpus 80,80', 'the same for two GPUs of 80 GiB'],
    ['vf-doctor run.toml --memory --gpus 80,80 --gpu-price 2.5', 'and the price of the run'],
    ['vf-doctor visual-rag --preset ddai-r1-mini --launch', 'a preset of vf-train'],
  ],
  notes: NOTES,
  run: async ({ arguments: { config = null }, options, context }) => {
    const { runDoctor } = await import('../doctor/run-doctor.ts');
    return runDoctor(config, options, context);
  },
});
