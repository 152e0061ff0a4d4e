/** Settings that rule out `publish.in_flight`. What the server lacks is found when the run is set up. */
import type { TrainingConfigWire } from '../../schemas/training-config.ts';
import type { ConfigRule } from './check-config.ts';

const rule = (wrong: (config: TrainingConfigWire) => boolean, problem: string): ConfigRule => ({
  key: 'publish.in_flight',
  wrong: (config) => config.publish.in_flight && wrong(config),
  problem: () => problem,
});

export const IN_FLIGHT_RULES: readonly ConfigRule[] = [
  rule(
    ({ policy }) => policy.base_url === null && policy.launch === null,
    'publish.in_flight needs a vLLM (policy.base_url or [policy.launch]): no other server changes its weights during a generation',
  ),
  rule(
    ({ policy: { base_url: urls, launch } }) => (launch?.replicas ?? [urls].flat().length) > 1,
    'publish.in_flight needs a single policy server: several would change their weights at different times',
  ),
  rule(
    ({ policy }) => policy.launch?.sleep === true,
    'publish.in_flight must be false with policy.launch.sleep = true, because nothing is generated while vLLM sleeps',
  ),
  rule(
    ({ rollouts }) => rollouts.max_staleness === 0,
    'publish.in_flight needs rollouts.max_staleness of at least 1: with 0 nothing is generated while weights are published',
  ),
];
