/** The options and the help of `vf-serve environment`. */
import { type Command, Option } from 'commander';
import { collected, named, wholeNumber } from './option-values.ts';
import type { ServeEnvironmentOptions } from './serve-environment.ts';

const HELP = `
Serves an environment to trainers and evaluation harnesses. Two kinds of
callers:

A caller that owns the policy plays episodes: it gets what its model lacks,
samples and sends the sample back, by token ids or by messages.
  vf-serve environment search-r1 --split train --tokenizer ./my-model
  curl -s http://127.0.0.1:8000/v1/tasks?limit=1
  curl -s http://127.0.0.1:8000/v1/episodes \\
      -H 'content-type: application/json' \\
      -d '{"policy": {"kind": "tokens"},
           "episodes": [{"example_id": "nq_dev_0000"}]}'
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
      -d '{"example_ids": ["nq_dev_0000"], "rollouts_per_example": 4,
           "policy": {"base_url": "http://127.0.0.1:8001/v1"},
           "sampling": {"temperature": 1.0}}'

The environment is an id (search-r1), or a path to a folder or a module, such as
one that vf-init wrote. Arguments are the same as for vf-eval:
  vf-serve environment search-r1 \\
      -a '{"dataset": "fact-world", "corpus": "fact-world"}'

OpenEnv's clients play on the same port, over its WebSocket; the action is the
model's text, with the stop string that ended it:
  async with GenericEnvClient(base_url="http://127.0.0.1:8000") as env:
      step = await env.reset(example_id="nq_dev_0000")
      step = await env.step({"text": "<search> who wrote hamlet </search>"})

GET /openapi.json describes all routes. With --api-key-var NAME every request
except /health needs "Authorization: Bearer" and the value of that variable.`;

/** Options of every command that serves an environment. `tokenizer`: true if callers may own the policy and play by token ids. */
export function addServedOptions(command: Command, { tokenizer = true } = {}): Command {
  const served = command
    .option('-a, --env-args <JSON>', 'arguments of the environment, a JSON object', named)
    .option('--env-dir-path <directory>', 'where environments are looked up by id', named, 'environments')
    .addOption(new Option('--split <name>', 'the rows to serve').choices(['train', 'eval']).default('eval'));
  if (tokenizer) served.option('--tokenizer <directory>', "the folder of the caller's model, or nano-base: needed to play by token ids", named);
  return served
    .option('--role <role=model>', 'the model of a role, as in vf-eval: judge=NAME@URL, builtin or policy; may be repeated', collected)
    .option('--allow-policy-host <host>', 'a host beyond this machine whose policy server requests may name; may be repeated', collected)
    .option(
      '--allow-policy-key-var <name>',
      'a variable that requests may name as api_key_var, in addition to those that end in _API_KEY; may be repeated',
      collected,
    )
    .option('--exit-with-stdin', 'stop when stdin is closed, so that the server ends with the process that started it')
    .option('-v, --verbose', 'stack traces of failures');
}

export function addEnvironmentCommand(program: Command, action: (id: string, options: ServeEnvironmentOptions) => void): void {
  addServedOptions(program.command('environment'))
    .description('Serves an environment to trainers and harnesses that own the policy, or have a server for it')
    .argument('<id or path>', 'the environment', named)
    .option(
      '--max-sessions <n>',
      'episodes that have not ended, and OpenEnv sessions, each; beyond it the answer is 503',
      wholeNumber(1, 100_000),
      1024,
    )
    .option('--idle-timeout <s>', 'seconds that an episode waits for its caller', wholeNumber(1, 86_400), 1800)
    .option('--step-timeout <s>', 'seconds that a request waits for the environment', wholeNumber(1, 3600), 50)
    .option('--host <address>', 'address to listen on; anything but loopback needs --api-key-var', named, '127.0.0.1')
    .option('--port <n>', 'port to listen on; 0 picks any free one', wholeNumber(0, 65_535), 8000)
    .option('--api-key-var <name>', 'environment variable that holds the API key required of clients', named)
    .addHelpText('after', HELP)
    .action(action);
}
