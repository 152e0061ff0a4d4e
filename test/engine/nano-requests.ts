/** Requests to the nano model, and what engines in tests have in common. */
import { join } from 'node:path';
import { Random } from '../../src/core/random.ts';
import { EmbeddedEngine } from '../../src/engine/embedded-engine.ts';
import type { EngineOptions, GenerateRequest, Generation } from '../../src/engine/engine-types.ts';
import { ADAPTED } from '../../src/engine/model/model-types.ts';
import type { TrainerOptions } from '../../src/engine/training/trainer-types.ts';

export const NANO = join(import.meta.dirname, '../models/nano-base');
export const NANO_VOCABULARY = 1600;

/** A plain request of 24 tokens with everything it allows switched off. */
export function nanoRequest(part: Partial<GenerateRequest> = {}): GenerateRequest {
  return {
    prompt: Int32Array.of(57, 74, 81, 273, 291, 508, 347, 307, 293, 86, 33),
    adapter: null,
    maxTokens: 24,
    sampling: { temperature: 1, topP: 1, topK: -1, minP: 0, seed: 1 },
    stop: { strings: [], includeString: false, tokenIds: [], ignoreEnd: false, minTokens: 0 },
    skipSpecialTokens: true,
    logProbs: 0,
    promptLogProbs: null,
    logProbsMode: 'raw',
    allowedTokenIds: null,
    cacheSalt: null,
    signal: new AbortController().signal,
    ...part,
  };
}

/** Requests that differ in prompt, seed, length and filters; every third shares its beginning with the one before. */
export function mixedRequests(count: number, seed: number): GenerateRequest[] {
  const random = Random.fromSeed(seed);
  const requests: GenerateRequest[] = [];
  for (let i = 0; i < count; i++) {
    const fresh = Int32Array.from({ length: 1 + random.integer(90) }, () => random.integer(NANO_VOCABULARY - 20));
    const head = i % 3 === 2 ? requests[i - 1]!.prompt : new Int32Array(0);
    requests.push(
      nanoRequest({
        prompt: Int32Array.from([...head, ...fresh]),
        maxTokens: 1 + random.integer(60),
        sampling: { temperature: [0, 0.7, 1][i % 3]!, topP: i % 4 === 0 ? 0.9 : 1, topK: i % 5 === 0 ? 40 : -1, minP: 0, seed: random.uint32() },
        logProbs: i % 2 === 0 ? 2 : 0,
      }),
    );
  }
  return requests;
}

/** All of a generation but how much of it was in a cache, which depends on what ran before. */
export function result(generation: Generation): Generation {
  return { ...generation, cachedTokens: 0 };
}

/** @param options 2 threads unless they say otherwise. */
export const openNano = (options: Partial<EngineOptions> = {}): Promise<EmbeddedEngine> =>
  EmbeddedEngine.open({ modelPath: NANO, threads: 2, signal: new AbortController().signal, ...options });

/** A request of more tokens than a test waits for. */
export function endlessRequest(part: Partial<GenerateRequest> = {}): GenerateRequest {
  const request = nanoRequest({ maxTokens: 100_000, ...part });
  return { ...request, stop: { ...request.stop, ignoreEnd: true } };
}

export const trainerOptions = (): TrainerOptions => ({
  rank: 4,
  alpha: 8,
  targets: ADAPTED,
  seed: 1,
  initial: null,
  checkpointing: false,
  memoryBytes: null,
  signal: new AbortController().signal,
});
