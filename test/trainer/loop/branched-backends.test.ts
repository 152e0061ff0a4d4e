/** One update over rollouts with branches, by the embedded engine and by the torch worker: ordinary sequences for both. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { GradientBackend } from '../../../src/trainer/gradient-backend.ts';
import { trainingSequence, type TrainingSequence } from '../../../src/trainer/credit.ts';
import { branchSequences } from '../../../src/trainer/credit/branch-sequences.ts';
import { logProbPass } from '../../../src/trainer/gradients/log-prob-pass.ts';
import { optimizerStep } from '../../../src/trainer/loop/optimizer-step.ts';
import { tokenParts } from '../../../src/trainer/trajectory-branches.ts';
import type { Trajectory } from '../../../src/trainer/trajectory.ts';
import { distance } from '../../contracts/gradient-cases.ts';
import { writeRandomAdapter } from '../gradients/embedded/nano-adapter.ts';
import { openNano as openEmbedded } from '../gradients/embedded/nano-backend.ts';
import { openNano as openTorch } from '../gradients/torch/nano-backend.ts';
import { skipReason, torchPython } from '../gradients/torch/torch-python.ts';
import { NanoTrainer, ratioTerm } from '../nano-trainer.ts';

/** The rollout cut after this many of its targets: the first branch ends there, and the second begins with all of it, as a conversation that goes on. */
function cutAt({ trajectory: whole, advantages }: TrainingSequence, count: number): TrainingSequence[] {
  const end = whole.targets[count - 1]! + 1;
  const places = whole.targets.map((at, t) => (t < count ? at : at + end));
  const cut: Trajectory = {
    ...whole,
    ids: Int32Array.from([...whole.ids.subarray(0, end), ...whole.ids]),
    targets: places,
    branches: [
      { start: 0, end, promptLength: whole.promptLength, parent: null },
      { start: end, end: end + whole.ids.length, promptLength: end, parent: 0 },
    ],
  };
  const sequences = branchSequences(trainingSequence(cut, advantages), { branches: 'all', branchWeight: 'rollout' });
  return sequences.map((sequence) => ({ ...sequence, oldLogProbs: sequence.logProbs }));
}

const SEQUENCE_MEAN = { terms: [ratioTerm({ aggregation: { kind: 'sequence_mean', within: 'mean', countEmpty: false } })] };

async function gradientOf(nano: NanoTrainer<GradientBackend>, of: readonly TrainingSequence[]) {
  return nano.gradientOf((adam) => optimizerStep(of, nano.stepOptions({ ...SEQUENCE_MEAN, adam })));
}

/** How far the gradient of rollouts is from that of the same rollouts cut in two, and two results of the cut ones. */
async function taken(nano: NanoTrainer<GradientBackend>) {
  const whole = (await nano.sequences([1, -1, 0.5])).filter(({ targets }) => targets.length > 2);
  const branches = whole.flatMap((sequence) => cutAt(sequence, 2));
  const weights = async () => {
    await nano.reset();
    await optimizerStep(branches, nano.stepOptions(SEQUENCE_MEAN));
    return nano.weights();
  };
  return {
    count: [whole.length, branches.length],
    far: distance(await gradientOf(nano, branches), await gradientOf(nano, whole)),
    weights: [await weights(), await weights()] as const,
  };
}

describe('a step over rollouts with branches', { timeout: 240_000 }, () => {
  let root: string;
  /** Both backends start from it. */
  let initial: string;
  let embedded: NanoTrainer<GradientBackend>;
  beforeAll(async () => {
    root = mkdtempSync(join(tmpdir(), 'vf-branched-'));
    initial = writeRandomAdapter({ directory: join(root, 'initial'), rank: 3, alpha: 12, seed: 4 });
    embedded = await NanoTrainer.open<GradientBackend>(openEmbedded({ adapter: { initial } }));
  });
  afterAll(async () => {
    await embedded?.[Symbol.asyncDispose]();
    rmSync(root, { recursive: true });
  });

  it('has the gradient of the same rollouts uncut, and the same weights when it is taken again', async () => {
    const { count, far, weights } = await taken(embedded);
    expect(count).toEqual([3, 6]);
    expect(far).toBeLessThan(2e-6);
    expect(weights[0]).toEqual(weights[1]);
  });

  it('has the log-probs of each branch in its own context', async () => {
    const [first] = await embedded.sequences([1]);
    const { trajectory } = cutAt(first!, 2)[0]!.branchOf!;
    const pass = { ...embedded.stepOptions(), temperature: 1 };
    const [together] = await logProbPass([trajectory], 'on', pass);
    const apart = await logProbPass(tokenParts(trajectory), 'on', pass);
    expect([...together!]).toEqual(apart.flatMap((values) => [...values]));
    expect(together!.length).toBe(trajectory.targets.length);
  });

  it.skipIf(torchPython.path === null)(
    `is the same with the torch worker, within float32${skipReason}`,
    { tags: 'long', timeout: 240_000 },
    async () => {
      await using torch = await NanoTrainer.open<GradientBackend>(openTorch({ adapter: { initial } }));
      const { far, weights } = await taken(torch);
      expect(far).toBeLessThan(2e-6);
      expect(weights[0]).toEqual(weights[1]);
      const branches = (await embedded.sequences([1, -1])).flatMap((sequence) => cutAt(sequence, 2));
      expect(distance(await gradientOf(embedded, branches), await gradientOf(torch, branches))).toBeLessThan(1e-4);
    },
  );
});
