/** Programs over the gateway, as runs play them. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { loadEnvironment } from '../../../environments/agent/environment.ts';
import type { AgentRow } from '../../../environments/agent/rows.ts';
import { ScriptedClient, type ScriptedOptions } from '../../../src/clients/scripted.ts';
import type { Environment } from '../../../src/core/environment.ts';
import { contentText } from '../../../src/core/message.ts';
import { PolicyError } from '../../../src/core/errors.ts';
import type { Row } from '../../../src/core/dataset.ts';
import type { Rollout } from '../../../src/rollouts/rollout.ts';
import { runRollouts } from '../../../src/rollouts/run-rollouts.ts';
import { Gateway } from '../../../src/server/gateway/gateway.ts';
import { TemporaryFolder } from '../../cli/eval/temporary-folder.ts';
import { whyMissing } from '../../execution/missing-executor.ts';
import { loopback } from '../../transport/loopback.ts';
import { PYTHON_CLIENT } from './python-client.ts';

const folder = new TemporaryFolder();
let gateway: Gateway;
beforeAll(async () => {
  gateway = await Gateway.open();
});
afterAll(async () => {
  await gateway.close();
  folder[Symbol.dispose]();
});

type Turns = ScriptedOptions['turns'];

async function play<R extends Row>(environment: Environment<R>, turns: Turns, count = 1): Promise<readonly Rollout<R>[]> {
  const client = new ScriptedClient({ turns, logProb: () => -0.5 });
  const options = {
    environment,
    client,
    maxTokens: null,
    maxConcurrent: 8,
    timeoutMs: null,
    seed: 0,
    sampling: { temperature: 1, topP: 1 },
    gateway,
  };
  const rows = [...environment.eval].slice(0, count).map((row) => ({ row, indices: [0] }));
  const rollouts: Rollout<R>[] = [];
  for await (const group of runRollouts(rows, { ...options, signal: new AbortController().signal })) rollouts.push(...group.rollouts);
  return rollouts.toSorted((a, b) => a.rolloutId.localeCompare(b.rolloutId));
}

let scripts = 0;
/** The environment over a Python script that has `ask(text)`. */
async function program(code: string, args: Readonly<Record<string, unknown>> = {}): Promise<Environment<AgentRow>> {
  const name = `agent-${++scripts}`;
  const rows = Array.from({ length: 4 }, (_, i) => `${JSON.stringify({ id: `${i}`, question: `q${i}`, answer: `a${i}` })}\n`);
  writeFileSync(join(folder.path, `${name}.jsonl`), rows.join(''));
  writeFileSync(join(folder.path, `${name}.py`), `${ASK}${code}`);
  const command = ['python3', join(folder.path, `${name}.py`)];
  return await loadEnvironment({ command, dataset: join(folder.path, `${name}.jsonl`), ...args }, { env: { PATH: '/usr/bin:/bin' } });
}

const ASK = `${PYTHON_CLIENT}
row = json.load(sys.stdin)
def ask(text): return complete([{'role': 'user', 'content': text}])
`;
const answers: Turns = ({ messages }) => contentText(messages.at(-1)!.content).replace('q', 'a');

// What most of them do is wait for a process.
describe.concurrent('the environment agent', () => {
  it('plays several programs at once, each with its own row, folder and policy', async () => {
    const once = `open('once', 'x').close()\nprint(ask(row['question']))`;
    const rollouts = await play(await program(once), answers, 4);
    expect(rollouts.map(({ reward, error, state, turns }) => [reward, error, state['answer'], turns])).toEqual(
      Array.from({ length: 4 }, (_, i) => [1, null, `a${i}`, 1]),
    );
    const [{ branches } = { branches: [] }] = rollouts;
    expect(branches).toHaveLength(1);
    expect(branches[0]!.tokens!.sampledLength).toBeGreaterThan(0);
  });

  it('has no reward for a program that never asks or that fails, and says which', async () => {
    const [silent] = await play(await program('print("a0")'), answers);
    expect(silent).toMatchObject({
      reward: null,
      error: { type: 'AgentError', reason: 'no_call', message: expect.stringMatching(/OPENAI_BASE_URL or ANTHROPIC_BASE_URL.*VF_MODEL/) },
    });
    const [blind] = await play(await program('print("a0")\nsys.stderr.write("looked for a key\\nfound no key\\n")'), answers);
    expect(blind!.error).toMatchObject({ reason: 'no_call', message: expect.stringMatching(/ The last line of its stderr: found no key$/) });
    expect(blind!.error!.chain).toMatch(/looked for a key/);
    const [broken] = await play(await program('print(ask("q0"))\nraise RuntimeError("lost my keys")'), answers);
    expect(broken).toMatchObject({ reward: null, turns: 1, error: { type: 'AgentError', reason: 'exit_code', source: 'environment' } });
    expect(broken!.error!.message).toMatch(/exit code 1\. The last line of its stderr: RuntimeError: lost my keys$/);
    expect(broken!.error!.chain).toMatch(/Traceback/);
  });

  it.each([
    ['a body that is not JSON', 'chat/completions', 'application/json', '{', /Its last request was refused: The body is not JSON/],
    ['a body without its type', 'chat/completions', 'text/plain', '{}', /refused: The content-type of the body is not JSON/],
    ['a path that the gateway does not have', 'completions', 'application/json', '{}', /refused: The gateway has no .*chat\/completions/],
  ])('says what its program was told that sent %s', async (_, path, type, body, message) => {
    const code = `
import os, urllib.error, urllib.request
request = urllib.request.Request(os.environ['OPENAI_BASE_URL'] + '/${path}', b'${body}', {'content-type': '${type}'})
try: urllib.request.urlopen(request)
except urllib.error.HTTPError: print('no answer')`;
    const [rollout] = await play(await program(code), answers);
    expect(rollout).toMatchObject({ reward: null, error: { reason: 'refused', message: expect.stringMatching(message) } });
  });

  it('scores failures with 0 where the user says so', async () => {
    for (const code of ['print("a0")', 'print(ask("q0"))\nraise RuntimeError("lost")']) {
      const [rollout] = await play(await program(code, { failures: 'score' }), answers);
      expect(rollout).toMatchObject({ reward: 0, error: null, stop: 'agent_failed', metrics: { exact_match: 0, answered: 0 } });
    }
  });

  it('has the failure of the policy where the program failed of it', async () => {
    const gone: Turns = () => {
      throw new PolicyError('the server is gone');
    };
    const [rollout] = await play(await program(`print(ask(row['question']))`, { failures: 'score' }), gone);
    expect(rollout).toMatchObject({ reward: null, error: { type: 'PolicyError', message: 'the server is gone' } });
  });

  it('scores what was played once the turns are spent', async () => {
    const [rollout] = await play(await program(`for i in range(9): print(ask(f"q{i}"))`, { max_turns: 3 }), answers);
    expect(rollout).toMatchObject({ reward: 0, error: null, stop: 'max_turns_reached', turns: 3 });
  });
});

const missing = await whyMissing('bubblewrap');
describe.skipIf(missing !== null)(`the environment agent in bubblewrap${missing === null ? '' : ` (skipped: ${missing})`}`, () => {
  it('reaches its policy and no other server of this machine', async () => {
    await using other = await loopback((_, response) => response.end('reached'));
    const code = `
try: print(socket.create_connection(('127.0.0.1', ${new URL(other.url).port}), 2))
except OSError: print(ask(row['question']))`;
    const rollouts = await play(await program(code, { sandbox: 'bubblewrap' }), answers, 2);
    expect(rollouts.map(({ reward, error }) => [reward, error])).toEqual([
      [1, null],
      [1, null],
    ]);
  });
});
