/** Checks that the embedded engine runs here: opens it and samples a token. */
import { CancelledError, ConfigError, thrownText } from '../core/errors.ts';
import { modelPath, SMALLEST_MODEL } from '../data/bundled-models.ts';
import { openEngine } from '../sessions/engine/open-engine.ts';
import { bytesText } from '../reports/text/number-text.ts';
import { type Finding, missing, ok, warning } from '../sessions/finding.ts';

export interface EngineCheckOptions {
  /** Null for the smallest bundled model. */
  readonly model: string | null;
  /** Null for the engine's default. */
  readonly threads: number | null;
  /** True if the checked run uses the engine. */
  readonly isNeeded: boolean;
  readonly signal: AbortSignal;
}

const TRY_IT = 'enough for vf-train search-r1 --preset laptop';

export async function checkEngine({ model, threads, isNeeded, signal }: EngineCheckOptions): Promise<Finding> {
  const startedAtMs = performance.now();
  try {
    const engine = await openEngine({ modelPath: model ?? modelPath(SMALLEST_MODEL), ...(threads === null ? {} : { threads }), signal });
    try {
      await engine.generate({
        prompt: Int32Array.of(0),
        adapter: null,
        maxTokens: 1,
        sampling: { temperature: 0, topP: 1, topK: 0, minP: 0, seed: 0 },
        stop: { strings: [], includeString: false, tokenIds: [], ignoreEnd: true, minTokens: 0 },
        skipSpecialTokens: true,
        logProbs: null,
        promptLogProbs: null,
        logProbsMode: 'raw',
        allowedTokenIds: null,
        cacheSalt: null,
        signal,
      });
      const seconds = ((performance.now() - startedAtMs) / 1000).toFixed(2);
      const text = `${engine.description}; first token after ${seconds} s, ${bytesText(engine.stats().memoryBytes)}`;
      return ok('embedded', isNeeded ? text : `${text}; ${TRY_IT}`);
    } finally {
      await engine.close();
    }
  } catch (error) {
    if (error instanceof CancelledError) throw error;
    const remedy =
      error instanceof ConfigError
        ? 'set [model].path to a dense Qwen3, or sample with vLLM: -b, --launch'
        : 'install a newer Node: https://nodejs.org';
    return isNeeded ? missing('embedded', thrownText(error), remedy) : warning('embedded', thrownText(error), remedy);
  }
}
