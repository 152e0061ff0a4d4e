/** `trace.jsonl` of a training run. */
import { mkdir, mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { reward, Rubric } from '../../../src/core/rubric.ts';
import { CountingEnv } from '../../rollouts/counting-env.ts';
import { eventsOf, newRun, rowsOf, trainSmall } from '../small-run.ts';
import { UnigramBackend } from '../unigram-backend.ts';

let parent: string;
let path: string;
beforeEach(async () => {
  parent = await mkdtemp(join(tmpdir(), 'vf-training-trace-'));
  path = await newRun(parent);
});
afterEach(() => rm(parent, { recursive: true }));

const backend = async () => new UnigramBackend();
const environment = () =>
  new CountingEnv({
    rows: 9,
    maxTurns: 1,
    traces: true,
    rubric: new Rubric({ funcs: [reward(({ modelText }) => modelText.length % 2, { name: 'odd' })] }),
  });

type Line = Readonly<Record<string, unknown>> & { readonly event: string; readonly rollout_id: string | null };

async function rollouts(): Promise<string[]> {
  const lines = (await readFile(join(path, 'trace.jsonl'), 'utf8'))
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line) as Line);
  const own = lines.filter(({ rollout_id: id }) => id !== null);
  const pieces = Map.groupBy(own, (line) => JSON.stringify([line['evaluation'] ?? false, line['step'], line.rollout_id]));
  for (const piece of pieces.values()) expect(piece.map(({ event }) => event)).toEqual(['model.turn', 'reward']);
  return [...pieces.keys()].toSorted();
}

describe('trace.jsonl of a training run', () => {
  it.each([0, 1, 2])('has every rollout and evaluation once, however often the run was interrupted {max_staleness %i}', async (max_staleness) => {
    const config = { rollouts: { examples_per_step: 3, rollouts_per_example: 4, max_concurrent: 4, max_staleness } };
    await trainSmall(path, { backend, environment: environment(), config });
    const whole = await rollouts();
    await rm(path, { recursive: true });
    path = await newRun(parent);
    for (let turns = 13; ; turns += 20) {
      const stop = new AbortController();
      let left = turns;
      const onTurn = () => void (--left === 0 && stop.abort());
      const { reason } = await trainSmall(path, { backend, environment: environment(), config, onTurn, signal: stop.signal });
      if (reason === 'finished') break;
      expect(turns).toBeLessThan(500);
    }
    const found = await rollouts();
    expect(found).toHaveLength(6 * 12 + 3 * 4);
    // Which groups a stream takes in a step depends on how long they took.
    expect(max_staleness === 2 || found.join() === whole.join()).toBe(true);
  });

  it('that cannot be written costs the run nothing: an alarm names the reason, and the metrics count what it lacks', async () => {
    await mkdir(join(path, 'trace.jsonl'));
    const { reason } = await trainSmall(path, { backend, environment: environment() });
    expect(reason).toBe('finished');
    const alarms = (await eventsOf(path)).filter(({ kind, message }) => kind === 'alarm' && message.includes('trace.jsonl'));
    expect(alarms).toEqual([
      expect.objectContaining({ message: expect.stringMatching(/^trace\.jsonl lacks \d+ rollouts: .*is a folder/) as string }),
    ]);
    const rows = (await rowsOf(path)).filter(({ kind }) => kind === 'step');
    expect(rows.at(-1)).toMatchObject({ trace_rollouts_lost: 6 * 12 + 2 * 4 });
  });
});
