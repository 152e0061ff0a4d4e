/** Training configurations for tests: every default, and what a test sets over it. */
import type { TrainingConfig } from '../../src/schemas/training-config.ts';
import { resolveTrainingConfig } from '../../src/trainer/config/resolve-config.ts';

const BASE = {
  environment: { id: 'counting' },
  model: { path: 'test/models/nano-base' },
  policy: { base_url: 'http://127.0.0.1:1/v1' },
  // No server has to come back.
  rollouts: { repeat_pause_s: 0 },
};

/** @param changes in the spelling of the file: `{ rollouts: { max_staleness: 1 } }` */
export function someConfig(...changes: readonly Record<string, unknown>[]): TrainingConfig {
  return resolveTrainingConfig([BASE, ...changes].map((table) => ({ source: 'test', table }))).config;
}
