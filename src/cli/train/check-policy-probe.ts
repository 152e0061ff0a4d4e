import type { PolicyProbe } from '../../clients/vllm-probe.ts';
import { ConfigError } from '../../core/errors.ts';

/**
 * Throws ConfigError where the server gives no token ids, or log-probs that no trainer could reproduce: raw ones are those of temperature 1, and ratios,
 * corrections and every comparison with the trainer's would be of two different distributions.
 */
export function checkPolicyProbe(probe: PolicyProbe, temperature: number): void {
  if (probe.kind !== 'tokens') {
    throw new ConfigError(`Expected a server that takes and gives token ids, as vLLM does, got one where ${probe.chatOnlyBecause}`);
  }
  if (temperature === 1 || probe.logProbsMode !== 'raw') return;
  throw new ConfigError(
    `Expected log-probs at temperature ${temperature}, but the server gives those of temperature 1: start vLLM with --logprobs-mode processed_logprobs, or set rollouts.temperature = 1`,
  );
}
