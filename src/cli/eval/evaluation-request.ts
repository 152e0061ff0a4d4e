/** Translates the options of `vf-eval` into the request of an evaluation, and its settings back into flags for errors. */
import type { EvaluationRequest } from '../../sessions/evaluation/evaluation-request.ts';
import type { PolicySpec } from '../../sessions/policy/policy-spec.ts';
import { ROLE_FLAG, type Setting, type SettingNames } from '../../sessions/setting-names.ts';
import { flagOf } from '../options/option.ts';
import { EVAL_OPTIONS, type Settings } from './eval-options.ts';
import type { PlannedRun } from './toml-config.ts';

type OptionName = keyof typeof EVAL_OPTIONS;

const POLICY_OPTIONS = {
  provider: 'provider',
  baseUrl: 'apiBaseUrl',
  model: 'model',
  apiKeyVar: 'apiKeyVar',
  clientType: 'apiClientType',
  headers: 'header',
  endpointsPath: 'endpointsPath',
} as const satisfies Partial<Record<keyof PolicySpec, OptionName>>;

const RUN_OPTIONS = {
  environmentsDir: 'envDirPath',
  roles: 'role',
  maxTokens: 'maxTokens',
  temperature: 'temperature',
  topP: 'topP',
  sampling: 'samplingArgs',
  overrideSampling: 'overrideSampling',
  strictStops: 'strictStops',
  rows: 'numExamples',
  rolloutsPerRow: 'rolloutsPerExample',
  seed: 'seed',
  shuffle: 'shuffle',
  shuffleSeed: 'shuffleSeed',
  maxConcurrent: 'maxConcurrent',
  maxScoring: 'maxScoring',
  maxRetries: 'maxRetries',
  maxCostUsd: 'maxCost',
  independentScoring: 'independentScoring',
  output: 'outputDir',
  resume: 'resume',
  allowChanges: 'allowChanges',
  stateColumns: 'stateColumns',
} as const satisfies Partial<Record<keyof EvaluationRequest, OptionName>>;

/** Settings whose values differ from those of the options. */
const OTHERS: Readonly<Partial<Record<Setting, OptionName>>> = {
  args: 'envArgs',
  timeoutMs: 'timeout',
  scoringTimeoutMs: 'scoringTimeout',
  maxWaitMs: 'maxWait',
  stream: 'stream',
};

export function evaluationRequest({ name, envId, settings }: PlannedRun): EvaluationRequest {
  const { timeout, scoringTimeout, maxWait, stream } = settings;
  return {
    environment: envId,
    ...(name === null ? {} : { name }),
    args: { ...settings.envArgs, ...settings.extraEnvKwargs },
    policy: { ...picked(settings, POLICY_OPTIONS), ...(stream !== undefined && { stream: stream === 'auto' ? stream : stream === 'true' }) },
    ...picked(settings, RUN_OPTIONS),
    timeoutMs: milliseconds(timeout ?? 0),
    ...(scoringTimeout === undefined ? {} : { scoringTimeoutMs: milliseconds(scoringTimeout) }),
    ...(maxWait === undefined ? {} : { maxWaitMs: maxWait * 1000 }),
  };
}

/** Returns null, which means no limit, for 0 seconds. */
function milliseconds(seconds: number): number | null {
  return seconds === 0 ? null : seconds * 1000;
}

type Picked<N extends Readonly<Record<string, OptionName>>> = { readonly [K in keyof N]?: NonNullable<Settings[N[K]]> };

function picked<N extends Readonly<Record<string, OptionName>>>(settings: Settings, names: N): Picked<N> {
  const given = Object.entries(names).filter(([, name]) => settings[name] !== undefined);
  return Object.fromEntries(given.map(([setting, name]) => [setting, settings[name]])) as Picked<N>;
}

/** Settings in the words of a user of `vf-eval`. */
export const FLAG_NAMES: SettingNames = {
  ...ROLE_FLAG,
  name: spellingOf,
  given: (values) =>
    Object.entries(values)
      .map(([setting, value]) => `${spellingOf(setting as Setting)} ${value.startsWith('{') ? `'${value}'` : value}`)
      .join(' '),
};

function spellingOf(setting: Setting): string {
  const names: Readonly<Partial<Record<Setting, OptionName>>> = { ...POLICY_OPTIONS, ...RUN_OPTIONS, ...OTHERS, name: 'name' };
  const name = names[setting];
  if (name === undefined) return setting;
  const { letter } = EVAL_OPTIONS[name];
  return letter === null ? flagOf(name) : `-${letter}`;
}
