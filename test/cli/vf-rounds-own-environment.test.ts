/** An environment of one's own that writes and reports what docs/rounds.md asks for becomes supervised rows as a chat server plays it. */
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { chatServer } from '../models/chat-server.ts';
import { runInProcess } from './in-process.ts';

/** Answers a search with a note; a success says which note. No judge, no NDCG. */
const ENVIRONMENT = `
import { Dataset, MultiTurnEnv, reward, Rubric } from 'vf-search';
class Notes extends MultiTurnEnv {
  setupState() { return { turns: 0, query: '' }; }
  envResponse(kept, state, { trace }) {
    if (kept.includes('<search_complete>')) return { done: true };
    const query = /<search>(.*?)<\\/search>/.exec(kept)?.[1] ?? '';
    const observation = 'Note about ' + query + ', 1.0';
    state.query = query;
    trace?.('search.request', { query });
    trace?.('search.response', { query, results: ['note_1'], text: observation });
    return { observation };
  }
}
export function loadEnvironment() {
  const row = { exampleId: 'ids', prompt: [{ role: 'system', content: 'Search.' }, { role: 'user', content: 'Who?' }], answer: 'bees', info: {} };
  return new Notes({
    id: 'notes', maxTurns: 4, traces: true, eval: new Dataset('notes', [row]),
    rubric: new Rubric({ funcs: [reward(({ state }) => Number(state.query === 'bees'), { name: 'found' })] }),
  });
}
`;

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'vf-rounds-own-'));
  mkdirSync(join(folder, 'environments/notes'), { recursive: true });
  writeFileSync(join(folder, 'environments/notes/environment.mjs'), ENVIRONMENT);
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

async function run(command: string, ...args: readonly string[]) {
  const { code, stdout, stderr } = await runInProcess(command, args, { cwd: folder, env: { HOME: folder, VF_API_KEY: 'none' } });
  expect({ code, stderr }).toEqual({ code: 0, stderr: expect.any(String) as string });
  return { stdout, stderr };
}

/** One of four rollouts searches for the right thing. Gives the trace. */
async function played(complete: string): Promise<string> {
  let asked = 0;
  await using server = await chatServer(({ messages }) => {
    if (messages.some(({ role }) => role === 'assistant')) return `<think>Found.</think>\n${complete}`;
    return `<think>I look.</think>\n<search>${asked++ === 0 ? 'bees' : 'ants'}</search>`;
  });
  await run('vf-eval', 'notes', '-m', 'judge-model', '-k', 'VF_API_KEY', '-b', `${server.url}/v1`, '-r', '4', '-o', 'eval');
  return join(
    'eval',
    readdirSync(join(folder, 'eval'), { recursive: true, encoding: 'utf8' }).find((name) => name.endsWith('trace.jsonl'))!,
  );
}

describe('vf-rounds, for an environment of one’s own', () => {
  it('makes a demonstration of a success with the prompt of the row, the turns, and what a search showed', { timeout: 60_000 }, async () => {
    const trace = await played('<search_complete>true</search_complete>');
    await run('vf-rounds', 'extract', '--trace', trace, '--success', 'reward', '-o', 'candidates.jsonl');
    await run('vf-rounds', 'finalize', 'candidates.jsonl', '-o', 'sft.jsonl');
    const rows = readFileSync(join(folder, 'sft.jsonl'), 'utf8').trimEnd().split('\n');
    expect(rows.map((row) => JSON.parse((JSON.parse(row) as { messages: string }).messages) as unknown)).toEqual([
      [
        { role: 'system', content: 'Search.' },
        { role: 'user', content: 'Who?' },
        { role: 'assistant', content: '<think>I look.</think>\n<search>bees</search>' },
        { role: 'user', content: 'Note about bees, 1.0' },
        { role: 'assistant', content: '<think>Found.</think>\n<search_complete>true</search_complete>' },
      ],
    ]);
    expect((await run('vf-rounds', 'report', '--trace', trace)).stdout).toMatch(/^without a search +0 \(0 %\)$/m);
  });

  it('says why a success that ends in another way cannot become a demonstration', { timeout: 60_000 }, async () => {
    const trace = await played('<answer>bees</answer> <search_complete>true</search_complete>');
    const { stderr } = await run('vf-rounds', 'extract', '--trace', trace, '--success', 'reward', '-o', 'candidates.jsonl');
    expect(stderr).toBe(
      'vf-rounds extract: 0 to candidates.jsonl. 1 success cannot become a demonstration: in it, a turn does not think and then act (<search>, <bbox> or <search_complete>)\n',
    );
  });
});
