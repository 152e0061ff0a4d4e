import type { Generation, RolloutUsage } from './rollout.ts';

export function callUsage({ usage }: Pick<Generation, 'usage'>): RolloutUsage {
  return { inputTokens: usage.promptTokens, outputTokens: usage.completionTokens, cachedTokens: usage.cachedTokens };
}

export function sumUsage(usages: Iterable<RolloutUsage>): RolloutUsage {
  let inputTokens = 0;
  let outputTokens = 0;
  let cachedTokens: number | null = 0;
  for (const usage of usages) {
    inputTokens += usage.inputTokens;
    outputTokens += usage.outputTokens;
    cachedTokens = cachedTokens === null || usage.cachedTokens === null ? null : cachedTokens + usage.cachedTokens;
  }
  return { inputTokens, outputTokens, cachedTokens };
}
