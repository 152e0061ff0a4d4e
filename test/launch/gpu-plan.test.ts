import { describe, expect, it } from 'vitest';
import type { GpuCard } from '../../src/launch/gpu-cards.ts';
import { fitGpus, type GpuNeeds, type GpuPlan } from '../../src/launch/gpu-plan.ts';
import { GIB, trainerMemory } from '../../src/launch/memory-estimate.ts';
import { readModelShape } from '../../src/launch/model-shape.ts';

const targets = ['q_proj', 'k_proj', 'v_proj', 'o_proj', 'gate_proj', 'up_proj', 'down_proj'];
const card = (gib: number, index = 0, usedGib = 0): GpuCard => ({
  index,
  uuid: `GPU-${index}`,
  name: 'H100',
  totalBytes: gib * GIB,
  usedBytes: usedGib * GIB,
  driver: '580',
});

/** Both programs on one card. */
function needs(gib: number, changes: Partial<GpuNeeds> = {}): GpuNeeds {
  const own = card(gib);
  return {
    shape: readModelShape('Qwen3-4B')!,
    rank: 16,
    targets,
    bytesPerWeight: 2,
    checkpointing: 'auto',
    maxTokens: 16_384,
    isMaxTokensChosen: false,
    contextTokens: 4596,
    maxConcurrent: 256,
    workers: [own],
    isDivided: false,
    servers: [[own]],
    givenShare: null,
    takesTurns: false,
    spare: [],
    ...changes,
  };
}

function plan(given: GpuNeeds): GpuPlan {
  const fit = fitGpus(given);
  if (!('plan' in fit)) throw new Error(`${fit.problem}; ${fit.change}`);
  return fit.plan;
}

describe('fitGpus', () => {
  it.each([40, 48, 78, 96, 141, 180])('gives both programs of a card of %i GiB together at most nine tenths of it', (gib) => {
    const { worker, serverBytes, share } = plan(needs(gib));
    expect(worker.total + serverBytes!).toBeLessThanOrEqual(0.9 * gib * GIB);
    expect(serverBytes).toBe(share! * gib * GIB);
    // What is left is less than a hundredth, to which the share is rounded.
    expect(worker.total + serverBytes!).toBeGreaterThan(0.89 * gib * GIB - 1);
  });

  it('turns checkpointing on where the activations do not fit next to a useful cache, and off where they do', () => {
    expect(plan(needs(78)).checkpointing).toBe(true);
    expect(plan(needs(180)).checkpointing).toBe(false);
    const first = card(96);
    expect(plan(needs(96, { workers: [first], servers: [[card(96, 1)]] })).checkpointing).toBe(false);
    expect(plan(needs(180, { checkpointing: true })).checkpointing).toBe(true);
  });

  it('lowers the micro-batch on a small card, never below the longest rollout', () => {
    const { maxTokens, checkpointing } = plan(needs(38));
    expect(checkpointing).toBe(true);
    expect(maxTokens).toBeLessThan(16_384);
    expect(maxTokens).toBeGreaterThanOrEqual(4596);
    expect(fitGpus(needs(38, { maxTokens: 16_000, isMaxTokensChosen: true }))).toMatchObject({ change: 'set backend.max_tokens = 8192' });
  });

  it('gives vLLM nine tenths of a card of its own, less what other programs hold', () => {
    expect(plan(needs(78, { servers: [[card(78, 1)]] })).share).toBe(0.9);
    expect(plan(needs(78, { servers: [[card(78, 1, 7.8)]] })).share).toBe(0.8);
  });

  it('divides the model of a server over its cards, and counts the rollouts of each server', () => {
    const cards = [1, 2, 3, 4].map((index) => card(24, index));
    const one = plan(needs(78, { servers: [[cards[0]!]] }));
    const [alone] = one.rollouts!;
    expect(plan(needs(78, { servers: cards.map((own) => [own]) })).rollouts).toEqual([alone, alone, alone, alone]);
    // Four cards hold the weights once instead of four times.
    expect(plan(needs(78, { servers: [cards] })).rollouts![0]).toBeGreaterThan(4 * alone!);
  });

  it('plans for the smallest of several workers, each with a whole copy', () => {
    const both = plan(needs(78, { workers: [card(78), card(20, 1)], servers: [] }));
    expect(both).toMatchObject({ share: null, serverBytes: null });
    expect(both.worker.total).toBeLessThanOrEqual(18 * GIB);
    expect(both.maxTokens).toBe(plan(needs(20, { servers: [] })).maxTokens);
  });

  it('keeps a share that the user gave, and refuses one that leaves the worker too little', () => {
    expect(plan(needs(78, { givenShare: 0.5 })).share).toBe(0.5);
    expect(fitGpus(needs(78, { givenShare: 0.9 }))).toMatchObject({ change: 'leave --gpu-memory-utilization out of [policy.launch].args' });
  });

  it('says what the run needs, what there is, and the least change that makes it fit', () => {
    const fit = fitGpus(needs(26));
    const { total } = trainerMemory(readModelShape('Qwen3-4B')!, { rank: 16, targets, bytesPerWeight: 2, checkpointing: true, maxTokens: 4596 });
    expect(fit).toMatchObject({
      problem: expect.stringMatching(
        new RegExp(
          `^Qwen3-4B does not fit: the worker needs ${(total / GIB).toFixed(1)} GiB with gradient checkpointing and micro-batches of 4596 tokens, vLLM at least`,
        ),
      ) as string,
    });
    expect(fitGpus(needs(48, { checkpointing: false }))).toMatchObject({ change: 'set backend.gradient_checkpointing = "auto"' });
    expect(fitGpus(needs(26, { spare: [card(26, 1)] }))).toMatchObject({ change: expect.stringContaining('backend.device = "cuda:1"') as string });
    expect(fitGpus(needs(8))).toMatchObject({ change: expect.stringMatching(/^use a GPU of at least \d+ GiB, or a smaller model$/) as string });
  });

  it('names a change that really fits', () => {
    const wanted = /at least (\d+) GiB/.exec((fitGpus(needs(8)) as { change: string }).change)![1];
    expect(plan(needs(Number(wanted))).checkpointing).toBe(true);
  });

  it('counts what other programs hold', () => {
    const busy = card(78, 0, 60);
    expect(fitGpus(needs(78, { workers: [busy], servers: [[busy]] }))).toMatchObject({
      problem: expect.stringContaining('60.0 GiB of them used by other programs') as string,
    });
  });

  it('lets a card that is too small for both at once hold one after the other', () => {
    expect(fitGpus(needs(35))).toMatchObject({ change: 'let vLLM and the worker take turns on the GPU: policy.launch.sleep = true' });
    const { worker, serverBytes, maxTokens } = plan(needs(35, { takesTurns: true }));
    const resident = worker.weights + worker.adapter + worker.context;
    expect(resident + serverBytes!).toBeLessThanOrEqual(0.9 * 35 * GIB);
    expect(worker.total + serverBytes!).toBeGreaterThan(0.9 * 35 * GIB);
    expect(maxTokens).toBe(16_384);
  });
});
