/** What is left of a run whose process dies, and what a resume makes of it. The processes, kills and full disks are real. */
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { appendFile, mkdtemp, readdir, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { Random } from '../../src/core/random.ts';
import type { WireMetadata, WireResult, WireTokens } from '../../src/schemas/results.ts';
import type { Summary } from '../../src/schemas/summary.ts';
import { finish, NODE, OPTIONS, recorded, start } from './sums-process.ts';

let directory: string;
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'vf-kill-'));
});
afterEach(() => rm(directory, { recursive: true }));

async function lines<T>(file: string): Promise<T[]> {
  const content = await readFile(join(directory, 'run', file), 'utf8');
  return content
    .split('\n')
    .slice(0, -1)
    .map((line) => JSON.parse(line) as T);
}

function startTimes(results: readonly WireResult[]): Record<string, number> {
  return Object.fromEntries(results.map((result) => [result.rollout_id, result.timing.start_time]));
}

/** What must not depend on how often the run was killed. */
function essence({ summary }: { summary: Summary }): object {
  const { directory: _d, wallSeconds: _w, rolloutsPerSecond: _r, ...rest } = summary;
  return rest;
}

describe('a run killed at random moments', () => {
  it('ends, once resumed, like one that was never killed, and plays no finished rollout again', async () => {
    const random = Random.fromSeed(11);
    const run = join(directory, 'run');
    let before: Record<string, number> = {};
    for (let round = 0; round < 2; round++) {
      const child = start(run, { turnMs: 3, resume: round > 0 });
      await recorded(child, 1 + random.integer(25));
      child.kill('SIGKILL');
      await once(child, 'close');
      const starts = startTimes(await lines<WireResult>('results.jsonl'));
      // A rollout that was played again would have started at another time.
      expect(starts).toEqual({ ...starts, ...before });
      before = starts;
    }
    const resumed = await finish(run, { resume: true });
    const whole = await finish(join(directory, 'whole'), {});
    expect(essence(resumed)).toEqual(essence(whole));
    expect(resumed.summary.rollouts).toEqual({ planned: 120, recorded: 120, finished: 120, errored: 0 });

    const { sessions } = JSON.parse(await readFile(join(run, 'metadata.json'), 'utf8')) as WireMetadata;
    expect(sessions.map((s) => s.recorded).reduce((a, b) => a + b)).toBe(120);
    expect(sessions.every((s) => s.recorded === 0 || s.seconds > 0.001)).toBe(true);

    const results = await lines<WireResult>('results.jsonl');
    const tokens = await lines<WireTokens>('tokens.jsonl');
    expect(new Set(results.map((r) => r.rollout_id)).size).toBe(120);
    expect(results).toHaveLength(120);
    expect(new Set(tokens.map((t) => t.rollout_id))).toEqual(new Set(results.map((r) => r.rollout_id)));
    expect(tokens).toHaveLength(120);
    expect(Object.keys(before).length).toBeGreaterThan(4);
    expect(startTimes(results)).toEqual({ ...startTimes(results), ...before });
    expect((await readdir(run)).toSorted()).toEqual(['metadata.json', 'played.jsonl', 'results.jsonl', 'tokens.jsonl']);
  });

  it('keeps what precedes a torn line and drops tokens without a result', async () => {
    const run = join(directory, 'run');
    await finish(run, { rows: 2 });
    const [first] = await lines<WireTokens>('tokens.jsonl');
    await appendFile(join(run, 'tokens.jsonl'), `${JSON.stringify({ ...first, rollout_id: '9/9' })}\n{"rollout_id":"1`);
    await appendFile(join(run, 'results.jsonl'), '{"example_id":1,"prompt":[{"role":"us');
    const { summary } = await finish(run, { rows: 3, resume: true });
    expect(summary.rollouts).toEqual({ planned: 12, recorded: 12, finished: 12, errored: 0 });
    expect((await lines<WireTokens>('tokens.jsonl')).map((t) => t.rollout_id).toSorted()).toEqual(
      (await lines<WireResult>('results.jsonl')).map((r) => r.rollout_id).toSorted(),
    );
  });
});

const canMount = spawnSync('unshare', ['-Urm', 'true']).status === 0;

describe.runIf(canMount)('a full disk', () => {
  it('ends the run with one clear error, keeps what was recorded, and the resume continues from there', async () => {
    const mount = join(directory, 'run');
    const steps = [
      'set -e',
      `mkdir -p ${mount}`,
      `mount -t tmpfs -o size=192k tmpfs ${mount}`,
      `"$@" ${mount} '${JSON.stringify({ ...OPTIONS, padding: 400 })}' > ${directory}/first.json || true`,
      `cp -r ${mount} ${directory}/left`,
      `mount -o remount,size=16m ${mount}`,
      `"$@" ${mount} '${JSON.stringify({ ...OPTIONS, padding: 400, resume: true })}' > ${directory}/second.json`,
    ];
    const child = spawn('unshare', ['-Urm', 'sh', '-c', steps.join('\n'), 'sh', process.execPath, ...NODE], { stdio: 'ignore' });
    await once(child, 'close');
    const first = JSON.parse(await readFile(join(directory, 'first.json'), 'utf8')) as { name: string; message: string };
    expect(first).toEqual({
      name: 'ResultsError',
      message: expect.stringContaining('the disk is full. Free some space and resume the run') as string,
    });
    const left = (await readFile(join(directory, 'left', 'results.jsonl'), 'utf8')).trimEnd().split('\n');
    expect(left.length).toBeGreaterThan(5);
    expect(left.map((line) => (JSON.parse(line) as WireResult).reward).every((reward) => reward === 0 || reward === 1)).toBe(true);
    const { summary } = JSON.parse(await readFile(join(directory, 'second.json'), 'utf8')) as { summary: Summary };
    expect(summary.rollouts).toEqual({ planned: 120, recorded: 120, finished: 120, errored: 0 });
  });
});
