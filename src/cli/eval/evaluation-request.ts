/** Translates the flags of `vf-eval`, and the keys of its TOML files, into the request of an evaluation, and its settings back into flags for errors. */
import type { EvaluationRequest } from '../../sessions/evaluation/evaluation-request.ts';
import type { PolicySpec } from '../../sessions/policy/policy-spec.ts';
import { ROLE_FLAG, type Setting, type SettingNames } from '../../sessions/setting-names.ts';
import { type Flag, type FlagName, FLAGS } from './flags.ts';
import type { Settings } from './settings.ts';
import type { PlannedRun } from './toml-config.ts';

const POLICY_FLAGS = {
  provider: 'provider',
  baseUrl: 'api-base-url',
  model: 'model',
  apiKeyVar: 'api-key-var',
  clientType: 'api-client-type',
  headers: 'header',
  endpointsPath: 'endpoints-path',
} as const satisfies Partial<Record<keyof PolicySpec, FlagName>>;

const RUN_FLAGS = {
  environmentsDir: 'env-dir-path',
  roles: 'role',
  maxTokens: 'max-tokens',
  temperature: 'temperature',
  sampling: 'sampling-args',
  rows: 'num-examples',
  rolloutsPerRow: 'rollouts-per-example',
  seed: 'seed',
  shuffle: 'shuffle',
  shuffleSeed: 'shuffle-seed',
  maxConcurrent: 'max-concurrent',
  maxScoring: 'max-scoring',
  maxRetries: 'max-retries',
  maxCostUsd: 'max-cost',
  independentScoring: 'independent-scoring',
  output: 'output-dir',
  resume: 'resume',
  stateColumns: 'state-columns',
} as const satisfies Partial<Record<keyof EvaluationRequest, FlagName>>;

/** Settings whose values differ from those of the flags. */
const OTHERS: Readonly<Partial<Record<Setting, FlagName>>> = {
  args: 'env-args',
  timeoutMs: 'timeout',
  scoringTimeoutMs: 'scoring-timeout',
};

export function evaluationRequest({ envId, settings }: Pick<PlannedRun, 'envId' | 'settings'>): EvaluationRequest {
  const { timeout, 'scoring-timeout': scoringTimeout } = settings;
  return {
    environment: envId,
    args: { ...settings['env-args'], ...settings['extra-env-kwargs'] },
    policy: picked(settings, POLICY_FLAGS),
    ...picked(settings, RUN_FLAGS),
    timeoutMs: milliseconds(timeout ?? 0),
    ...(scoringTimeout === undefined ? {} : { scoringTimeoutMs: milliseconds(scoringTimeout) }),
  };
}

/** Returns null, which means no limit, for 0 seconds. */
function milliseconds(seconds: number): number | null {
  return seconds === 0 ? null : seconds * 1000;
}

type Picked<F extends Readonly<Record<string, FlagName>>> = { readonly [K in keyof F]?: NonNullable<Settings[F[K]]> };

function picked<F extends Readonly<Record<string, FlagName>>>(settings: Settings, flags: F): Picked<F> {
  const given = Object.entries(flags).filter(([, flag]) => settings[flag] !== undefined);
  return Object.fromEntries(given.map(([setting, flag]) => [setting, settings[flag]])) as Picked<F>;
}

/** Settings as the user of `vf-eval` gives them. */
export const FLAG_NAMES: SettingNames = {
  ...ROLE_FLAG,
  name: flagOf,
  given: (values) =>
    Object.entries(values)
      .map(([setting, value]) => `${flagOf(setting as Setting)} ${value.startsWith('{') ? `'${value}'` : value}`)
      .join(' '),
};

function flagOf(setting: Setting): string {
  const flags: Readonly<Partial<Record<Setting, FlagName>>> = { ...POLICY_FLAGS, ...RUN_FLAGS, ...OTHERS };
  const flag: Flag | undefined = FLAGS.find(({ name }) => name === flags[setting]);
  if (flag === undefined) return setting;
  return flag.letter === undefined ? `--${flag.name}` : `-${flag.letter}`;
}
