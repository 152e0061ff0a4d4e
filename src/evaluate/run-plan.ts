/** Which rollouts a run is to have, and which of them are on disk already. */
import { mkdir, stat } from 'node:fs/promises';
import type { Row } from '../core/dataset.ts';
import { ConfigError, ResultsError } from '../core/errors.ts';
import { Random } from '../core/random.ts';
import type { RolloutGroup } from '../rollouts/run-rollouts.ts';
import type { EvaluationOptions } from './evaluate.ts';
import type { Redaction } from './redaction.ts';
import type { RecordedRollout } from './recorded-rollout.ts';
import { assertSameConfig, runConfig } from './run-config.ts';
import { readMetadata, recoverRun, runFiles } from './run-files.ts';
import type { RunState } from './run-metadata.ts';
import type { RunPlan } from './run-writer.ts';

/** A plan, and how many recorded rollouts it will play again. */
export interface OpenPlan<R extends Row> extends RunPlan<R> {
  readonly redone: number;
}

export function checkOptions<R extends Row>(options: EvaluationOptions<R>): void {
  const { numExamples, rolloutsPerExample, maxConcurrent, maxRetries, timeoutMs } = options;
  const check = (isRight: boolean, name: string, expected: string, value: unknown) => {
    if (!isRight) throw new ConfigError(`Expected ${name} to be ${expected}, got ${String(value)}`);
  };
  check(numExamples === -1 || isCount(numExamples), 'numExamples', 'an integer from 1 up, or -1 for all', numExamples);
  check(isCount(rolloutsPerExample), 'rolloutsPerExample', 'an integer from 1 up', rolloutsPerExample);
  check(isCount(maxConcurrent), 'maxConcurrent', 'an integer from 1 up', maxConcurrent);
  check(maxRetries === 0 || isCount(maxRetries), 'maxRetries', 'an integer from 0 up', maxRetries);
  check(timeoutMs === null || timeoutMs > 0, 'timeoutMs', 'above 0, or null for none', timeoutMs);
}

/** The rows to play, in the order they are begun. */
export function selectRows<R extends Row>({ environment, numExamples, shuffle, shuffleSeed }: EvaluationOptions<R>): readonly R[] {
  const all = shuffle ? environment.eval.shuffle(Random.fromSeed(shuffleSeed)) : environment.eval;
  const rows = [...(numExamples === -1 ? all : all.take(numExamples))];
  if (rows.length === 0) throw new ConfigError(`Expected ${environment.eval.name} to have rows to evaluate, it is empty`);
  const seen = new Set<string>();
  for (const { exampleId } of rows) {
    const id = String(exampleId);
    if (seen.has(id)) throw new ConfigError(`Expected example ids to be unique in ${environment.eval.name}, got "${id}" twice`);
    seen.add(id);
  }
  return rows;
}

/** How many rollouts are scored together, and therefore kept or played again together. */
export function groupSize<R extends Row>({ environment, independentScoring, rolloutsPerExample }: EvaluationOptions<R>): number {
  return environment.rubric.hasGroupRewards && !independentScoring ? rolloutsPerExample : 1;
}

/** Throws ConfigError where a directory cannot be, ResultsError when the disk has no room for one. */
export async function makeDirectory(directory: string): Promise<void> {
  try {
    await mkdir(directory, { recursive: true });
  } catch (cause) {
    const { code, message } = cause as NodeJS.ErrnoException;
    const isFull = code === 'ENOSPC' || code === 'EDQUOT';
    if (isFull) throw new ResultsError(`Expected to make the run directory ${directory}: the disk is full; free some space`, { cause });
    throw new ConfigError(`Expected a place for the run directory ${directory}, got ${message}`, { cause });
  }
}

/** Throws ConfigError when the directory holds a run already. */
export async function newPlan<R extends Row>({ outputDir }: EvaluationOptions<R>, rows: readonly R[]): Promise<OpenPlan<R>> {
  const { metadata, results } = runFiles(outputDir);
  for (const path of [metadata, results]) {
    const found = await stat(path).catch(() => null);
    // An empty file is no run: its process died before it began.
    if (found && found.size > 0)
      throw new ConfigError(`Expected ${outputDir} to hold no run yet, found ${path}; resume it, or choose another directory`);
  }
  return { rows, kept: [], redone: 0, sessions: [], startedAt: new Date().toISOString() };
}

/** Throws ConfigError when the directory holds no run, or one of another configuration. */
export async function resumedPlan<R extends Row>(options: EvaluationOptions<R>, rows: readonly R[], redaction: Redaction): Promise<OpenPlan<R>> {
  const { outputDir } = options;
  const metadata = await readMetadata(outputDir);
  assertSameConfig(outputDir, metadata.config, runConfig(options, redaction));
  if (rows.length < metadata.num_examples) {
    throw new ConfigError(
      `Expected the configuration of ${outputDir} to resume it, but num_examples was ${metadata.num_examples} and is ${rows.length} now; it may only grow`,
    );
  }
  const needsTokens = options.client.capabilities.kind === 'tokens';
  const { kept, dropped } = await recoverRun(outputDir, { needsTokens, groupSize: groupSize(options) });
  const ids = new Set(rows.map((row) => String(row.exampleId)));
  const stranger = kept.find((rollout) => !ids.has(rollout.groupId));
  if (stranger) {
    throw new ConfigError(`Expected the data set of ${outputDir} to resume it, but example "${stranger.groupId}" is not among its rows any more`);
  }
  const sessions = settled(metadata.sessions, kept, dropped);
  return { rows, kept, redone: dropped, sessions, startedAt: metadata.started_at };
}

/** The sessions with the last one as the results tell it: a killed process had no time to write down how far it came. */
function settled(sessions: RunState['sessions'], kept: readonly RecordedRollout[], dropped: number): RunState['sessions'] {
  const last = sessions.at(-1);
  if (last === undefined) return sessions;
  const endedAtMs = kept.reduce((latest, rollout) => Math.max(latest, rollout.endedAtMs), 0);
  const seconds = Math.max(last.seconds, (endedAtMs - Date.parse(last.started_at)) / 1000);
  return [...sessions.slice(0, -1), { ...last, seconds, recorded: Math.max(last.recorded, kept.length + dropped - last.kept) }];
}

/** What is left to play. */
export function missingGroups<R extends Row>({ rows, kept }: RunPlan<R>, rolloutsPerExample: number): RolloutGroup<R>[] {
  const done = new Set(kept.map((rollout) => rollout.rolloutId));
  const all = Array.from({ length: rolloutsPerExample }, (_, index) => index);
  return rows
    .map((row) => ({ row, indices: all.filter((index) => !done.has(`${row.exampleId}/${index}`)) }))
    .filter(({ indices }) => indices.length > 0);
}

function isCount(value: number): boolean {
  return Number.isSafeInteger(value) && value >= 1;
}
