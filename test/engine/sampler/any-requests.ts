/** Requests of all kinds, many with the same beginning. */
import fc from 'fast-check';
import { Random } from '../../../src/core/random.ts';
import type { AdapterWeights } from '../../../src/engine/model/model-types.ts';
import type { SamplerRequest } from '../../../src/engine/sampler/sampler-types.ts';
import { requestOf, type SamplerRun } from './sampler-run.ts';

/** Tokens from 2 on: no end. */
export function randomTokens(seed: number, length: number, vocabularySize: number): Int32Array {
  const random = Random.fromSeed(seed);
  return Int32Array.from({ length }, () => 2 + random.integer(vocabularySize - 2));
}

export interface AnyRequestOptions {
  readonly vocabularySize: number;
  readonly adapters: readonly AdapterWeights[];
}

/** Prompt and answer are 160 tokens at most, and more than that only where the window cuts them. */
export function anyRequest({ vocabularySize, adapters }: AnyRequestOptions): fc.Arbitrary<SamplerRequest> {
  const prompt = fc
    .record({ shared: fc.integer({ min: 0, max: 50 }), family: fc.nat(1), own: fc.integer({ min: 1, max: 30 }), seed: fc.nat(5) })
    .map(({ shared, family, own, seed }) =>
      Int32Array.from([...randomTokens(family, shared, vocabularySize), ...randomTokens(100 + seed, own, vocabularySize)]),
    );
  return fc
    .record({
      prompt,
      adapter: fc.constantFrom(null, null, ...adapters),
      cacheSalt: fc.constantFrom(null, null, 'salt'),
      maxTokens: fc.integer({ min: 1, max: 80 }),
      sampling: fc.record({
        temperature: fc.constantFrom(0, 1, 1, 0.7, 1.5),
        topP: fc.constantFrom(1, 1, 0.8),
        topK: fc.constantFrom(-1, -1, 5),
        minP: fc.constantFrom(0, 0, 0.1),
        seed: fc.nat(1000),
      }),
      stop: fc.record({
        strings: fc.constantFrom<readonly string[]>([], [], ['ab', 'stop'], ['</a>']),
        includeString: fc.boolean(),
        ignoreEnd: fc.constantFrom(true, true, false),
        minTokens: fc.constantFrom(0, 0, 3),
      }),
      streams: fc.boolean(),
      logProbs: fc.constantFrom(null, 0, 2),
      promptLogProbs: fc.constantFrom(null, null, null, 1),
      logProbsMode: fc.constantFrom('raw', 'processed'),
    })
    .map((parts) => requestOf({ id: 0, ...parts }));
}

/** A request that arrives, a step, or the abort of the n-th request, if it has arrived. */
export type Move = SamplerRequest | 'step' | number;

export const anyMoves = (options: AnyRequestOptions): fc.Arbitrary<readonly Move[]> =>
  fc.array(fc.oneof({ weight: 3, arbitrary: anyRequest(options) }, fc.constant('step' as const), fc.nat(9)), { minLength: 2, maxLength: 25 });

/** Makes the moves and runs the sampler to its end; returns the requests that were not aborted while they ran. */
export function play(run: SamplerRun, moves: readonly Move[]): readonly SamplerRequest[] {
  const requests: SamplerRequest[] = [];
  const aborted = new Set<number>();
  for (const move of moves) {
    if (move === 'step') run.sampler.step();
    else if (typeof move === 'number') {
      run.sampler.abort(move);
      if (move < requests.length && !run.generations.has(move)) aborted.add(move);
    } else {
      requests.push({ ...move, id: requests.length });
      run.add(requests.at(-1)!);
    }
  }
  run.finish();
  for (const id of aborted) if (run.generations.has(id)) throw new Error(`expected nothing of request ${id}, which was aborted`);
  return requests.filter(({ id }) => !aborted.has(id));
}
