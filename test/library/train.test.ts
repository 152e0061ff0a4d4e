import { hash } from 'node:crypto';
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it, onTestFinished } from 'vitest';
import { ConfigError } from '../../src/core/errors.ts';
import { train, type TrainedStep, type TrainOptions } from '../../src/library/train.ts';
import { loadEnvironment } from '../../src/registry/load-environment.ts';
import { runInProcess } from '../cli/in-process.ts';

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'vf-train-library-'));
});
afterEach(() => rmSync(folder, { recursive: true }));

/** The laptop preset cut short. */
const SHORT = {
  environment: 'search-r1',
  preset: 'laptop',
  steps: 2,
  settings: {
    rollouts: { examplesPerStep: 2, rolloutsPerExample: 4 },
    evaluation: { every: 0 },
    checkpoint: { every: 1 },
    policy: { embedded: { threads: 1 } },
  },
} satisfies TrainOptions;
const SHORT_FLAGS = [
  'search-r1',
  '--preset',
  'laptop',
  '--steps',
  '2',
  '-n',
  '2',
  '-r',
  '4',
  '--set',
  'evaluation.every=0',
  '--set',
  'policy.embedded.threads=1',
  '--plain',
];

const weights = (adapter: string | null) => hash('sha256', readFileSync(join(adapter!, 'adapter_model.safetensors')), 'hex');

describe('train', () => {
  it('makes the bits of vf-train, in one go and after an abort and a resume', { timeout: 300_000 }, async () => {
    const steps: TrainedStep[] = [];
    const whole = await train({ ...SHORT, output: join(folder, 'whole'), onStep: (step) => steps.push(step) });
    expect(whole).toMatchObject({ reason: 'finished', step: 2, resumable: false, message: null });
    expect(steps.map(({ step, steps: all }) => [step, all])).toEqual([
      [1, 2],
      [2, 2],
    ]);
    expect(steps.map(({ reward }) => reward)).toEqual(whole.metrics.map(({ values }) => values['reward_mean']));

    const controller = new AbortController();
    const output = join(folder, 'aborted');
    const aborted = await train({ ...SHORT, output, signal: controller.signal, onStep: ({ step }) => step === 1 && controller.abort() });
    expect(aborted).toMatchObject({ reason: 'interrupted', resumable: true });
    expect(aborted.step).toBeLessThan(2);
    const resumed = await train({ resume: aborted.directory });
    expect(resumed).toMatchObject({ reason: 'finished', step: 2, directory: aborted.directory });
    expect(weights(resumed.adapter)).toBe(weights(whole.adapter));
    // A finished run is a result, and is not trained again.
    const again = await train({ resume: aborted.directory, onStep: () => expect.unreachable('it has finished') });
    expect(again.adapter).toBe(resumed.adapter);

    const words = [...SHORT_FLAGS, '--set', 'checkpoint.every=1', '-o', join(folder, 'command')];
    expect(await runInProcess('vf-train', words, { cwd: folder, env: { HOME: folder } })).toMatchObject({ code: 0 });
    const [run] = readdirSync(join(folder, 'command/train'));
    expect(weights(join(folder, 'command/train', run!, 'checkpoints/step-000002/adapter'))).toBe(weights(whole.adapter));
  });

  it('rejects with what an async callback rejects with, keeps the step, and goes on from there', { tags: 'long', timeout: 300_000 }, async () => {
    const output = join(folder, 'callback');
    const onStep = (): unknown => Promise.reject(new Error('my table is full'));
    await expect(train({ ...SHORT, output, onStep })).rejects.toThrow('my table is full');
    expect(await train({ ...SHORT, output, resume: true })).toMatchObject({ reason: 'finished', step: 2 });
  });

  it('trains a loaded environment as the one of that name, tells every evaluation, and leaves it open', { timeout: 300_000 }, async () => {
    const args = { dataset: 'fact-world', topk: 3, max_turns: 1, end_of_turn: 'kept' };
    const environment = await loadEnvironment('search-r1', args, { purpose: 'training' });
    onTestFinished(() => environment.close());
    const evaluated: number[] = [];
    const settings = { ...SHORT.settings, evaluation: { every: 1, examples: 4 } };
    const trained = await train({ ...SHORT, settings, environment, steps: 1, output: folder, onEvaluation: ({ step }) => evaluated.push(step) });
    expect([trained.reason, evaluated]).toEqual(['finished', [0, 1]]);
    const named = await train({
      ...SHORT,
      settings: { ...settings, environment: { evalArgs: args } },
      args,
      steps: 1,
      output: join(folder, 'named'),
    });
    expect(weights(trained.adapter)).toBe(weights(named.adapter));
    expect(environment.train.at(0).exampleId).toBeDefined();
  });

  it('takes one pass of supervised steps, and on a resume as many as asked', { timeout: 300_000 }, async () => {
    const rows = Array.from({ length: 8 }, (_, i) => ({
      messages: [
        { role: 'user', content: `Who is the mayor of town ${i}?` },
        { role: 'assistant', content: `<answer> M${i}</answer>` },
      ],
    }));
    const sft = join(folder, 'rows.jsonl');
    writeFileSync(sft, rows.map((row) => `${JSON.stringify(row)}\n`).join(''));
    const settings = { model: { path: 'nano-base' }, backend: { kind: 'embedded', threads: 1 }, sft: { batchSize: 4 } } as const;
    const trained = await train({ environment: 'search-r1', args: { dataset: 'fact-world' }, sft, settings, output: folder });
    expect([trained.reason, trained.step]).toEqual(['finished', 2]);
    expect(trained.metrics.map(({ values }) => values['loss/sft/nll'])).toEqual([expect.any(Number), expect.any(Number)]);
    const longer = await train({ resume: trained.directory, steps: 3 });
    expect([longer.reason, longer.step, longer.directory]).toEqual(['finished', 3, trained.directory]);
  });

  it.each<[string, object, RegExp]>([
    ['an option', { ...SHORT, presett: 'laptop' }, /^train has no option presett \(did you mean preset\?\)\./],
    [
      'a setting',
      { ...SHORT, settings: { optimizer: { learningRat: 1 } } },
      /^train has no setting settings\.optimizer\.learningRat \(did you mean learningRate\?\)\./,
    ],
    ['a setting in the words of the file', { ...SHORT, settings: { optimizer: { learning_rate: 1 } } }, /did you mean learningRate\?/],
    ['changes to a run that is not resumed', { ...SHORT, allowChanges: true }, /^allowChanges needs resume: /],
    ['the kind of an option', { ...SHORT, maxWaitMs: '3' }, /^train takes a number from 0 up as maxWaitMs, got a string$/],
    ['a preset', { ...SHORT, preset: 'laptpo' }, /^Unknown preset "laptpo" \(did you mean laptop\?\)/],
    ['a value', { ...SHORT, steps: -1 }, /\bsteps\b.*at least 0/],
    ['no environment', { preset: 'laptop' }, /^train needs an environment/],
  ])('refuses %s', async (_, options, message) => {
    const error = await train({ ...options, output: folder }).catch((thrown: unknown) => thrown);
    expect(error).toBeInstanceOf(ConfigError);
    expect((error as Error).message).toMatch(message);
    expect((error as Error).message).not.toContain('\n');
    expect(readdirSync(folder)).toEqual([]);
  });
});
