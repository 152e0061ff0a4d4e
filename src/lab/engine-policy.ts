/** The embedded engine as a policy in the same process: a caller that samples an answer to each question of a rollout, with the same seeds as behind a server. */
import { CallerPolicy } from '../clients/caller-policy.ts';
import type { PolicyVersions } from '../clients/policy-versions.ts';
import { PolicyError } from '../core/errors.ts';
import { wholeSampling } from '../core/sampling.ts';
import type { TokenEngine } from '../engine/engine-types.ts';
import { LocalTokenizer } from '../tokenizer/known-tokenizer.ts';

/** `versions` starts with the base; the `model` of a later version is the name of an adapter in the engine. */
export function enginePolicy(engine: TokenEngine, versions: PolicyVersions): CallerPolicy {
  const base = versions.current().model;
  return new CallerPolicy({
    kind: 'tokens',
    name: base,
    versions,
    maxModelLen: engine.maxModelLen,
    tokenizer: new LocalTokenizer(base, engine.tokenizer),
    traits: { chatTemplate: engine.tokenizer.hasChatTemplate ? 'model' : null },
    ask: async ({ stop, maxNewTokens }, { policy, random, request, signal }) => {
      if (request === null) throw new PolicyError('The engine samples by token ids, but was asked in messages');
      const { prompt } = request;
      const { temperature, topP } = wholeSampling(request.sampling);
      const { ids, logProbs, finish } = await engine.generate({
        prompt,
        adapter: policy.model === base ? null : policy.model,
        maxTokens: Math.max(1, Math.min(maxNewTokens ?? Infinity, engine.maxModelLen - prompt.length)),
        sampling: { temperature, topP, topK: -1, minP: 0, seed: random?.uint32() ?? null },
        stop: { strings: stop, includeString: true, tokenIds: [], ignoreEnd: false, minTokens: 0 },
        skipSpecialTokens: true,
        logProbs: 0,
        promptLogProbs: null,
        logProbsMode: temperature === 1 ? 'raw' : 'processed',
        allowedTokenIds: null,
        cacheSalt: null,
        signal,
      });
      return { kind: 'tokens', tokenIds: ids, logProbs, finish };
    },
  });
}
