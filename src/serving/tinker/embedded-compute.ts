/** The embedded engine behind the Tinker API: one copy of the base samples and trains every model. */
import { EmbeddedEngine } from '../../engine/embedded-engine.ts';
import type { EngineOptions, TokenEngine } from '../../engine/engine-types.ts';
import type { TinkerCompute } from '../../server/tinker/tinker-compute.ts';
import { EmbeddedBackend } from '../../trainer/gradients/embedded/embedded-backend.ts';

/** Rejects as the engine does. */
export async function openEmbeddedCompute(options: EngineOptions): Promise<TinkerCompute> {
  return embeddedCompute(await EmbeddedEngine.open(options));
}

/** @param engine is closed with what this returns */
export function embeddedCompute(engine: TokenEngine): TinkerCompute {
  const { config, maxModelLen, description, lost } = engine;
  return {
    description,
    layers: LAYERS,
    architecture: 'qwen3',
    tokenizer: config.path,
    maxModelLen,
    vocabularySize: config.vocabularySize,
    lost,
    train: (adapter, signal) => EmbeddedBackend.on(engine, { adapter, signal }),
    async sample({ prompt, adapter, maxTokens, temperature, topP, topK, seed, stop, likeliest, promptLikeliest, signal }) {
      const sampled = await engine.generate({
        prompt,
        adapter,
        maxTokens: maxTokens ?? Math.max(1, maxModelLen - prompt.length),
        sampling: { temperature, topP, topK, minP: 0, seed },
        stop: { strings: stop.strings, includeString: true, tokenIds: stop.tokenIds, ignoreEnd: stop.ignoresEnd, minTokens: 0 },
        skipSpecialTokens: false,
        logProbs: likeliest,
        promptLogProbs: promptLikeliest,
        logProbsMode: 'raw',
        allowedTokenIds: null,
        cacheSalt: null,
        signal,
      });
      const { ids: tokens, logProbs, finish: stopReason, alternatives, promptLogProbs: promptRows, cachedTokens } = sampled;
      return { tokens, logProbs, stopReason, alternatives, promptRows, cachedTokens };
    },
    loadAdapter: (adapter) => engine.loadAdapter(adapter),
    async unloadAdapter(name) {
      engine.unloadAdapter(name);
    },
    close: () => engine.close(),
  };
}

const LAYERS = {
  attn: ['q_proj', 'k_proj', 'v_proj', 'o_proj'],
  mlp: ['gate_proj', 'up_proj', 'down_proj'],
};
