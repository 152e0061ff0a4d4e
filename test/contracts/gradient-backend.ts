/** The contract of every GradientBackend, in float32. Run over the torch worker on the CPU. */
import fc from 'fast-check';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { CancelledError } from '../../src/core/errors.ts';
import type { PackedBatch } from '../../src/trainer/gradient-backend.ts';
import { batches, distance, largestDifference, picturedBatches, readGradient, smallBatch, someGradient, unpack } from './gradient-cases.ts';
import { gradientStepsContract } from './gradient-steps.ts';
import { ADAM, type GradientBackendTraits, GradientSubject, INITIAL, KEPT, OFF, ON, refusal } from './gradient-subject.ts';

const START_MS = 240_000;

export function gradientBackendContract(name: string, traits: GradientBackendTraits): void {
  describe(`${name}: GradientBackend contract`, { timeout: START_MS }, () => {
    const subject = new GradientSubject(traits);
    beforeAll(() => subject.open(), START_MS);
    beforeEach(() => subject.backend.loadState(subject.startState));
    afterAll(() => subject.close());
    forwardContract(subject);
    backwardContract(subject);
    gradientStepsContract(subject);
  });
}

function forwardContract(subject: GradientSubject): void {
  describe('forward', () => {
    it('gives the log-probs and entropies of a plain forward pass, with and without adapter, at any temperature', async () => {
      const cases = subject.cases;
      for (const [i, { adapter, batch: of }] of cases.entries()) {
        const found = await subject.backend.forward(of, { ...(adapter ? ON : OFF), entropy: true });
        expect(largestDifference(found.logProbs, subject.references[i]!.log_probs)).toBeLessThan(1e-5);
        // An entropy is a float32 sum over the whole vocabulary, and CPUs differ in how they round it.
        expect(largestDifference(found.entropy!, subject.references[i]!.entropy)).toBeLessThan(3e-5);
      }
    });

    it('gives a packed sequence the numbers that it gives it alone {any batch}', async () => {
      const check = async (packed: PackedBatch) => {
        const alone = [];
        for (const one of unpack(packed)) alone.push(...(await subject.logProbs(one)));
        // A log-prob below -32 has an ulp of 3.8e-6 in float32, and some CPUs round the two shapes three ulps apart.
        expect(largestDifference(await subject.logProbs(packed), alone)).toBeLessThan(2e-5);
      };
      await fc.assert(fc.asyncProperty(anyBatch(subject), check), { numRuns: 25 });
    });

    it('gives a target the same numbers whichever others are asked for {any subset}', async () => {
      const all = await subject.logProbs(subject.batch);
      const check = async (wanted: readonly number[]) => {
        const places = wanted.toSorted((a, b) => a - b);
        const found = await subject.logProbs({ ...subject.batch, targets: Int32Array.from(places, (i) => subject.batch.targets[i]!) });
        const expected = places.map((i) => all[i]!);
        expect(largestDifference(found, expected)).toBeLessThan(1e-5);
      };
      const subsets = fc.uniqueArray(fc.nat(subject.batch.targets.length - 1), { minLength: 1 });
      await fc.assert(fc.asyncProperty(subsets, check), { numRuns: 15 });
    });

    it('gives the log-probs of other ids at the targets as if the sequences ended in them', async () => {
      const { batch, otherwise } = lastIds(subject.vocabularySize);
      const targetIds = otherwise.targets.map((target) => otherwise.ids[target]!);
      const found = await subject.logProbs({ ...batch, targetIds });
      expect(found).toEqual(await subject.logProbs(otherwise));
      expect(largestDifference(found, await subject.logProbs(batch))).toBeGreaterThan(0.01);
    });

    it('gives the base with the adapter off, whatever the adapter is', async () => {
      const before = await subject.logProbs(subject.batch, OFF);
      await subject.accumulate(subject.batch, someGradient(subject.batch.targets.length));
      await subject.backend.optimStep({ ...ADAM, learningRate: 0.1 });
      expect(await subject.logProbs(subject.batch, OFF)).toEqual(before);
      expect(largestDifference(await subject.logProbs(subject.batch), before)).toBeGreaterThan(0.01);
    });

    it('gives the adapter that it was started with as the initial one, whatever was trained or loaded since', async () => {
      const initial = await subject.logProbs(subject.batch, INITIAL);
      expect(largestDifference(initial, subject.startLogProbs)).toBeLessThan(1e-6);
      expect(largestDifference(initial, await subject.logProbs(subject.batch, OFF))).toBeGreaterThan(0.01);
      await subject.accumulate(subject.batch, someGradient(subject.batch.targets.length));
      await subject.backend.optimStep({ ...ADAM, learningRate: 0.1 });
      expect(largestDifference(await subject.logProbs(subject.batch), initial)).toBeGreaterThan(0.01);
      expect(await subject.logProbs(subject.batch, INITIAL)).toEqual(initial);
      const saved = subject.folder();
      await subject.backend.saveState(saved);
      await subject.backend.loadState(saved);
      expect(await subject.logProbs(subject.batch, INITIAL)).toEqual(initial);
      expect(await refusal(subject.backend.forward(subject.batch, { ...KEPT, adapter: 'initial' }))).toBe('bad_input');
    });

    it('gives the same bits twice', async () => {
      expect(await subject.logProbs(subject.batch)).toEqual(await subject.logProbs(subject.batch));
    });

    it('gives finite log-probs of at most 0 and entropies from 0 to ln V {any batch}', async () => {
      const check = async (of: PackedBatch) => {
        const { logProbs: found, entropy } = await subject.backend.forward(of, { ...ON, entropy: true });
        expect(found).toHaveLength(of.targets.length);
        expect(found.every((x) => Number.isFinite(x) && x <= 1e-6)).toBe(true);
        expect(entropy!.every((x) => x >= 0 && x <= Math.log(subject.vocabularySize) + 1e-4)).toBe(true);
      };
      await fc.assert(fc.asyncProperty(anyBatch(subject), check), { numRuns: 10 });
    });

    it.each<[string, (b: PackedBatch) => Partial<PackedBatch>]>([
      ['an id beyond the vocabulary', (b) => ({ ids: b.ids.with(3, subject.vocabularySize) })],
      ['a negative id', (b) => ({ ids: b.ids.with(3, -1) })],
      ['no sequence', () => ({ ids: new Int32Array(0), offsets: Int32Array.of(0), targets: Int32Array.of(1) })],
      ['an empty sequence', () => ({ offsets: Int32Array.of(0, 17, 17, 27) })],
      ['offsets that do not end at the last id', () => ({ offsets: Int32Array.of(0, 17, 26) })],
      ['offsets that do not start at 0', () => ({ offsets: Int32Array.of(1, 17, 27) })],
      ['no target', () => ({ targets: new Int32Array(0) })],
      ['target 0', (b) => ({ targets: b.targets.with(0, 0) })],
      ['the first token of a later sequence', () => ({ targets: Int32Array.of(3, 18) })],
      ['a target beyond the ids', () => ({ targets: Int32Array.of(3, 27) })],
      ['targets out of order', () => ({ targets: Int32Array.of(5, 3) })],
      ['a target twice', () => ({ targets: Int32Array.of(5, 5) })],
      ['a target id beyond the vocabulary', (b) => ({ targetIds: b.targets.with(2, subject.vocabularySize) })],
      ['a negative target id', (b) => ({ targetIds: b.targets.with(2, -1) })],
      ['fewer target ids than targets', (b) => ({ targetIds: b.targets.slice(1) })],
      ['temperature 0', () => ({ temperature: 0 })],
      ['temperature NaN', () => ({ temperature: NaN })],
      ['temperature Infinity', () => ({ temperature: Infinity })],
    ])('refuses %s and keeps working', async (_, change) => {
      const before = await subject.logProbs(subject.batch);
      const text = smallBatch(subject.vocabularySize);
      expect(await refusal(subject.backend.forward({ ...text, ...change(text) }, KEPT))).toBe('bad_input');
      expect(await subject.logProbs(subject.batch)).toEqual(before);
    });

    it('says whether it reads images, and refuses those that it cannot place', async () => {
      const { images, batch } = subject;
      expect(subject.backend.capabilities.images).toBe(images !== null);
      const text = smallBatch(subject.vocabularySize);
      const placed = { sequence: 0, sha256: 'a'.repeat(64), offset: 4, length: 2 };
      expect(await refusal(subject.backend.forward({ ...text, images: [placed] }, ON))).toBe('bad_input');
      if (images === null) return;
      const [first, ...rest] = batch.images!;
      const astray = [{ sequence: 1 }, { sequence: 3 }, { offset: first!.offset + 1 }, { offset: -1 }, { length: first!.length + 1 }, { length: 0 }];
      const beside = [...astray, { sha256: 'b'.repeat(64) }, { sha256: '../etc/passwd' }, { sha256: 'A'.repeat(64) }];
      const codes = [];
      for (const change of beside) codes.push(await refusal(subject.backend.forward({ ...batch, images: [{ ...first!, ...change }, ...rest] }, ON)));
      expect(codes).toEqual(beside.map(() => 'bad_input'));
      expect(await refusal(subject.backend.forward({ ...batch, images: [...rest, first!] }, ON))).toBe('bad_input');
      expect(await subject.logProbs(batch)).toEqual(await subject.logProbs(batch));
    });

    it('rejects with CancelledError when its signal aborts, before or during the call, and keeps working', async () => {
      await expect(subject.backend.forward(subject.batch, { ...ON, signal: AbortSignal.abort() })).rejects.toBeInstanceOf(CancelledError);
      const controller = new AbortController();
      const running = subject.backend.forward(subject.batch, { ...KEPT, signal: controller.signal });
      controller.abort();
      await expect(running).rejects.toBeInstanceOf(CancelledError);
      expect(await subject.logProbs(subject.batch)).toHaveLength(subject.batch.targets.length);
    });
  });
}

/** A batch whose targets are the ends of its sequences, and the same batch with other ids there. */
function lastIds(vocabularySize: number): { readonly batch: PackedBatch; readonly otherwise: PackedBatch } {
  const whole = smallBatch(vocabularySize);
  const batch = { ...whole, targets: Int32Array.of(16, 26) };
  const ids = whole.ids.slice();
  for (const target of batch.targets) ids[target] = (ids[target]! + 11) % vocabularySize;
  return { batch, otherwise: { ...batch, ids } };
}

function anyBatch({ vocabularySize, images }: GradientSubject): fc.Arbitrary<PackedBatch> {
  return images === null ? batches(vocabularySize) : picturedBatches(vocabularySize, images);
}

function backwardContract(subject: GradientSubject): void {
  describe('backward', () => {
    it('accumulates the gradient of plain autograd, entropy included', async () => {
      for (const [i, { batch: packed, dLogProbs, dEntropy }] of subject.cases.entries()) {
        if (!dLogProbs || (dEntropy && !subject.backend.capabilities.entropyGradient)) continue;
        await subject.backend.loadState(subject.startState);
        const { batchId } = await subject.backend.forward(packed, { ...KEPT, entropy: dEntropy !== undefined });
        await subject.backend.backward(batchId, { dLogProbs, ...(dEntropy && { dEntropy }) });
        expect(distance(await readGradient(subject.backend, subject.folder), subject.references[i]!.gradient!)).toBeLessThan(1e-5);
      }
    });

    it('accumulates the gradient of other ids at the targets as if the sequences ended in them', async () => {
      const { batch, otherwise } = lastIds(subject.vocabularySize);
      const targetIds = otherwise.targets.map((target) => otherwise.ids[target]!);
      const gradientOf = async (of: PackedBatch) => {
        await subject.backend.loadState(subject.startState);
        await subject.accumulate(of, someGradient(of.targets.length));
        return readGradient(subject.backend, subject.folder);
      };
      const expected = await gradientOf(otherwise);
      expect(distance(await gradientOf({ ...batch, targetIds }), expected)).toBeLessThan(1e-6);
      expect(distance(await gradientOf(batch), expected)).toBeGreaterThan(0.01);
    });

    it('agrees with finite differences along the gradient', async () => {
      const dLogProbs = someGradient(subject.batch.targets.length);
      const loss = async () => (await subject.logProbs(subject.batch)).reduce((sum, x, i) => sum + x * dLogProbs[i]!, 0);
      const size = 4e-5;
      const along = { learningRate: size * 1e10, beta1: 0, beta2: 0, epsilon: 1e10, weightDecay: 0, maxGradNorm: null };
      const [losses, norms] = [[] as number[], [] as number[]];
      for (const sign of [1, -1]) {
        await subject.backend.loadState(subject.startState);
        await subject.accumulate(
          subject.batch,
          dLogProbs.map((x) => sign * x),
        );
        norms.push((await subject.backend.optimStep(along)).gradNorm);
        losses.push(await loss());
      }
      expect(norms[0]).toBeCloseTo(norms[1]!, 4);
      expect((losses[1]! - losses[0]!) / (2 * size * norms[0]! ** 2)).toBeCloseTo(1, 2);
    });

    it('adds up: several batches give what one gives, in any order', async () => {
      const dLogProbs = someGradient(subject.batch.targets.length, 3);
      await subject.accumulate(subject.batch, dLogProbs);
      const whole = await readGradient(subject.backend, subject.folder);
      await subject.backend.loadState(subject.startState);
      let at = dLogProbs.length;
      for (const one of unpack(subject.batch).toReversed()) {
        await subject.accumulate(one, dLogProbs.slice(at - one.targets.length, at));
        at -= one.targets.length;
      }
      expect(distance(await readGradient(subject.backend, subject.folder), whole)).toBeLessThan(1e-5);
    });

    it('holds several batches at once and takes them in any order', async () => {
      const parts = unpack(subject.batch);
      const held: { batchId: string; count: number }[] = [];
      for (const one of parts) held.push({ batchId: (await subject.backend.forward(one, KEPT)).batchId, count: one.targets.length });
      for (const { batchId, count } of held.toReversed()) await subject.backend.backward(batchId, { dLogProbs: new Float32Array(count).fill(1) });
      const found = await readGradient(subject.backend, subject.folder);
      await subject.backend.loadState(subject.startState);
      await subject.accumulate(subject.batch, new Float32Array(subject.batch.targets.length).fill(1));
      expect(distance(found, await readGradient(subject.backend, subject.folder))).toBeLessThan(1e-5);
    });

    it('refuses a batch that is unknown, used, dropped or not retained, and numbers that do not fit, keeping the gradient', async () => {
      const dLogProbs = someGradient(subject.batch.targets.length);
      await subject.accumulate(subject.batch, dLogProbs);
      const { batchId: used } = await subject.backend.forward(subject.batch, KEPT);
      await subject.backend.backward(used, { dLogProbs: new Float32Array(dLogProbs.length) });
      const { batchId: dropped } = await subject.backend.forward(subject.batch, KEPT);
      await subject.backend.drop(dropped);
      const { batchId: passing } = await subject.backend.forward(subject.batch, ON);
      for (const id of ['none of mine', used, dropped, passing]) expect(await refusal(subject.backend.backward(id, { dLogProbs }))).toBe('bad_input');
      expect(await refusal(subject.backend.drop(dropped))).toBe('bad_input');
      const { batchId } = await subject.backend.forward(subject.batch, KEPT);
      expect(await refusal(subject.backend.backward(batchId, { dLogProbs: dLogProbs.slice(1) }))).toBe('bad_input');
      expect(await refusal(subject.backend.backward(batchId, { dLogProbs: dLogProbs.with(2, NaN) }))).toBe('bad_input');
      expect(await refusal(subject.backend.backward(batchId, { dLogProbs: dLogProbs.with(2, -Infinity) }))).toBe('bad_input');
      const kept = await readGradient(subject.backend, subject.folder);
      await subject.backend.loadState(subject.startState);
      await subject.accumulate(subject.batch, dLogProbs);
      expect(distance(kept, await readGradient(subject.backend, subject.folder))).toBe(0);
    });
  });
}
