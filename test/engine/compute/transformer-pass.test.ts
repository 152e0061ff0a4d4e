import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { cacheBlockBytes } from '../../../src/engine/compute/dimensions.ts';
import type { ForwardLimits, Segment } from '../../../src/engine/compute/forward-types.ts';
import { TrainerPass } from '../../../src/engine/compute/trainer-pass.ts';
import { trainingBytes } from '../../../src/engine/compute/training-layout.ts';
import { forwardBytes, TransformerPass } from '../../../src/engine/compute/transformer-pass.ts';
import type { AdapterWeights } from '../../../src/engine/model/model-types.ts';
import { TINY, Workbench } from './any-model.ts';

const LIMITS: ForwardLimits = { rows: 100, logitRows: 7 };
const BLOCKS = 40;

function tinyPasses(build: 'relaxed' | 'plain') {
  const bench = new Workbench(build);
  const { memory, kernels } = bench;
  const model = bench.randomModel(TINY);
  const base = { kernels, memory: memory.memory, model };
  const cache = { pointer: memory.allocate(BLOCKS * cacheBlockBytes(TINY)).pointer, blocks: BLOCKS };
  const cacheNumbers = bench.floats(cache.pointer, (BLOCKS * cacheBlockBytes(TINY)) / 4);
  const region = memory.allocate(forwardBytes(TINY, LIMITS, 12));
  const pass = new TransformerPass({ ...base, cache, region, limits: LIMITS, maxRank: 12 });
  const adapters = [
    null,
    bench.randomAdapter({ config: TINY, rank: 4, alpha: 6 }),
    bench.randomAdapter({ config: TINY, rank: 12, alpha: 3, name: 'second', without: ['o_proj', 'up_proj', 'k_proj'] }),
  ];
  const trainingRegion = memory.allocate(trainingBytes(TINY, { tokens: 600, rank: 12, checkpointing: false }));
  const trainer = new TrainerPass({ ...base, region: trainingRegion, checkpointing: false });
  return { bench, pass, adapters, trainer, cacheNumbers };
}

type Passes = ReturnType<typeof tinyPasses>;

/** Copies of all wanted logits, a row each, bit patterns. */
function logitsOf({ bench, pass }: Passes, segments: readonly Segment[]): Int32Array[] {
  const rows: Int32Array[] = [];
  pass.run(segments, ({ pointer, stride, first, count }) => {
    expect(first).toBe(rows.length);
    for (let i = 0; i < count; i++) rows.push(new Int32Array(bench.memory.memory.buffer, pointer + i * stride * 4, TINY.vocabularySize).slice());
  });
  return rows;
}

/** What a sampler reports of one row. */
function logProbOf({ bench }: Passes, logits: Int32Array, target: number): number {
  const n = 104;
  const { pointer } = bench.memory.allocate(n * 4);
  new Int32Array(bench.memory.memory.buffer, pointer, n).set(logits);
  bench.kernels.logSoftmax(pointer, n, 1, n, TINY.vocabularySize, 1);
  const logProb = bench.floats(pointer, n)[target]!;
  bench.memory.free({ pointer, bytes: n * 4 });
  return logProb;
}

/** Blocks that no other of the five sequences has; scattered, so that neighbours in a sequence are not neighbours in memory. */
const ownBlocks = (sequence: number): Int32Array => Int32Array.from({ length: 8 }, (_, i) => ((sequence * 8 + i) * 17 + 3) % BLOCKS);

const token = fc.integer({ min: 0, max: TINY.vocabularySize - 1 });
const tokens = (most: number) => fc.array(token, { minLength: 1, maxLength: most }).map((ids) => Int32Array.from(ids));
const segment = (
  ids: Int32Array,
  from: number,
  to: number,
  blocks: Int32Array,
  adapter: AdapterWeights | null,
  logits: Segment['logits'] = 'all',
): Segment => ({
  tokens: ids.subarray(from, to),
  past: from,
  blocks,
  adapter,
  logits,
});
/** Ascending places where a sequence is cut, and its end. */
const cuts = (length: number) =>
  fc.uniqueArray(fc.integer({ min: 1, max: length }), { maxLength: 8 }).map((places) => [...new Set([...places, length])].toSorted((a, b) => a - b));

describe.each(['relaxed', 'plain'] as const)('TransformerPass, %s kernels', (build) => {
  const passes = tinyPasses(build);
  const [, first] = passes.adapters;

  /** All logits of one sequence, in one piece. */
  const whole = (ids: Int32Array, adapter: AdapterWeights | null) => logitsOf(passes, [segment(ids, 0, ids.length, ownBlocks(4), adapter)]);

  it('gives a token the same bits however its sequence is cut into chunks and steps', () => {
    const chunked = tokens(90).chain((ids) => fc.tuple(fc.constant(ids), cuts(ids.length), fc.constantFrom(...passes.adapters)));
    fc.assert(
      fc.property(chunked, ([ids, ends, adapter]) => {
        const expected = whole(ids, adapter);
        const rows = ends.flatMap((end, i) => logitsOf(passes, [segment(ids, ends[i - 1] ?? 0, end, ownBlocks(2), adapter)]));
        expect(rows).toEqual(expected);
      }),
      { numRuns: 25 },
    );
  });

  it('gives a sequence the same bits in any company: other sequences, other adapters of other ranks, the base', () => {
    const sequence = fc.record({ ids: tokens(24), adapter: fc.nat({ max: 2 }), logits: fc.constantFrom('all', 'last', 'none') });
    fc.assert(
      fc.property(fc.array(sequence, { minLength: 1, maxLength: 4 }), (sequences) => {
        const expected = sequences.flatMap(({ ids, adapter, logits }) => {
          const rows = whole(ids, passes.adapters[adapter]!);
          return logits === 'all' ? rows : logits === 'last' ? rows.slice(-1) : [];
        });
        const together = sequences.map(({ ids, adapter, logits }, i) => segment(ids, 0, ids.length, ownBlocks(i), passes.adapters[adapter]!, logits));
        expect(logitsOf(passes, together)).toEqual(expected);
      }),
      { numRuns: 25 },
    );
  });

  it('reads a shared beginning out of the blocks of another sequence, of an earlier pass or the same one', () => {
    const ids = Int32Array.from({ length: 50 }, (_, i) => (i * 31) % TINY.vocabularySize);
    const other = ids.map((id, i) => (i < 32 ? id : (id + 1) % TINY.vocabularySize));
    const blocks = ownBlocks(0);
    const borrowed = Int32Array.from([...blocks.subarray(0, 2), ...ownBlocks(1).subarray(2)]);
    const expected = whole(other, first!).slice(32);
    const both = [segment(ids, 0, 50, blocks, first!, 'none'), segment(other, 32, 50, borrowed, first!)];
    expect(logitsOf(passes, both)).toEqual(expected);
    expect(logitsOf(passes, both.slice(1))).toEqual(expected);
    expect(logitsOf(passes, both.toReversed())).toEqual(expected);
  });

  it('is untouched by what earlier sequences left in its blocks, even if that was not finite', () => {
    const ids = Int32Array.from({ length: 21 }, (_, i) => i);
    const expected = whole(ids, null);
    passes.cacheNumbers.fill(NaN);
    expect(whole(ids, null)).toEqual(expected);
  });

  it('gives the trainer the log-probs of the sampler bit for bit', () => {
    const group = fc.record({ head: tokens(40), tails: fc.array(tokens(30), { minLength: 1, maxLength: 4 }) });
    const example = fc.tuple(fc.array(group, { minLength: 1, maxLength: 3 }), fc.constantFrom(...passes.adapters), fc.infiniteStream(fc.boolean()));
    fc.assert(
      fc.property(example, ([groups, adapter, choices]) => {
        const sequences = groups.flatMap(({ head, tails }) => tails.map((tail) => Int32Array.from([...head, ...tail])));
        const ids = Int32Array.from(sequences.flatMap((sequence) => [...sequence]));
        const offsets = Int32Array.from([0, ...sequences.map((_, i) => sequences.slice(0, i + 1).reduce((sum, { length }) => sum + length, 0))]);
        const places = Array.from(ids.keys()).filter((place) => !offsets.includes(place) && choices.next().value);
        const batch = { ids, offsets, targets: Int32Array.from(places), temperature: 1 };
        const { logProbs } = passes.trainer.forward(batch, { adapter, retain: choices.next().value!, entropy: false });
        const sampled = sequences.flatMap((sequence, s) => {
          const rows = Array.from(sequence.keys()).flatMap((i) => logitsOf(passes, [segment(sequence, i, i + 1, ownBlocks(1), adapter)]));
          return places
            .filter((place) => place >= offsets[s]! && place < offsets[s + 1]!)
            .map((place) => logProbOf(passes, rows[place - 1 - offsets[s]!]!, ids[place]!));
        });
        expect([...logProbs]).toEqual(sampled);
      }),
      { numRuns: 15 },
    );
  });

  it('hands logits out in chunks of the rows that it has room for', () => {
    const counts: number[] = [];
    const ids = Int32Array.from({ length: 16 }, (_, i) => i);
    passes.pass.run([segment(ids, 0, 16, ownBlocks(0), null)], ({ first: row, count }) => counts.push(row, count));
    expect(counts).toEqual([0, 7, 7, 7, 14, 2]);
  });

  it.each<[string, Partial<Segment>]>([
    ['no token', { tokens: new Int32Array(0) }],
    ['a token beyond the vocabulary', { tokens: Int32Array.of(101) }],
    ['a negative token', { tokens: Int32Array.of(-1) }],
    ['too few blocks', { past: 16, blocks: Int32Array.of(0) }],
    ['a block beyond the cache', { blocks: Int32Array.of(BLOCKS) }],
    ['a position beyond the longest sequence', { past: 128, blocks: ownBlocks(0) }],
    ['more tokens than it has rows for', { tokens: new Int32Array(101), blocks: ownBlocks(0) }],
    ['an adapter of a larger rank', { adapter: passes.bench.randomAdapter({ config: TINY, rank: 17, alpha: 1 }) }],
  ])('refuses a segment of %s', (_, wrong) => {
    const right: Segment = { tokens: Int32Array.of(1), past: 0, blocks: Int32Array.of(0), adapter: null, logits: 'none' };
    expect(() => logitsOf(passes, [right])).not.toThrow();
    expect(() => logitsOf(passes, [{ ...right, ...wrong }])).toThrow(RangeError);
  });
});
