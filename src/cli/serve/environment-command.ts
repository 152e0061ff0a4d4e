/** Declares `vf-serve environment`. */
import { defineCommand } from '../options/define-command.ts';
import { wholeNumber } from '../options/kinds.ts';
import { groups, type OptionValues } from '../options/option.ts';
import { API_KEY, listening, VERBOSE } from '../options/shared-options.ts';
import { withTransport } from '../../transport/transport-settings.ts';
import { ALLOWED, SERVED, SERVED_ENVIRONMENT, TOKENIZER } from './served-options.ts';

const NOTES = `
Serves an environment to trainers and evaluation harnesses. Two kinds of
callers:

A caller that owns the policy plays episodes: it gets what its model lacks,
samples and sends the sample back, by token ids or by messages.
  vf-serve environment search-r1 --split train --tokenizer ./my-model
  curl -s http://127.0.0.1:8000/v1/tasks?limit=1
  curl -s http://127.0.0.1:8000/v1/episodes \\
      -H 'content-type: application/json' \\
      -d '{"policy": {"kind": "tokens"},
           "episodes": [{"example_id": "nq_dev_0012"}]}'
  curl -s http://127.0.0.1:8000/v1/episodes/step \\
      -H 'content-type: application/json' \\
      -d '{"episodes": [{"episode_id": "...", "turn": 0, "token_ids": [11, 12],
           "logprobs": [-0.1, -0.2], "finish_reason": "stop"}]}'
The answer to a step is the next turn, or the rollout with its reward: token
ids, loss mask, log-probs, as vf-export writes them. A rollout that failed has
the reward null and an error, never 0. The same step again gets the same answer.

A caller that has a policy server (vLLM, vf-serve policy, a chat API) names it,
and the rollouts come back as they end, one per line:
  curl -sN http://127.0.0.1:8000/v1/rollouts \\
      -H 'content-type: application/json' \\
      -d '{"example_ids": ["nq_dev_0012"], "rollouts_per_example": 4,
           "policy": {"base_url": "http://127.0.0.1:8001/v1"},
           "sampling": {"temperature": 1.0}}'

The environment is an id (search-r1), or a path to a folder or a module, such as
one that vf-init wrote. Arguments are the same as for vf-eval:
  vf-serve environment search-r1 \\
      -a '{"dataset": "fact-world", "corpus": "fact-world"}'

OpenEnv's clients play on the same port, over its WebSocket; the action is the
model's text, with the stop string that ended it:
  async with GenericEnvClient(base_url="http://127.0.0.1:8000") as env:
      step = await env.reset(example_id="nq_dev_0012")
      step = await env.step({"text": "<search> who wrote hamlet </search>"})

GET /openapi.json describes all routes. With --api-key-var NAME every request
except /health needs "Authorization: Bearer" and the value of that variable.`;

const OPTIONS = groups({
  Environment: {
    ...SERVED,
    ...TOKENIZER,
    maxSessions: wholeNumber('maximum open episodes, and separately maximum OpenEnv sessions; beyond it the answer is 503', {
      from: 1,
      to: 100_000,
      default: 1024,
    }),
    idleTimeout: wholeNumber(
      'seconds that an episode waits for its caller; after the same time without use, an OpenEnv session gives its place to a new one',
      { from: 1, to: 86_400, default: 1800, placeholder: 'S' },
    ),
    stepTimeout: wholeNumber('seconds that a request waits for the environment', { from: 1, to: 3600, default: 50, placeholder: 'S' }),
  },
  Server: {
    ...listening({ beyondLoopback: 'needs --api-key-var', port: 8000 }),
    ...API_KEY,
    ...ALLOWED,
    ...VERBOSE,
  },
});

export type EnvironmentOptions = OptionValues<typeof OPTIONS>;

export const environmentCommand = defineCommand({
  name: 'vf-serve environment',
  summary: 'Serves an environment to trainers and harnesses: they sample themselves, or name a policy server.',
  examples: [
    ['vf-serve environment search-r1 --split train', 'rows to train on, at http://127.0.0.1:8000'],
    ['vf-serve environment ./my-env --tokenizer nano-base --port 0', 'an environment of your own, played by token ids, on any free port'],
  ],
  arguments: SERVED_ENVIRONMENT,
  options: OPTIONS,
  notes: NOTES,
  run: ({ arguments: { environment }, options, context }) =>
    withTransport({ marksQuotations: true }, async () => (await import('./serve-environment.ts')).serveEnvironment(environment, options, context)),
});
