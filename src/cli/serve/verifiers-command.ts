/** Declares `vf-serve verifiers`. */
import { defineCommand } from '../options/define-command.ts';
import { flag, text, wholeNumber } from '../options/kinds.ts';
import { groups, type OptionValues } from '../options/option.ts';
import { VERBOSE } from '../options/shared-options.ts';
import { withTransport } from '../../transport/transport-settings.ts';
import { ALLOWED, SERVED, SERVED_ENVIRONMENT } from './served-options.ts';

const NOTES = `
Serves an environment over the wire of verifiers 0.4.0 (ZeroMQ and MessagePack),
as its own environment server does, so that trainers which speak it play this
environment: prime-rl, torchtitan, or a program with verifiers' EnvClient.
  npm install zeromq@6.8.0 @msgpack/msgpack@3.1.3
  vf-serve verifiers search-r1 --split train --bind tcp://127.0.0.1:5000 \\
      --allow-policy-key-var VLLM_API_KEY
The trainer names a row and its policy server with each run, and gets a trace:
messages with token ids, masks and log-probs, rewards by name with their
weights, and metrics. A rollout that failed is "ok": false with its errors, and
no rewards.

The policy server is asked by token ids where it can (vLLM, vf-serve policy),
else by chat. Its key is read from the variable that the trainer names,
which --allow-policy-key-var must name too; if it holds nothing, no key is sent.

A run names its row by task_data.example_id, else by its place as task_data.idx;
the answer's task.key and task.hash are the row's id. The method "tasks" lists
the rows ({"offset": 0, "limit": 1000}).

The wire has no password: --bind takes loopback addresses only, unless
--allow-network is given too.

The environment is an id (search-r1), or a path to a folder or a module.
Arguments are the same as for vf-eval.`;

const OPTIONS = groups({
  Environment: { ...SERVED, maxSessions: wholeNumber('runs that are played at once; others wait', { from: 1, to: 100_000, default: 1024 }) },
  Server: {
    bind: text('tcp://HOST:PORT to listen on; port 0 picks any free one', { placeholder: 'ADDRESS', default: 'tcp://127.0.0.1:5000' }),
    allowNetwork: flag('let --bind name an address that other machines reach, although the wire has no password'),
    ...ALLOWED,
    ...VERBOSE,
  },
});

export type VerifiersOptions = OptionValues<typeof OPTIONS>;

export const verifiersCommand = defineCommand({
  name: 'vf-serve verifiers',
  summary: 'Serves an environment to prime-rl and torchtitan: over the wire of verifiers 0.4.0.',
  examples: [['vf-serve verifiers search-r1 --split train', 'rows to train on, at tcp://127.0.0.1:5000']],
  arguments: SERVED_ENVIRONMENT,
  options: OPTIONS,
  notes: NOTES,
  run: ({ arguments: { environment }, options, context }) =>
    withTransport({ marksQuotations: true }, async () => (await import('./serve-verifiers.ts')).serveVerifiers(environment, options, context)),
});
