/**
 * Self-play over programs with a real vLLM and a real torch worker: nano-coder proposes, solves and grades, in its own server.
 * @module-tag long
 */
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { VllmServer } from '../../src/clients/vllm-server.ts';
import { VllmTokenizer } from '../../src/clients/vllm-tokenizer.ts';
import { Random } from '../../src/core/random.ts';
import { openLocalTokenizer } from '../../src/tokenizer/local-tokenizer.ts';
import { answersOf } from '../tokenizer/same-ids.ts';
import { EvaluationFolder, judge } from './evaluation-process.ts';
import { selfPlayArgs } from './self-play-args.ts';
import { type ServedModel, serveModel, serveUnlessGiven } from './serve.ts';
import { finished, type RunFolder, TrainFolder } from './train-process.ts';

const MODEL = 'nano-coder';
const ROLES = ['propose', 'solve', 'critique'];
const signal = new AbortController().signal;

let server: ServedModel;
beforeAll(async () => {
  server = await serveUnlessGiven('VLLM_CODER_BASE_URL', () =>
    serveModel(`packages/vf-search-models/models/${MODEL}`, { VF_VLLM_LORA: '1', VF_VLLM_MAX_MODEL_LEN: '512' }),
  );
});
afterAll(() => server?.[Symbol.asyncDispose]());

describe('VllmTokenizer of a server of nano-coder', () => {
  it('gives the ids of the local tokenizer, with the template of the model', async () => {
    const api = new VllmServer({ baseUrl: server.url, random: Random.fromSeed(0) });
    onTestFinished(() => api.close());
    const theirs = new VllmTokenizer().at({ server: api, model: MODEL, signal });
    const ours = await openLocalTokenizer(join(import.meta.dirname, '../../packages/vf-search-models/models', MODEL));
    for (const content of ['propose o', `solve o\n<code>def f(a):a=a[::-1];return a</code><input>'314'</input>`, 'critique\n<think>a=a*2;6;</think>'])
      expect(await theirs.render([{ role: 'user', content }])).toEqual(await ours.render([{ role: 'user', content }]));
    expect(await answersOf(theirs)).toEqual(await answersOf(ours));
  });
});

describe('vf-eval self-play-code, played by a real vLLM', () => {
  it("solves held-out programs of every kind, with log-probs that are the server's own", async () => {
    using folder = new EvaluationFolder();
    const args = JSON.stringify({ prompt: 'mini', max_response_length: 110 });
    const { summary, rollouts } = await folder.evaluate({ url: server.url, model: MODEL }, 'self-play-code', '-n', '36', '-a', args);
    expect(summary).toMatchObject({ rollouts: { planned: 36, finished: 36, errored: 0 }, errors: {}, prefix_breaks: 0 });
    expect(Object.fromEntries(Object.entries(summary.tasks!).map(([kind, { finished: count }]) => [kind, count]))).toEqual({
      code_i: 12,
      code_o: 12,
      code_f: 12,
    });
    const { error, tokens } = await judge(server.url, rollouts, MODEL);
    expect(tokens).toBeGreaterThan(300);
    expect(error).toBeLessThan(1e-4);
  });
});

describe('vf-train self-play-code --preset crsp with a real vLLM and torch', () => {
  const folder = new TrainFolder();
  let run: RunFolder;
  beforeAll(async () => {
    const process = folder.start(selfPlayArgs({ steps: 3 }).concat('-b', server.url));
    await finished(process);
    run = folder.run()!;
  });
  afterAll(() => folder[Symbol.dispose]());

  const last = (step: number, phase: string) => [...new Map(run.rollouts(step, phase).map((line) => [line.rollout_id, line])).values()];
  /** Of the metrics whose names begin so. */
  const values = (step: number | 'all', prefix: string) =>
    run
      .rows('step')
      .filter((row) => step === 'all' || row.step === step)
      .flatMap((row) => Object.entries(row).flatMap(([name, value]) => (name.startsWith(prefix) && typeof value === 'number' ? [value] : [])));

  it('takes every step, and trains on the tokens and log-probs of the server', () => {
    expect(run.steps()).toEqual([1, 2, 3]);
    for (const row of run.rows('step')) {
      expect(row).toMatchObject({ rollouts_failed: 0, optimizer_steps: 2, optimizer_steps_skipped: 0, policy_version: row.step });
      expect(row['log_prob_difference_max']).toBeLessThanOrEqual(1e-4);
      expect(row['probe_difference_max']).toBeLessThanOrEqual(1e-4);
    }
  });

  it('measures KL and ratio of each role', () => {
    for (const role of ROLES) {
      const kl = values('all', `loss/policy/approx_kl/${role}`);
      // Rollouts of the second of two updates are off policy; rounding alone gives 1e-12. In one step, all critiques may be in the first update, or none written.
      expect(role === 'critique' ? Math.max(...kl) : Math.min(...kl)).toBeGreaterThan(1e-9);
      expect(kl.length).toBeGreaterThanOrEqual(role === 'critique' ? 1 : 3);
      for (const ratio of values('all', `loss/policy/ratio_mean/${role}`)) expect(ratio).toBeCloseTo(1, 1);
    }
  });

  it('pays proposals after their solutions, in the range of the rewards', () => {
    for (const step of [1, 2, 3]) {
      const proposals = last(step, 'propose').filter(({ complete }) => complete !== true);
      expect(proposals).toHaveLength(12);
      expect(proposals.every(({ unpaid, reward, error }) => unpaid === true && reward === null && error === null)).toBe(true);
      const paid = values(step, 'reward/propose/');
      expect(paid).toHaveLength(3);
      expect(paid.every((reward) => reward >= -1 && reward < 1)).toBe(true);
    }
    expect(Math.max(...[1, 2, 3].flatMap((step) => values(step, 'reward/propose/')))).toBeGreaterThan(-1);
  });

  it('has solutions graded by two critics each, in JSON, and pays the critics', () => {
    const critiques = [1, 2, 3].flatMap((step) => {
      const written = last(step, 'critic').filter(({ complete }) => complete !== true);
      const row = run.rows('step')[step - 1]!;
      expect(written.length).toBe(row['source/critiques']! + row['source/critiques_malformed']!);
      return written;
    });
    const grades = critiques.flatMap(({ segments: [reply] }) => /"grade": (\d(?:\.\d+)?)\}/.exec(reply!.text)?.[1] ?? []);
    // Three runs had 52 to 62 critiques, 77 to 89 % of them with a grade. One step alone may have six, half of them with a grade.
    expect(grades.length).toBeGreaterThan(critiques.length / 2);
    const paid = values('all', 'reward/critique/');
    expect(paid.length).toBeGreaterThan(0);
    expect(paid.every((reward) => reward >= 0 && reward <= 1)).toBe(true);
  });
});
