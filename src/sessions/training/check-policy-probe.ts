import type { PolicyProbe } from '../../clients/vllm-probe.ts';
import { ConfigError } from '../../core/errors.ts';

/**
 * Throws ConfigError if the server returns no token ids, or log-probs that no trainer can reproduce: raw ones are for temperature 1, so ratios, corrections
 * and comparisons with the trainer would mix two distributions.
 */
export function checkPolicyProbe(probe: PolicyProbe, temperature: number): void {
  if (probe.kind !== 'tokens') {
    throw new ConfigError(`Training needs a server that accepts and returns token ids, as vLLM does, but ${probe.chatOnlyBecause}`);
  }
  if (temperature === 1 || probe.logProbsMode !== 'raw') return;
  throw new ConfigError(
    `rollouts.temperature is ${temperature}, but the server returns log-probs at temperature 1; start vLLM with --logprobs-mode processed_logprobs, or set rollouts.temperature = 1`,
  );
}
