/** The differences of a scoring from the environment's own, as the run's configuration records it, and their consequences. */
import { createHash } from 'node:crypto';
import { basename } from 'node:path';
import { readRegularBytesSync } from '../../files/regular-file.ts';
import { ConfigError } from '../../core/errors.ts';
import { canonicalJson } from '../../core/canonical-json.ts';
import type { Weights } from '../../core/weighted-rubric.ts';
import { realPath } from '../../files/real-path.ts';
import { environmentIfFound } from '../../registry/find-environment.ts';
import { isObject } from '../../schemas/is-object.ts';
import type { WireMetadata } from '../../schemas/results.ts';
import { hideSecrets } from '../../transport/redact.ts';

export interface ScoreSettings {
  /** A module with another rubric; null for the environment's own. */
  readonly rubric: string | null;
  readonly weights: Weights;
  /** Arguments of the environment that differ from the run's. */
  readonly args: Readonly<Record<string, unknown>>;
}

/** The environment that scores. */
export interface ScoringEnvironment {
  readonly id: string;
  /** Real path of its module. */
  readonly entry: string;
  /** SHA-256 of that file. */
  readonly sha256: string;
}

/** `entry`: path of the module that was loaded. */
export function scoringEnvironment(id: string, entry: string): ScoringEnvironment {
  return { id, entry: realPath(entry), sha256: digestOf(entry) };
}

/**
 * Tells whether the run was played with another environment than the one that scores. A run holds only an id. If that id is found, its module has to be the same; if
 * not, the run was played from a path, and the id alone decides.
 */
export function isOtherEnvironment(recorded: string, { id, entry }: ScoringEnvironment, environmentsDir: string): boolean {
  const found = environmentIfFound(recorded, { environmentsDir });
  return found === null ? recorded !== id : realPath(found.entry) !== entry;
}

/** Empty for the own rewards of the environment that was played. `other`: another environment that scores; null if it is the same. */
export function recordedSettings({ rubric, weights, args }: ScoreSettings, other: ScoringEnvironment | null): Record<string, unknown> {
  return {
    ...(other === null ? {} : { environment: other.id, environment_sha256: other.sha256 }),
    ...(rubric === null ? {} : { rubric: basename(rubric), rubric_sha256: digestOf(rubric) }),
    ...(Object.keys(weights).length === 0 ? {} : { weights }),
    ...(Object.keys(args).length === 0 ? {} : { args: hideSecrets(args) }),
  };
}

/** Throws ConfigError if the failed rollouts would get another kind of score than the others. */
export function assertSameScores(
  { config }: WireMetadata,
  settings: Readonly<Record<string, unknown>>,
  { directory, players }: { readonly directory: string; readonly players: Readonly<Record<string, string>> },
): void {
  const before = (config['scoring'] ?? {}) as Record<string, unknown>;
  const mixed = 'would mix two kinds of scores in one run. Leave --failed out to score every rollout';
  if (canonicalJson(before) !== canonicalJson(settings)) {
    const text = (scoring: object) => (Object.keys(scoring).length === 0 ? "the environment's own rewards" : canonicalJson(scoring));
    throw new ConfigError(
      `${directory} was scored with ${text(before)}, so scoring only failed rollouts with ${text(settings)} ${mixed}, or give the same options.`,
    );
  }
  const roles = isObject(config['roles']) ? (config['roles'] as Record<string, string>) : {};
  const other = Object.entries(players).find(([role, name]) => roles[role] !== undefined && roles[role] !== name);
  if (other === undefined) return;
  const [role, name] = other;
  throw new ConfigError(`Role ${role} was played by ${roles[role]} in ${directory}, so asking ${name} for only the failed rollouts ${mixed}.`);
}

/** The run's arguments with the given ones over them. Throws ConfigError if one was a secret, which the run does not hold. */
export function scoreArguments(
  directory: string,
  { env_args: recorded }: Pick<WireMetadata, 'env_args'>,
  given: Readonly<Record<string, unknown>>,
): Record<string, unknown> {
  const merged = { ...recorded, ...given } as Record<string, unknown>;
  const hidden = Object.keys(merged).find((name) => JSON.stringify(merged[name]).includes('***'));
  if (hidden === undefined) return merged;
  throw new ConfigError(`The argument ${hidden} of ${directory} was a secret, which is not on file. Give it again: -a '{"${hidden}": ...}'.`);
}

function digestOf(file: string): string {
  return createHash('sha256').update(readRegularBytesSync(file)).digest('hex');
}
