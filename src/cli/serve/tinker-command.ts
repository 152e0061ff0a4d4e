/** Declares `vf-serve tinker`. */
import { defineCommand } from '../options/define-command.ts';
import { folder, text, texts, wholeNumber } from '../options/kinds.ts';
import { groups, type OptionValues } from '../options/option.ts';
import { API_KEY, LISTENING, VERBOSE } from '../options/shared-options.ts';

const NOTES = `
The Tinker API: clients train LoRA adapters of the model and sample from them
over HTTP. The official SDK (0.25 and later in protobuf, earlier ones in JSON),
recipes of tinker-cookbook and "vf-train --tinker" work with it unchanged:
  export TINKER_BASE_URL=http://127.0.0.1:8000 TINKER_API_KEY=tml-local
  python -m tinker_cookbook.recipes.rl_loop model_name=/path/to/model

The model is a Hugging Face directory of a dense Qwen3. Without --model: the
bundled toy model. It trains and samples in float32 on the CPU, in this process:
no Python, no GPU, nothing to install. Several models can be in training at a
time, as many as the memory holds.

Checkpoints are kept under --state. After a restart, or kill -9, clients load
those that the server had acknowledged, and continue to the bit. Weights without
a name (save_weights_and_get_sampling_client) are gone with their session.

Losses are cross_entropy, importance_sampling, ppo and cispo, summed over tokens
as by the hosted service; others can be had by forward and forward_backward, as
forward_backward_custom of the SDK does. Images, and training of the embedding,
are refused. A session that sends no heartbeat for five minutes ends, and its
models are unloaded.

All who have the key are one user: every client can load every checkpoint. With
--api-key-var NAME each request needs "X-API-Key" and the value of that variable
(the SDK wants a key that starts with tml-).
Ctrl-C stops the server.`;

const OPTIONS = groups({
  Model: {
    model: text('the model to train: a directory, a model of the Hugging Face hub (owner/name), or nano-base', {
      letter: 'm',
      placeholder: 'MODEL',
      otherwise: 'the bundled nano-base',
      completion: 'folders',
    }),
    servedModelName: texts("a name by which clients may ask for the model, next to the directory's name and its path", { placeholder: 'NAME' }),
    maxModels: wholeNumber('models in training at a time', { from: 1, to: 1000, default: 32 }),
    maxLoraRank: wholeNumber('largest rank of an adapter', { from: 1, to: 512, default: 128 }),
    state: folder('where checkpoints are kept', { default: 'outputs/tinker' }),
  },
  Engine: {
    threads: wholeNumber('compute threads', { from: 1, to: 64, otherwise: "the machine's cores, at most 8" }),
    maxModelLen: wholeNumber('longest sequence in tokens', { from: 2, to: 10_000_000, otherwise: "the model's own" }),
    cacheTokens: wholeNumber("size of each thread's cache in tokens", { from: 1, to: 1_000_000_000, otherwise: '64 MB' }),
  },
  Server: {
    ...LISTENING,
    ...API_KEY,
    maxPending: wholeNumber('pending samples; beyond it the answer is 429', { from: 1, to: 1_000_000, default: 16_384 }),
    ...VERBOSE,
  },
});

export type TinkerOptions = OptionValues<typeof OPTIONS>;

export const tinkerCommand = defineCommand({
  name: 'vf-serve tinker',
  summary: 'Serves the Tinker API: trains LoRA adapters on this CPU, and samples from them.',
  examples: [
    ['vf-serve tinker', 'the bundled model, at http://127.0.0.1:8000'],
    ['vf-serve tinker --model Qwen3-0.6B/ --state checkpoints/', 'a model of yours, with its checkpoints in a folder of yours'],
  ],
  options: OPTIONS,
  notes: NOTES,
  run: async ({ options, context }) => (await import('./serve-tinker.ts')).serveTinker(options, context),
});
