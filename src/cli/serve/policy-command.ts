/** Declares `vf-serve policy`. */
import { defineCommand } from '../options/define-command.ts';
import { file, oneOf, text, texts, wholeNumber } from '../options/kinds.ts';
import { groups, type OptionValues } from '../options/option.ts';
import { API_KEY, LISTENING, VERBOSE } from '../options/shared-options.ts';

const NOTES = `
The model is a Hugging Face directory of a dense Qwen3 (config.json,
model.safetensors, tokenizer.json). Without --model: the bundled toy model. It
runs in float32 on the CPU, in this process: no Python, no GPU, nothing to
install.

Chats are rendered with the model's own chat template, or with --chat-template
if it is given. A model without a template uses ChatML if its tokenizer has
<|im_start|> and <|im_end|>; then /tokenize refuses messages, as vLLM does.

The routes are vLLM's, so clients of a vLLM server, such as vf-eval and
vf-train, work with this one:
  curl -s http://127.0.0.1:8000/v1/completions \\
      -H 'content-type: application/json' \\
      -d '{"prompt": "Question: who is the mayor of Kinzer?\\n",
           "max_tokens": 32, "logprobs": 0, "return_token_ids": true}'
  curl -s http://127.0.0.1:8000/v1/load_lora_adapter \\
      -H 'content-type: application/json' \\
      -d '{"lora_name": "v1", "lora_path": "/path/to/adapter"}'
  vf-eval search-r1 -b http://127.0.0.1:8000/v1 \\
      -a '{"dataset": "fact-world", "corpus": "fact-world"}'

Routes:
  /v1/completions, /v1/chat/completions, /v1/models, /tokenize, /detokenize,
  /v1/load_lora_adapter, /v1/unload_lora_adapter, /health, /version, /metrics

Fields that affect sampling but are not supported by this engine, such as
penalties and guided output, are refused, never ignored; so are adapters with
NaN or wrong shapes. With --api-key-var NAME every request except /health,
/ping, /version and /metrics needs "Authorization: Bearer" and the value of that
variable.
Ctrl-C stops the server after it has answered pending requests.`;

const OPTIONS = groups({
  Model: {
    model: text('the model to serve: a directory, a model of the Hugging Face hub (owner/name), or nano-base', {
      letter: 'm',
      placeholder: 'MODEL',
      otherwise: 'the bundled nano-base',
      completion: 'folders',
    }),
    servedModelName: text("the model's name for clients", { placeholder: 'NAME', otherwise: "the directory's name" }),
    chatTemplate: file("a Jinja chat template in place of the model's own"),
    adapter: texts('a LoRA adapter to load at the start', { placeholder: 'NAME=DIR' }),
    allowAdaptersUnder: texts('requests may load adapters only from this folder', { placeholder: 'DIR', completion: 'folders' }),
    maxAdapters: wholeNumber('adapters that may be loaded at a time; beyond it the answer is 400', { from: 1, to: 100_000, default: 64 }),
    maxLoraRank: wholeNumber('largest rank of an adapter', { from: 1, to: 512, default: 512 }),
  },
  Engine: {
    threads: wholeNumber('compute threads', { from: 1, to: 64, otherwise: "the machine's cores, at most 8" }),
    maxModelLen: wholeNumber('longest sequence in tokens', { from: 2, to: 10_000_000, otherwise: "the model's own" }),
    cacheTokens: wholeNumber("size of each thread's cache in tokens", { from: 1, to: 1_000_000_000, otherwise: '64 MB' }),
    logprobsMode: oneOf(['raw_logprobs', 'processed_logprobs'], 'log-probs of the model itself, or of the sampling distribution', {
      default: 'raw_logprobs',
    }),
    generationConfig: oneOf(['vllm', 'auto'], "default sampling of requests: plain (vllm) or the model's generation_config.json (auto)", {
      default: 'vllm',
    }),
  },
  Server: {
    ...LISTENING,
    ...API_KEY,
    maxPending: wholeNumber('pending generations; beyond it the answer is 503', { from: 1, to: 1_000_000, default: 1024 }),
    ...VERBOSE,
  },
});

export type PolicyOptions = OptionValues<typeof OPTIONS>;

export const policyCommand = defineCommand({
  name: 'vf-serve policy',
  summary: "Serves vLLM's routes: samples a model on this CPU, with LoRA adapters.",
  examples: [
    ['vf-serve policy', 'the bundled model, at http://127.0.0.1:8000/v1'],
    [
      'vf-serve policy --model Qwen3-0.6B/ \\\n    --adapter mine=outputs/train/RUN/checkpoints/step-000015/adapter',
      'a model of yours with an adapter, which requests name "mine"',
    ],
  ],
  options: OPTIONS,
  notes: NOTES,
  run: async ({ options, context }) => (await import('./serve-policy.ts')).servePolicy(options, context),
});
