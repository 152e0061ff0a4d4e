/** The embedded engine compared with the torch worker: the same batch, adapter and loss, and each other's files. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { ForwardOptions, GradientBackend, PackedBatch } from '../../../../src/trainer/gradient-backend.ts';
import { distance, largestDifference, readAdapter, readGradient, someGradient } from '../../../contracts/gradient-cases.ts';
import { openNano as openTorch } from '../torch/nano-backend.ts';
import { skipReason, torchPython } from '../torch/torch-python.ts';
import { openNano as openEmbedded } from './nano-backend.ts';

const signal = new AbortController().signal;
const KEPT: ForwardOptions = { retain: true, adapter: 'on', signal };
const ADAM = { learningRate: 3e-3, beta1: 0.9, beta2: 0.99, epsilon: 1e-6, weightDecay: 0.01, maxGradNorm: 1 };

/** Sequences of a GRPO step: groups that begin alike, of the length of an episode. */
function episodes(): PackedBatch {
  const heads = [0, 1].map((group) => Array.from({ length: 60 }, (_, i) => (i * 31 + group * 17) % 1500));
  const sequences = Array.from({ length: 6 }, (_, i) => [
    ...heads[i % 2]!,
    ...Array.from({ length: 30 + 7 * i }, (__, j) => (j * j * 13 + i * 101) % 1500),
  ]);
  const offsets = Int32Array.from({ length: 7 }, (_, i) => sequences.slice(0, i).reduce((sum, { length }) => sum + length, 0));
  const targets = sequences.flatMap((tokens, i) => tokens.flatMap((_, j) => (j >= 60 && j % 3 > 0 ? [offsets[i]! + j] : [])));
  return { ids: Int32Array.from(sequences.flat()), offsets, targets: Int32Array.from(targets), temperature: 1 };
}

interface Pair {
  readonly torch: GradientBackend;
  readonly embedded: GradientBackend;
}

describe.skipIf(torchPython.path === null)(`EmbeddedBackend compared with TorchBackend${skipReason}`, { timeout: 240_000 }, () => {
  const batch = episodes();
  let root: string;
  let folders = 0;
  const newFolder = () => join(root, `${++folders}`);
  /** Both hold the adapter that the embedded backend made, whose B is no longer 0. */
  let pair: Pair;
  const opened: GradientBackend[] = [];
  const kept = async (starting: Promise<GradientBackend>) => {
    opened.push(await starting);
    return opened.at(-1)!;
  };
  const accumulate = async (backend: GradientBackend, phase: number) => {
    const { batchId } = await backend.forward(batch, KEPT);
    await backend.backward(batchId, { dLogProbs: someGradient(batch.targets.length, phase) });
  };
  const train = async (backend: GradientBackend, phases: readonly number[]) => {
    const norms: number[] = [];
    for (const phase of phases) {
      await accumulate(backend, phase);
      norms.push((await backend.optimStep(ADAM)).gradNorm);
    }
    return { norms, directory: (await backend.saveAdapter(newFolder())).directory };
  };

  beforeAll(async () => {
    root = mkdtempSync(join(tmpdir(), 'vf-across-'));
    const embedded = await kept(openEmbedded());
    const { directory } = await train(embedded, [0, 1]);
    pair = { torch: await kept(openTorch({ adapter: { initial: directory } })), embedded };
  }, 240_000);
  afterAll(async () => {
    await Promise.all(opened.map((backend) => backend.close()));
    rmSync(root, { recursive: true, force: true });
  });

  it('finds the same log-probs, entropies and gradient with an adapter of the embedded backend', async () => {
    expect(await compare(pair)).toBe('alike');
  });

  it('finds the same log-probs, entropies and gradient with an adapter of the torch backend', { tags: 'long' }, async () => {
    const torch = await kept(openTorch());
    const { directory } = await train(torch, [0, 1]);
    expect(await compare({ torch, embedded: await kept(openEmbedded({ adapter: { initial: directory } })) })).toBe('alike');
  });

  async function compare({ torch, embedded }: Pair): Promise<'alike'> {
    const [theirs, ours] = [await torch.forward(batch, { ...KEPT, entropy: true }), await embedded.forward(batch, { ...KEPT, entropy: true })];
    expect(largestDifference(ours.logProbs, theirs.logProbs)).toBeLessThan(2e-5);
    expect(largestDifference(ours.entropy!, theirs.entropy!)).toBeLessThan(2e-5);
    const gradient = { dLogProbs: someGradient(batch.targets.length, 2), dEntropy: someGradient(batch.targets.length, 3) };
    await torch.backward(theirs.batchId, gradient);
    await embedded.backward(ours.batchId, gradient);
    const states = [newFolder(), newFolder()] as const;
    await torch.saveState(states[0]);
    await embedded.saveState(states[1]);
    const expected = await readGradient(torch, newFolder);
    expect(distance(await readGradient(embedded, newFolder), expected)).toBeLessThan(1e-4);
    await torch.loadState(states[0]);
    await embedded.loadState(states[1]);
    await expect(embedded.loadState(states[0])).rejects.toMatchObject({ code: 'bad_input' });
    await expect(torch.loadState(states[1])).rejects.toMatchObject({ code: 'bad_input' });
    return 'alike';
  }

  it('takes the same three steps of Adam, with the same norms', async () => {
    const { torch } = pair;
    const { directory: start } = await torch.saveAdapter(newFolder());
    const embedded = await kept(openEmbedded({ adapter: { initial: start } }));
    const [before, theirs, ours] = [readAdapter(start), await train(torch, [4, 5, 6]), await train(embedded, [4, 5, 6])];
    const moved = (directory: string) =>
      Object.fromEntries(Object.entries(readAdapter(directory)).map(([name, values]) => [name, values.map((x, i) => x - before[name]![i]!)]));
    expect(distance(moved(ours.directory), moved(theirs.directory))).toBeLessThan(1e-4);
    for (const [i, norm] of theirs.norms.entries()) expect(ours.norms[i]! / norm).toBeCloseTo(1, 4);
  });
});
