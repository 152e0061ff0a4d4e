/** What a run says and keeps after each kind of bad ending (docs/training-run.md), and that a resume goes on from there. */
import { readFile, writeFile, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { PublishError } from '../../../src/core/errors.ts';
import { evaluationsOf } from '../../../src/trainer/records/usable-version.ts';
import { readMetrics } from '../../../src/trainer/records/metrics-journal.ts';
import { eventsOf, finalAdapter, newRun, rowsOf, type SmallRunOptions, trainSmall } from '../small-run.ts';
import { UnigramBackend } from '../unigram-backend.ts';

let parent: string;
let path: string;
beforeEach(async () => {
  parent = await mkdtemp(join(tmpdir(), 'vf-endings-'));
  path = await newRun(parent);
});
afterEach(() => rm(parent, { recursive: true }));

const run = (options: Partial<SmallRunOptions> = {}) => trainSmall(path, { backend: async () => new UnigramBackend(), ...options });
/** The adapter of the same run without a failure. */
const undisturbed = async (config: Record<string, unknown> = {}) => {
  const whole = await newRun(await mkdtemp(join(parent, 'whole-')));
  const outcome = await trainSmall(whole, { backend: async () => new UnigramBackend(), config });
  return { adapter: await finalAdapter(outcome, 'unigram.json'), rows: await rowsOf(whole) };
};
const evaluations = async () =>
  evaluationsOf(await readMetrics(join(path, 'metrics.jsonl'))).map(({ step, values }) => [step, values['policy_version']]);
const kinds = async () => (await eventsOf(path)).map(({ kind }) => kind);

/** A publisher that fails for these versions. */
const refusing = (isRefused: (version: number) => boolean): NonNullable<SmallRunOptions['session']> => {
  const failure = new PublishError('no room for adapters');
  return (made) => {
    made.publisher.before = async () => void (made.publisher.failure = isRefused(made.publisher.requests.at(-1)!.version) ? failure : null);
    return made;
  };
};

describe('a last version that could not be published', () => {
  const config = { steps: 4, evaluation: { every: 2, examples: 4 } };

  it('leaves a run stopped, that names the version trained and the one that serves, and has no evaluation of the older one', async () => {
    const outcome = await run({ config, session: refusing((version) => version === 4) });
    expect(outcome).toMatchObject({ reason: 'stopped', step: 4, version: 3, resumable: true });
    expect(outcome.message).toMatch(
      /^All steps are done, but their result, version 4, does not serve: the servers still have version 3, .*no room for adapters/,
    );
    expect(outcome.checkpoint).toMatch(/step-000004$/);
    expect(await evaluations()).toEqual([
      [0, 0],
      [2, 2],
    ]);
    expect(await kinds()).toEqual(['started', 'publish_failed', 'alarm', 'stopped']);
  });

  it('is published by a resume, which plays its evaluation and finishes with the adapter of an undisturbed run', async () => {
    await run({ config, session: refusing((version) => version === 4) });
    // The server may refuse it again.
    expect(await run({ config, session: refusing(() => true) })).toMatchObject({ reason: 'stopped', step: 4, version: 0 });
    expect((await eventsOf(path)).at(-1)!.message).toMatch(
      /^Version 4, which the last checkpoint holds, cannot be served: no room for adapters\. -R/,
    );
    let turns = 0;
    const outcome = await run({ config, onTurn: () => void turns++ });
    expect(outcome).toMatchObject({ reason: 'finished', version: 4 });
    expect(turns).toBe(4);
    const whole = await undisturbed(config);
    expect(await finalAdapter(outcome, 'unigram.json')).toEqual(whole.adapter);
    expect((await rowsOf(path)).filter(({ kind }) => kind === 'evaluation')).toEqual(whole.rows.filter(({ kind }) => kind === 'evaluation'));
  });

  it.each([1, 2])('is not finished either after %i steps of which none was ever published', async (steps) => {
    const outcome = await run({ config: { ...config, steps }, session: refusing(() => true) });
    expect(outcome).toMatchObject({ reason: 'stopped', step: steps, version: 0 });
    expect(outcome.message).toContain('the servers still have the base');
    expect(await evaluations()).toEqual([[0, 0]]);
  });

  it('does not keep a run without a server from finishing', async () => {
    const refused = refusing(() => true);
    const session: SmallRunOptions['session'] = (made) => ({ ...refused(made), isServed: false });
    expect(await run({ config: { ...config, evaluation: { every: 0 } }, session })).toMatchObject({ reason: 'finished', step: 4 });
  });

  it('in the middle leaves out the evaluation of its step: an older version is not evaluated in its place', async () => {
    expect(await run({ config, session: refusing((version) => version === 2) })).toMatchObject({ reason: 'finished', version: 4 });
    expect(await evaluations()).toEqual([
      [0, 0],
      [4, 4],
    ]);
    expect((await eventsOf(path)).find(({ kind }) => kind === 'alarm')!.message).toBe(
      'The evaluation after step 2 was not played: version 2 does not serve',
    );
  });

  it('has its evaluation played where an older process recorded that of an older version', async () => {
    await run({ config });
    const metrics = join(path, 'metrics.jsonl');
    const lines = (await readFile(metrics, 'utf8')).trimEnd().split('\n');
    const old = JSON.stringify({ ...(JSON.parse(lines.at(-1)!) as object), policy_version: 3, reward_mean: 0.99 });
    await writeFile(metrics, `${[...lines.slice(0, -1), old].join('\n')}\n`);
    const file = join(path, 'evaluations/step-000004.jsonl');
    await writeFile(file, (await readFile(file, 'utf8')).replaceAll('"policy_version":4', '"policy_version":3'));
    let turns = 0;
    expect(await run({ config, onTurn: () => void turns++ })).toMatchObject({ reason: 'finished' });
    expect(turns).toBe(4);
    expect(await evaluations()).toEqual([
      [0, 0],
      [2, 2],
      [3, 3],
      [4, 4],
    ]);
  });
});
