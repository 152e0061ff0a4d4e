import { closeSync, existsSync, readdirSync, statSync } from 'node:fs';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { TraceFile, type TraceFileOptions } from '../../src/files/trace-file.ts';

let directory: string;
let path: string;
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'vf-trace-file-'));
  path = join(directory, 'trace.jsonl');
});
afterEach(() => rm(directory, { recursive: true }));

function records(id: string, play: number, written: readonly string[]) {
  const place = { ts: 1, group_id: id.split('/')[0]!, rollout_id: id, turn: null, play };
  return written.map((text, seq) => ({
    ...place,
    event: seq === written.length - 1 ? 'reward' : 'model.turn',
    seq,
    text,
    ...(seq === written.length - 1 ? { lines: written.length } : {}),
  }));
}

function open(options: Partial<TraceFileOptions> = {}): Promise<TraceFile> {
  return TraceFile.open(path, { runId: 'r', about: { environment: 'e' }, ...options });
}

async function texts(): Promise<(string | undefined)[]> {
  const lines = (await readFile(path, 'utf8')).trimEnd().split('\n');
  return lines.map((line) => JSON.parse(line) as { text?: string; event: string }).map(({ text, event }) => (event === 'run.start' ? '-' : text));
}

describe('TraceFile', () => {
  it('keeps the last piece of a rollout that was played again, and drops torn ends, when it is opened again', async () => {
    const first = await open();
    first.add({ step: 1 }, records('a/0', 10, ['a1', 'a2']));
    first.add({ step: 1 }, records('b/0', 11, ['b1', 'b2']));
    first.add({ step: 1 }, records('a/0', 20, ['A1', 'A2', 'A3']));
    first.add({ step: 2 }, records('a/0', 30, ['next step']));
    await first.close();
    const torn = JSON.stringify({ ...records('c/0', 40, ['c1', 'c2'])[0], run_id: 'r', step: 2 });
    await writeFile(path, `${await readFile(path, 'utf8')}${torn}\n{"ts":1,"ev`);
    await (await open()).close();
    expect(await texts()).toEqual(['-', 'b1', 'b2', 'A1', 'A2', 'A3', 'next step', '-']);
  });

  it('tells rollouts of the same name apart by step, phase and purpose', async () => {
    const places = [{ step: 1 }, { step: 1, phase: 'refill-1' }, { step: 1, isEvaluation: true }, { step: null }];
    const trace = await open();
    for (const [i, place] of places.entries()) trace.add(place, records('a/0', i, [`text ${i}`]));
    await trace.close();
    await (await open()).close();
    expect(await texts()).toEqual(['-', 'text 0', 'text 1', 'text 2', 'text 3', '-']);
  });

  it('drops rollouts that no longer count', async () => {
    const trace = await open();
    for (const id of ['a/0', 'b/0']) trace.add({ step: 3 }, records(id, 1, [id]));
    await trace.close();
    const seen: unknown[] = [];
    const again = await open({ isKept: (place, id) => (seen.push([place.step, id]), id === 'b/0') });
    await again.close();
    expect(seen).toEqual([
      [3, 'a/0'],
      [3, 'b/0'],
    ]);
    expect(await texts()).toEqual(['-', 'b/0', '-']);
  });

  it('counts a rollout whose fields are no JSON and goes on', async () => {
    const losses: string[] = [];
    const trace = await open({ onLoss: (problem) => losses.push(problem) });
    trace.add({ step: 1 }, [{ ...records('a/0', 1, ['a'])[0], wrong: 1n }]);
    trace.add({ step: 1 }, records('b/0', 1, ['b']));
    await trace.close();
    expect(trace.lost).toBe(1);
    expect(losses).toEqual([expect.stringContaining('BigInt')]);
    expect(trace.notice).toContain('trace.jsonl lacks 1 rollout: ');
    expect(await texts()).toEqual(['-', 'b']);
  });

  // The system tells there which descriptor is the file.
  it.runIf(existsSync('/proc/self/fd'))('says that the end may be missing where only closing failed, and names no number of rollouts', async () => {
    const trace = await open();
    trace.add({ step: 1 }, records('a/0', 1, ['a']));
    const { ino } = statSync(path);
    const descriptor = readdirSync('/proc/self/fd').find((each) => statSync(`/proc/self/fd/${each}`, { throwIfNoEntry: false })?.ino === ino);
    closeSync(Number(descriptor));
    await trace.close();
    expect(trace.lost).toBe(0);
    expect(trace.notice).toMatch(/^The end of trace\.jsonl may be missing: .*EBADF/);
  });
});
