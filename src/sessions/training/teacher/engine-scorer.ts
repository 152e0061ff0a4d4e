/** Log-probs of given tokens from an embedded engine in this process. They depend on the ids alone, so that a resumed run gets the same to the bit. */
import type { TokenEngine } from '../../../engine/engine-types.ts';
import type { TokenScorer } from '../../../trainer/teacher.ts';
import type { TokenPart } from '../../../trainer/trajectory-branches.ts';

const GREEDY = { temperature: 0, topP: 1, topK: -1, minP: 0, seed: 0 } as const;
const NO_STOP = { strings: [], includeString: false, tokenIds: [], ignoreEnd: true, minTokens: 0 } as const;

export class EngineScorer implements TokenScorer {
  readonly #engine: TokenEngine;
  readonly #adapter: string | null;

  /** @param adapter the name under which it is loaded; null for the model itself */
  constructor(engine: TokenEngine, adapter: string | null) {
    this.#engine = engine;
    this.#adapter = adapter;
  }

  /** NaN for a sequence that the engine's window does not hold. */
  score(sequences: readonly TokenPart[], signal: AbortSignal): Promise<readonly Float64Array[]> {
    return Promise.all(sequences.map((sequence) => this.#scoreOne(sequence, signal)));
  }

  async #scoreOne({ ids, targets }: TokenPart, signal: AbortSignal): Promise<Float64Array> {
    const end = (targets.at(-1) ?? -1) + 1;
    // The engine scores a prompt on the way to a token that it samples.
    if (end === 0 || end >= this.#engine.maxModelLen) return new Float64Array(targets.length).fill(NaN);
    const { promptLogProbs } = await this.#engine.generate({
      prompt: ids.slice(0, end),
      adapter: this.#adapter,
      maxTokens: 1,
      sampling: GREEDY,
      stop: NO_STOP,
      skipSpecialTokens: false,
      logProbs: null,
      promptLogProbs: 0,
      logProbsMode: 'raw',
      allowedTokenIds: null,
      cacheSalt: null,
      signal,
    });
    return Float64Array.from(targets, (target) => promptLogProbs?.[target]?.[0]?.logProb ?? NaN);
  }
}
