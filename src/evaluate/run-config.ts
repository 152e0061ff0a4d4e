/** A run's settings as they are recorded, and the check that a resume has the same ones. */
import { createHash } from 'node:crypto';
import type { Row } from '../core/dataset.ts';
import { ConfigError } from '../core/errors.ts';
import type { EvaluationOptions } from './evaluation-options.ts';
import { samplingFields } from '../core/sampling.ts';
import { policyKind } from './policy-kind.ts';
import type { Redaction } from './redaction.ts';
import { canonicalJson } from '../core/canonical-json.ts';
import { differingSettings } from '../core/setting-differences.ts';
import { isObject } from '../schemas/is-object.ts';

export type RunConfig = Readonly<Record<string, unknown>>;

/**
 * Every setting that a result depends on. It leaves out the speed of the run (concurrency, retries), the server of the same model (base URL),
 * and the number of examples, which may grow.
 */
export function runConfig<R extends Row>(options: Omit<EvaluationOptions<R>, 'outputDir'>, redaction: Redaction): RunConfig {
  const { run, environment, client } = options;
  const kind = policyKind(options);
  const config = {
    env_id: run.envId,
    env_args: run.envArgs,
    environment: environment.provenance ?? {},
    model: run.model,
    policy_kind: kind,
    tokenizer_hash: client.capabilities.tokenizerHash,
    rollouts_per_example: options.rolloutsPerExample,
    shuffle: options.shuffle,
    shuffle_seed: options.shuffle ? options.shuffleSeed : null,
    seed: options.seed,
    sampling_args: kind === 'none' ? {} : samplingFields(options.sampling, options.maxTokens),
    timeout_ms: options.timeoutMs,
    ...(options.overridesSampling === true ? { override_sampling: true } : {}),
    independent_scoring: options.independentScoring,
    state_columns: options.stateColumns,
    ...(Object.keys(run.roles ?? {}).length === 0 ? {} : { roles: run.roles }),
  };
  return redaction.settings(JSON.parse(JSON.stringify(config)) as RunConfig);
}

/** SHA-256 of the configuration with its keys in order. */
export function configDigest(config: RunConfig): string {
  return createHash('sha256').update(canonicalJson(config)).digest('hex');
}

/** Throws ConfigError with the settings that differ and both of their values. */
export function assertSameConfig(directory: string, before: RunConfig, now: RunConfig): void {
  const difference = configDifference(before, now);
  if (difference === null) return;
  throw new ConfigError(
    `${directory} was run with another configuration: ${difference}. Use the same settings, or start a new run without --resume.`,
  );
}

/** The first settings that differ, such as `seed was 0 and is 1 now`; null if none do. */
export function configDifference(before: RunConfig, now: RunConfig): string | null {
  const differences = [...differingKeys(before, now, '')];
  if (differences.length === 0) return null;
  const shown = differences.slice(0, 3).map(([key, was, is]) => `${key} was ${show(was)} and is ${show(is)} now`);
  return `${shown.join(', ')}${differences.length > 3 ? ` (and ${differences.length - 3} more)` : ''}`;
}

/** Every setting that differs and may change a result, such as `seed: 0 → 1`. */
export function settingChanges(before: RunConfig, now: RunConfig): string[] {
  return differingSettings([before, now]).map(({ key, recorded: [was, is] }) => `${key}: ${show(was)} → ${show(is)}`);
}

function* differingKeys(before: unknown, now: unknown, path: string): Generator<[key: string, was: unknown, is: unknown]> {
  if (isObject(before) && isObject(now)) {
    for (const key of new Set([...Object.keys(before), ...Object.keys(now)])) {
      yield* differingKeys(before[key], now[key], path === '' ? key : `${path}.${key}`);
    }
  } else if (canonicalJson(before) !== canonicalJson(now) || (isSampling(path) && (before === undefined) !== (now === undefined)))
    yield [path, before, now];
}

/** Null leaves a field of the request out, `stop` for example; an absent one is the environment's. Elsewhere older runs may lack what is null now. */
function isSampling(path: string): boolean {
  return path.startsWith('sampling_args.');
}

function show(value: unknown): string {
  if (value === undefined) return 'absent';
  const text = canonicalJson(value);
  return text.length > 80 ? `${text.slice(0, 80)}…` : text;
}
