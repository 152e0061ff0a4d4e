import { mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { Random } from '../../src/core/random.ts';
import { until } from '../transport/loopback.ts';
import { startServer } from '../attacks/attacked-process.ts';
import { Caller, logProbsOf, taught } from '../server/tinker/tinker-caller.ts';

const DATA = [taught([300, 301, 7, 9, 42, 11, 5, 8, 3, 21]), taught([17, 4, 99, 250, 31])];
const STEPS = 4;

const serve = (state: string) => startServer(['tinker', '--threads', '2', '--state', state]);
const newState = () => mkdtempSync(join(tmpdir(), 'vf-tinker-kill-'));

/** Log-probs after a step. */
async function stepped(caller: Caller, model: string): Promise<number[]> {
  await caller.pass(model, DATA);
  const { error } = await caller.step(model);
  if (error !== undefined) throw new Error(error);
  return logProbsOf(await caller.pass(model, DATA, { isForwardOnly: true }));
}

async function saved(caller: Caller, model: string, name: string): Promise<string> {
  const { path } = await caller.resultOf<{ path: string }>('save_weights', { model_id: model, seq_id: caller.next(), path: name });
  return path;
}

/** A new model of a new session that goes on from a checkpoint. */
async function resumed(url: string, path: string) {
  const caller = new Caller(url);
  const { session_id: session } = await caller.ask<{ session_id: string }>('create_session', {});
  const { model_id: model } = await caller.resultOf<{ model_id: string }>('load_weights', {
    session_id: session,
    model_seq_id: 0,
    path,
    optimizer: true,
  });
  return { caller, model };
}

/** The log-probs after each step of a run that nothing interrupts, and how long it took. */
async function uninterrupted() {
  await using server = await serve(newState());
  const caller = new Caller(server.url);
  const model = await caller.model();
  const startMs = performance.now();
  const logProbs: number[][] = [];
  for (let step = 0; step < STEPS; step++) {
    logProbs.push(await stepped(caller, model));
    await saved(caller, model, `step-${step}`);
  }
  return { logProbs, tookMs: performance.now() - startMs };
}

/** Kills a server in the middle of a run. What it had acknowledged, what the next server has, and the steps whose numbers are others there. */
async function killedAt(moment: (acknowledged: readonly string[]) => Promise<unknown>, expected: Awaited<ReturnType<typeof uninterrupted>>) {
  const state = newState();
  const killed = await serve(state);
  const caller = new Caller(killed.url);
  const model = await caller.model();
  const acknowledged: string[] = [];
  const run = (async () => {
    for (let step = 0; step < STEPS; step++) {
      await stepped(caller, model);
      acknowledged.push(await saved(caller, model, `step-${step}`));
    }
  })().catch(() => {});
  await Promise.race([run, moment(acknowledged)]);
  killed.child.kill('SIGKILL');
  await killed.ended;
  await run;

  await using again = await serve(state);
  const answer = await new Caller(again.url).get(`training_runs/${model}/checkpoints`);
  const paths = ((await answer.json()) as Listed).checkpoints.map(({ tinker_path: path }) => path);
  const others: number[] = [];
  for (const path of paths) {
    const step = Number(path.split('-').at(-1));
    const { caller: other, model: copy } = await resumed(again.url, path);
    const found = logProbsOf(await other.pass(copy, DATA, { isForwardOnly: true }));
    if (!isDeepStrictEqual(found, expected.logProbs[step])) others.push(step);
    if (step + 1 < STEPS && !isDeepStrictEqual(await stepped(other, copy), expected.logProbs[step + 1])) others.push(step + 1);
  }
  return { acknowledged, paths, others };
}

describe('vf-serve tinker', () => {
  it('continues to the bit after kill -9, from every checkpoint that it acknowledged', { timeout: 120_000 }, async () => {
    const expected = await uninterrupted();
    const { acknowledged, paths, others } = await killedAt((done) => until(() => done.length === 2), expected);
    expect(paths).toEqual(expect.arrayContaining(acknowledged));
    // One more may be whole whose acknowledgement did not arrive.
    expect(paths.length).toBeLessThanOrEqual(acknowledged.length + 1);
    expect(acknowledged.length).toBeGreaterThan(1);
    expect(others).toEqual([]);
  });

  it('continues to the bit after kill -9 at ten random moments', { tags: 'long', timeout: 600_000 }, async () => {
    const expected = await uninterrupted();
    const random = Random.fromSeed(11);
    for (let kill = 0; kill < 10; kill++) {
      const { acknowledged, paths, others } = await killedAt(() => sleep(1.1 * random.float() * expected.tookMs), expected);
      expect(paths).toEqual(expect.arrayContaining(acknowledged));
      expect([paths.length - acknowledged.length, others]).toEqual([expect.toSatisfy((more: number) => more <= 1), []]);
    }
  });
});

interface Listed {
  readonly checkpoints: readonly { readonly tinker_path: string }[];
}
