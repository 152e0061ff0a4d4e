/** Rollouts of several branches as the page gets them: from files, over HTTP and out of an exported file. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { exportPage } from '../../src/server/view/export-page.ts';
import { listen, type RunningServer } from '../../src/server/listen.ts';
import { openView, type OpenedView } from '../../src/server/view/open-view.ts';
import { readPage } from '../../src/server/view/read-page.ts';
import { viewApp } from '../../src/server/view/view-app.ts';
import type { Rollout } from '../../src/rollouts/rollout.ts';
import { trajectoryRecord } from '../../src/trainer/records/trajectory-record.ts';
import { trajectoryOf } from '../../src/trainer/trajectory.ts';
import { VIEW_REQUESTS } from '../../src/viewing/request-key.ts';
import type { Part, RolloutBranch, RolloutTokens } from '../../src/viewing/view-wire.ts';
import { ExportSource } from '../../web/view/source/export-source.ts';
import { branchedRollout } from '../rollouts/branched-rollout.ts';
import { sumsEnvironment, sumsOptions } from '../evaluate/sums-world.ts';
import { writeRun } from '../evaluate/write-run.ts';
import { writeTraining } from './written-runs.ts';

const root = mkdtempSync(join(tmpdir(), 'view-branches-'));
const environment = sumsEnvironment({ rows: 3 });
const rows = [...environment.eval];
let view: OpenedView;
let server: RunningServer;
let exported: ExportSource;
let branched: Rollout;
let given: Rollout;

beforeAll(async () => {
  branched = await branchedRollout({ row: rows[0]! });
  const played = await branchedRollout({ row: rows[1]! });
  given = { ...played, segments: [{ kind: 'model', text: 'Lima' }], branches: played.branches.slice(0, 2) };
  const single = await branchedRollout({ row: rows[2]!, forks: false });
  await writeRun(sumsOptions(join(root, 'agents'), { environment }), [branched, given, single]);
  const training = writeTraining(join(root, 'train'));
  const record = trajectoryRecord(trajectoryOf(branched), (text) => text);
  const line = JSON.stringify(record);
  writeFileSync(join(training, 'rollouts', 'step-000001.jsonl'), `${line}\n{"complete":true,"step":1,"attempts":1,"rollouts":1}\n`);
  view = await openView({ folder: root, tokenizer: undefined });
  server = await listen(viewApp({ source: view.source, host: '127.0.0.1', token: null, page: new Map() }), { host: '127.0.0.1', port: 0 });
  let html = '';
  const page = await readPage(join(import.meta.dirname, '../..'));
  await exportPage(async (text) => void (html += text), { source: view.source, page, signal: new AbortController().signal, onProgress: () => {} });
  const [, data] = /id="vf-view-data">([^]*?)<\/script>/.exec(html)!;
  exported = new ExportSource((JSON.parse(data!) as { answers: Record<string, unknown> }).answers);
});
afterAll(async () => {
  await server.close({ graceMs: 0 });
  rmSync(root, { recursive: true });
});

const place = (group: string) => ({ run: 'agents', set: 'results', group, index: 0 });
const step = { run: 'train', set: 'step/1', group: '0', index: 0 };
const textsOf = (parts: readonly Pick<Part, 'content'>[]) =>
  parts.map(({ content }) => content.map((one) => (one.type === 'text' ? one.text : '')).join(''));
const shape = (branches: readonly RolloutBranch[]) => branches.map(({ parent, fork, turns }) => [parent, fork?.kind ?? null, turns]);
const SHAPE = [
  [null, null, 2],
  [0, 'history', 2],
  [1, 'sample', 1],
  [null, 'retry', 1],
  [null, 'system', 1],
  [null, 'side', 1],
];

describe('a rollout of several branches in vf-view', () => {
  it('has the tree of an evaluation, with the messages of each branch and what it says anew', async () => {
    const { branches } = await view.source.rollout(place('0'));
    expect(shape(branches)).toEqual(SHAPE);
    expect(branches.map(({ tokens, sampled }) => [tokens, sampled])).toEqual(
      branched.branches.map(({ tokens }) => [tokens!.length, tokens!.sampledLength]),
    );
    expect(branches[1]).toMatchObject({ begins_with: { branch: 0, messages: 3 }, tools: null });
    expect(textsOf(branches[1]!.prompt)).toEqual(['Summary: Lima.']);
    expect(branches[1]!.parts.map(({ kind }) => kind)).toEqual(['model', 'given', 'user', 'model']);
    expect(branches[5]).toMatchObject({ begins_with: null, tools: [] });
    expect(textsOf(branches[4]!.prompt)).toEqual(['You check facts.', 'Is Lima a capital?']);
  });

  it('has what was said where an agent gave a text of its own to be scored, and no branches for a rollout of one', async () => {
    const { branches, parts } = await view.source.rollout(place('1'));
    expect(textsOf(parts)).toEqual(['Lima']);
    expect(branches[0]!.parts.map(({ kind }) => kind)).toEqual(['model', 'tool', 'model']);
    expect((await view.source.rollout(place('2'))).branches).toEqual([]);
  });

  it('has the tree of a training step, each branch with its own turns', async () => {
    const { branches } = await view.source.rollout(step);
    expect(shape(branches)).toEqual(SHAPE);
    expect(branches[1]!.fork!.difference).toContain('Summary: Lima.');
    expect(branches.map(({ parts }) => textsOf(parts))).toEqual(branched.branches.map(({ segments }) => segments.map(({ text }) => text)));
  });

  it.each(['files', 'http', 'export'])('gives the tokens of each branch: %s', async (how) => {
    const ask = async (at: typeof step & { readonly branch?: number }): Promise<RolloutTokens> => {
      if (how === 'files') return view.source.tokens(at);
      if (how === 'export') return exported.tokens(at);
      return (await (await fetch(`${server.url}/${VIEW_REQUESTS.tokens(at)}`)).json()) as RolloutTokens;
    };
    for (const at of [place('0'), step])
      for (const [branch, { tokens }] of branched.branches.entries()) {
        const { ids, mask, prompt_length: promptLength } = await ask(branch === 0 ? at : { ...at, branch });
        expect([ids, mask, promptLength]).toEqual([[...tokens!.ids], [...tokens!.mask], tokens!.promptLength]);
      }
  });

  it('refuses a branch that the rollout does not have', async () => {
    await expect(view.source.tokens({ ...place('0'), branch: 6 })).rejects.toThrow(/tokens.jsonl has no line for branch 6 of 0\/0/);
    await expect(view.source.tokens({ ...step, branch: 6 })).rejects.toThrow(/No tokens are recorded for branch 6 of 0\/0/);
    const { status } = await fetch(`${server.url}/${VIEW_REQUESTS.tokens(place('0'))}&branch=-1`);
    expect(status).toBe(400);
  });

  it('finds a text that only a later branch says, and counts the forks', async () => {
    const found = await view.source.rollouts({ run: 'agents', set: 'results', text: 'you check facts' });
    expect(found.rows.map(({ group }) => group)).toEqual(['0']);
    expect(await view.source.run('agents')).toMatchObject({
      summary: { forks: { rollouts: 2, kinds: { history: { count: 2, example: expect.stringContaining('Summary: Lima.') }, side: { count: 1 } } } },
    });
  });
});
