import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, afterEach, describe, expect, it } from 'vitest';
import { loopback, until } from '../transport/loopback.ts';
import { BARE_ENVIRONMENT } from '../bare-environment.ts';
import { runInProcess } from './in-process.ts';

const ROOT = join(import.meta.dirname, '../..');
// Below the package, so that it finds vf-search.
const folder = mkdtempSync(join(ROOT, 'test/.serve-environment-'));
afterAll(() => rmSync(folder, { recursive: true }));
const ENVIRONMENT = join(folder, 'environment.ts');
writeFileSync(
  ENVIRONMENT,
  `import { Dataset, reward, Rubric, SingleTurnEnv } from 'vf-search';
const rows = Array.from({ length: 12 }, (_, i) => ({ exampleId: \`row-\${i}\`, prompt: [{ role: 'user', content: 'Say hello.' }], answer: null }));
const broken = reward(() => { throw new Error('division by zero hens'); }, { name: 'broken' });
export const loadEnvironment = () => new SingleTurnEnv({ id: 'hens', eval: new Dataset('hens', rows), rubric: new Rubric({ funcs: [broken] }) });
`,
);
const started = new Set<ChildProcess>();
afterEach(() => {
  for (const child of started) child.kill('SIGKILL');
  started.clear();
});

async function serving(...args: readonly string[]) {
  const words = ['--conditions=vf-search-source', join(ROOT, 'src/cli/vf-serve.ts'), 'environment', ENVIRONMENT, '--port', '0', ...args];
  const child = spawn(process.execPath, words, { cwd: ROOT, env: BARE_ENVIRONMENT });
  started.add(child);
  const server = { child, stdout: '', stderr: '', ended: once(child, 'close') };
  child.stdout.on('data', (chunk) => (server.stdout += String(chunk)));
  child.stderr.on('data', (chunk) => (server.stderr += String(chunk)));
  await Promise.race([until(() => server.stderr.includes('Ctrl-C stops')), server.ended]);
  return server;
}

/** Plays rows by messages, to their failed ends. */
async function playRows(url: string, ids: readonly string[]): Promise<void> {
  const post = async (path: string, body: object) => {
    const init = { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) };
    return (await (await fetch(url + path, init)).json()) as { episodes: { episode_id: string; rollout?: { reward: number | null } }[] };
  };
  const { episodes } = await post('/v1/episodes', { policy: { kind: 'chat' }, episodes: ids.map((id) => ({ example_id: id })) });
  const entries = episodes.map(({ episode_id }) => ({ episode_id, turn: 0, text: 'hello' }));
  const ends = await post('/v1/episodes/step', { episodes: entries });
  expect(ends.episodes.map(({ rollout }) => rollout!.reward)).toEqual(ids.map(() => null));
}

describe('vf-serve environment', () => {
  it('says once why rollouts fail, then how many, and ends at SIGINT (130)', async () => {
    const server = await serving();
    const url = server.stdout.trim();
    expect(url).toMatch(/^http:\/\/127\.0\.0\.1:\d+$/);
    await playRows(
      url,
      Array.from({ length: 12 }, (_, i) => `row-${i}`),
    );
    server.child.kill('SIGINT');
    expect(await server.ended).toEqual([130, null]);
    expect(server.stderr.split('\n').filter((line) => line.includes('fail'))).toEqual([
      'vf-serve: the rollout row-0/0 failed: RewardError: Reward "broken" failed: division by zero hens',
      'vf-serve: 10 rollouts have failed with RewardError (scoring); -v shows each',
    ]);
    expect(server.stderr).not.toContain('    at ');
  });

  it('tells a caller whose policy asks for a key which field of the request names it, not a flag', async () => {
    await using policy = await loopback((_request, response) => response.writeHead(401).end('{"error": {"message": "no entry"}}'));
    const server = await serving();
    const body = JSON.stringify({ example_ids: ['row-0'], policy: { base_url: `${policy.url}/v1` } });
    const answer = await fetch(`${server.stdout.trim()}/v1/rollouts`, { method: 'POST', headers: { 'content-type': 'application/json' }, body });
    const said = await answer.text();
    expect(said).toContain('Set policy.api_key_var to the name of the variable that holds the key.');
    expect(said).not.toMatch(/ -k/);
  });

  it('shows each failure with its stack where -v is given', async () => {
    const server = await serving('-v');
    await playRows(server.stdout.trim(), ['row-3', 'row-4']);
    await until(() => server.stderr.includes('row-4/0'));
    expect(server.stderr).toMatch(/the rollout row-3\/0 failed: RewardError[^]*at .*environment\.ts[^]*the rollout row-4\/0 failed/);
  });

  it.each(['environment', 'verifiers'])('refuses an environment that shows images, in one line, for vf-serve %s (2)', async (command) => {
    const gallery = join(ROOT, 'test/images/gallery.ts');
    const { code, stderr } = await runInProcess('vf-serve', [command, gallery], { cwd: ROOT, env: {} });
    expect(code).toBe(2);
    expect(stderr).toMatch(/^vf-serve: gallery shows images, and callers are sent text only\. Serve it without them [^\n]*\n$/);
  });

  it.each(['environment', 'verifiers'])('refuses an agent, also in a group, for vf-serve %s, and says how it gets its model (2)', async (command) => {
    const agents = join(folder, 'agents.ts');
    writeFileSync(
      agents,
      `import { AgentEnv, Dataset, EnvGroup, Rubric } from 'vf-search';
const rows = new Dataset('rows', [{ exampleId: 0, prompt: [{ role: 'user', content: 'Say hello.' }] }]);
const agent = new AgentEnv({ id: 'agent', eval: rows, rubric: new Rubric({ funcs: [] }), run: async () => ({}) });
export const loadEnvironment = ({ group }) => (group ? new EnvGroup({ id: 'mixed', environments: { agent } }) : agent);
`,
    );
    for (const [args, subject] of [
      [[], 'agent is an agent'],
      [['-a', '{"group": true}'], 'mixed has an agent'],
    ] as const) {
      const { code, stderr } = await runInProcess('vf-serve', [command, agents, ...args], { cwd: ROOT, env: {} });
      expect({ code, stderr }).toEqual({
        code: 2,
        stderr: `vf-serve: ${subject}, which plays its rows itself, so it has no episodes that a caller could play. Evaluate it with vf-eval, train it with vf-train, or give the agent its model with vf-serve gateway.\n`,
      });
    }
  });
});
