/** Requests of agents that nobody waits for: what a command makes of the errors of real clients that nothing caught. */
import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { describe, expect, it } from 'vitest';
import { UncaughtRefusals } from '../../src/cli/uncaught-refusals.ts';
import { TimeoutError } from '../../src/core/errors.ts';
import { TemporaryFolder } from './eval/temporary-folder.ts';

const ROOT = join(import.meta.dirname, '../..');
const from = (path: string) => JSON.stringify(pathToFileURL(join(ROOT, path)).href);
const installed = (name: string) => JSON.stringify(import.meta.resolve(name));

/**
 * Runs a command in a process of its own whose agents have ended: `ended` is the model of one, `address` that of another in a gateway.
 * @param uncaught errors that nothing catches, for which the command waits
 */
function run(code: string, { uncaught = 0 } = {}) {
  using folder = new TemporaryFolder();
  folder.write(
    'agent.mjs',
    `import { generateText } from ${installed('ai')};
import OpenAI from ${installed('openai')};
import ${installed('@openai/agents')};
export async function agent({ ended, address, signal }) {
  const client = () => new OpenAI({ baseURL: address.baseURL, apiKey: address.apiKey });
  ${code}
}\n`,
  );
  const main = folder.write(
    'main.mjs',
    `import { runCommand } from ${from('src/cli/command-line.ts')};
import { AgentRefusal } from ${from('src/agents/agent-refusal.ts')};
import { languageModelOf } from ${from('src/agents/language-model.ts')};
import { TimeoutError } from ${from('src/core/errors.ts')};
import { Gateway } from ${from('src/server/gateway/gateway.ts')};
import { agent } from './agent.mjs';
let count = 0;
for (const event of ['uncaughtException', 'unhandledRejection']) process.on(event, () => (count += 1));
await runCommand('vf-try', async () => {
  await using gateway = await Gateway.open();
  const address = gateway.add({ model: 'policy' });
  address.close();
  const ended = languageModelOf('policy', async () => { throw new AgentRefusal(400, null, 'The rollout has ended (completed).'); });
  await agent({ ended, address, signal: AbortSignal.abort(new TimeoutError('late')) });
  while (count < ${uncaught}) await new Promise((done) => setTimeout(done, 5));
  console.log('summary');
  return 0;
});\n`,
  );
  const { status, stdout, stderr } = spawnSync(process.execPath, ['--conditions=vf-search-source', main], { encoding: 'utf8' });
  return { status, stdout, stderr };
}

describe('a command', { timeout: 60_000 }, () => {
  it('goes on after requests that an agent makes too late through the AI SDK, openai and fetch, says so once and counts them', () => {
    const { status, stdout, stderr } = run(
      `void generateText({ model: ended, prompt: 'title', maxRetries: 0 });
  void client().chat.completions.create({ model: 'policy', messages: [{ role: 'user', content: 'title' }] });
  void fetch(address.baseURL + '/responses', { method: 'POST', body: '{}' }).then(async (r) => { throw new Error(await r.text()); });
  void generateText({ model: ended, prompt: 'title', abortSignal: signal });
  void client().chat.completions.create({ model: 'policy', messages: [] }, { signal });`,
      { uncaught: 5 },
    );
    expect({ status, stdout }).toEqual({ status: 0, stdout: 'summary\n' });
    // OpenAI's Agents SDK, which would end the process if nobody else listened, says this for itself.
    const lines = stderr.split('\n').filter((line) => line !== 'Unhandled rejection object');
    expect(lines[0]).toMatch(
      /^vf-try: an agent did not catch what a request of it got: .*\. The run goes on\. Await every call before the agent returns/,
    );
    expect(lines.slice(1)).toEqual(['vf-try: agents did not catch the refusal or the abort of 5 requests; these requests are in no rollout', '']);
  });
});

describe('UncaughtRefusals', () => {
  it('leaves other errors alone, such as those of other servers', () => {
    const refusals = new UncaughtRefusals();
    for (const error of [null, 'x', new Error('x'), Object.assign(new Error('x'), { headers: new Headers({ server: 'y' }), cause: {} })])
      expect(refusals.add(error)).toBeNull();
    expect(refusals.add(new Error('x', { cause: new TimeoutError('The rollout took too long') }))).toEqual(
      expect.stringMatching(
        /^an agent did not catch what a request of it got: The rollout took too long\. The run goes on\. Await every call before the agent returns \(at /,
      ),
    );
  });
});
