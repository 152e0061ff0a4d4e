/** The policy of an environment that asks models of its own. */
import { ConfigError } from '../core/errors.ts';
import type { PolicyClient } from './policy-client.ts';

export const NO_POLICY: PolicyClient = {
  name: 'none',
  capabilities: { kind: 'chat', maxModelLen: null, tokenizerHash: null, logProbsMode: 'none' },
  lease: () => Promise.reject(new ConfigError('The run has no policy. Only environments that ask models of their own are played without one.')),
  close: async () => {},
};
