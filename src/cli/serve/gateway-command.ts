/** Declares `vf-serve gateway`. */
import { POLICY, SAMPLING } from '../eval/eval-options.ts';
import { defineCommand } from '../options/define-command.ts';
import { text, wholeNumber } from '../options/kinds.ts';
import { groups, type OptionValues } from '../options/option.ts';
import { API_KEY, listening, MAX_WAIT, VERBOSE } from '../options/shared-options.ts';
import { withTransport } from '../../transport/transport-settings.ts';

const NOTES = `
An agent anywhere asks the policy through this server, and every turn is
recorded as it was sampled: a trainer of yours opens a session, gives the agent
its address, and reads the rollout once the agent has ended.

  vf-serve gateway -p embedded -m nano-base
  curl -s http://127.0.0.1:8000/sessions \\
      -H 'content-type: application/json' \\
      -d '{"example_id": "q1", "sampling": {"temperature": 1.0}}'
  {"session_id": "...", "model": "nano-base",
   "base_url": "http://127.0.0.1:8000/s/.../v1", "api_key": "vf-..."}

The agent asks at base_url, in Chat Completions, Responses or Anthropic's
Messages, streamed or not; a tool that takes no path uses api_key at
http://127.0.0.1:8000/v1.
  OPENAI_BASE_URL=$base_url OPENAI_API_KEY=$api_key python my_agent.py

  POST /sessions/ID/reward   {"reward": 1.0}: ends the session
  POST /sessions/ID/end      ends it; its rollout has no reward yet
  GET /sessions/ID           its status, and what was played until now
  DELETE /sessions/ID        forgets it
A rollout is a line as vf-export writes it: token ids, loss mask and log-probs,
with further branches where the agent left its history. One that failed has an
error and the reward null, never 0. docs/gateway.md describes all fields.

With --api-key-var NAME the routes below /sessions need "Authorization: Bearer"
and the value of that variable. Agents have the keys of their sessions.`;

const { apiKeyVar: policyKeyVar, ...policy } = POLICY;

const OPTIONS = groups({
  Policy: { ...policy, policyKeyVar, ...MAX_WAIT },
  Sampling: { ...SAMPLING },
  Sessions: {
    seed: wholeNumber('seeds the sampling of -p embedded; never sent to other servers', { default: 0 }),
    maxSessions: wholeNumber('sessions that are held at a time; the oldest that has ended gives its place, and if none has, the answer is 503', {
      from: 1,
      to: 100_000,
      default: 1024,
    }),
    sessionTimeout: wholeNumber('seconds after which a session ends by itself; a request may ask for fewer', {
      from: 1,
      to: 604_800,
      default: 3600,
      placeholder: 'S',
    }),
  },
  Server: {
    ...listening({ beyondLoopback: 'needs --api-key-var', port: 8000 }),
    publicUrl: text('the address under which agents reach the server, for their base URLs', {
      placeholder: 'URL',
      otherwise: 'the one that it listens on',
    }),
    ...API_KEY,
    ...VERBOSE,
  },
});

export type GatewayCommandOptions = OptionValues<typeof OPTIONS>;

export const gatewayCommand = defineCommand({
  name: 'vf-serve gateway',
  summary: 'Serves a policy to agents anywhere, and records their rollouts.',
  examples: [
    ['vf-serve gateway -p embedded -m nano-base', 'the bundled model, for agents that ask at http://127.0.0.1:8000'],
    ['vf-serve gateway -b http://127.0.0.1:8001/v1 -T 1.0 --port 0', 'a vLLM server, by token ids'],
  ],
  options: OPTIONS,
  notes: NOTES,
  run: ({ options, context }) => withTransport({}, async () => (await import('./serve-gateway.ts')).serveGateway(options, context)),
});
