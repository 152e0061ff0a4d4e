import { describe, expect, it } from 'vitest';
import type { PolicyProbe } from '../../../src/clients/vllm-probe.ts';
import { checkPolicyProbe } from '../../../src/sessions/training/check-policy-server.ts';
import { ConfigError } from '../../../src/core/errors.ts';

const PROBE: PolicyProbe = {
  kind: 'tokens',
  model: 'nano-base',
  maxModelLen: 2048,
  tokenizerHash: null,
  logProbsMode: 'raw',
  hasChatTemplate: false,
  chatOnlyBecause: null,
};
const failure = (probe: Partial<PolicyProbe>, temperature: number) => {
  try {
    checkPolicyProbe({ ...PROBE, ...probe }, temperature);
    return null;
  } catch (error) {
    expect(error).toBeInstanceOf(ConfigError);
    return (error as Error).message;
  }
};

describe('checkPolicyProbe', () => {
  it('accepts raw log-probs only at temperature 1, and processed ones at any', () => {
    expect([failure({}, 1), failure({ logProbsMode: 'processed' }, 0.7)]).toEqual([null, null]);
    expect(failure({}, 0.7)).toMatch(/temperature is 0\.7.*--logprobs-mode processed_logprobs/);
  });

  it('accepts no server without token ids', () => {
    expect(failure({ kind: 'chat', chatOnlyBecause: 'it has no /tokenize' }, 1)).toMatch(/token ids.*it has no \/tokenize/);
  });
});
