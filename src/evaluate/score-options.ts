/** The options and results of scoring a run again. */
import { createHash } from 'node:crypto';
import { canonicalJson } from '../core/canonical-json.ts';
import type { Row } from '../core/dataset.ts';
import type { Environment } from '../core/environment.ts';
import type { RewardError } from '../core/errors.ts';
import type { RoleModels } from '../core/model.ts';
import type { Rubric, Score } from '../core/rubric.ts';
import type { TimeoutNames } from '../rollouts/deadline.ts';
import type { WireMetadata } from '../schemas/results.ts';
import type { RoleStats } from '../schemas/role-stats.ts';

export interface ScoreOptions<R extends Row = Row> {
  /** The run, whose files are replaced. */
  readonly directory: string;
  /** The run that the directory is a copy of. Errors name this run. @default the directory */
  readonly copyOf?: string;
  readonly environment: Pick<Environment<R>, 'eval' | 'finish'> & { readonly rubric: Rubric<R> };
  readonly models?: RoleModels & { readonly stats?: ReadonlyMap<string, Pick<RoleStats, 'failures'>> };
  /** Tells whether a role is called although the record has its reply. @default never */
  readonly asksAgain?: (role: string) => boolean;
  /** Scores only the rollouts whose rewards failed, and with group rewards their groups. @default false */
  readonly failedOnly?: boolean;
  /** Writes the errors of rollouts that could not be scored. @default the records of those rollouts stay, and if one had a score, all of the run stays */
  readonly recordsFailures?: boolean;
  /** Computes a score from the recorded one, without the rubric. @default the rubric scores */
  readonly fromScore?: (score: Score) => Score | RewardError;
  /** The way in which the rewards differ from those of the environment; part of the run's configuration from now on. */
  readonly settings: Readonly<Record<string, unknown>>;
  /** The name of the model of each role; part of the configuration too. */
  readonly players: Readonly<Record<string, string>>;
  /** Digests of the files that score, by setting and file; recorded, and part of what the scores depend on. */
  readonly inputs: Readonly<Record<string, Readonly<Record<string, string>>>>;
  /**
   * Everything else that the scores depend on, so that only the same scoring goes on after a kill: the environment's module, the run that was copied, the servers
   * that are called.
   */
  readonly basis: Readonly<Record<string, unknown>>;
  /** The caller holds the lock of the directory. @default false */
  readonly isLocked?: boolean;
  /** Leaves the journal of the finished scoring to the caller, which renames the folder first. @default false */
  readonly keepsJournal?: boolean;
  /** Rollouts scored at once, or with group rewards groups. */
  readonly maxScoring: number;
  /** Wall clock of the rewards of a rollout; null sets no limit. */
  readonly scoringTimeoutMs: number | null;
  readonly timeoutNames?: TimeoutNames;
  readonly packageVersion: string;
  /** Values that must not appear in any file (API keys). */
  readonly secrets: readonly string[];
  /** Aborting stops the scoring; scores found so far are kept for the next call. */
  readonly signal: AbortSignal;
  readonly onProgress?: (progress: ScoreProgress) => void;
}

interface ScoreProgress {
  readonly done: number;
  readonly total: number;
  readonly failed: number;
}

export interface ScoreResult {
  /** Lines that were left out because they repeat others, a sentence for each file. */
  readonly repeated: readonly string[];
  /** The metadata before the scoring, with the figures of the rollouts on file. */
  readonly before: WireMetadata;
  /** Rollouts that have a new score, or the same one again. */
  readonly scored: number;
  /** The number of these whose line changed. */
  readonly changed: number;
  /** Rollouts that could not be scored, by error. */
  readonly failures: readonly { readonly rolloutId: string; readonly type: string; readonly message: string; readonly hadScore: boolean }[];
  /** Rollouts that failed before their rewards, and those whose end was not recorded. */
  readonly unplayed: number;
  readonly unsaved: number;
  /** Rollouts that the scoring does not cover: with `failedOnly` those that have a score, with `fromScore` those that have none. */
  readonly left: number;
  /** False if a rollout that had a score could not be scored: the run is as before, and the same call goes on. */
  readonly isReplaced: boolean;
}

/** Digest of everything that the scores depend on. The weighted sum needs no entry: the settings and the run decide it. */
export function scoringDigest<R extends Row>(options: Omit<ScoreOptions<R>, 'directory'>): string {
  const { settings, players, inputs, basis, failedOnly = false, recordsFailures = false, environment } = options;
  const { names, weights } = environment.rubric;
  const what = { settings, players, inputs, basis, failedOnly, recordsFailures, names, weights: Object.fromEntries(weights) };
  return createHash('sha256').update(canonicalJson(what)).digest('hex');
}
