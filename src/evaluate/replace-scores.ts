/** Puts new scores into the files of a run: each file is replaced by a rename, the results after the records that belong to them. */
import { existsSync } from 'node:fs';
import { canonicalJson } from '../core/canonical-json.ts';
import { recordedInputs, withEnvironmentVersion } from '../core/environment-version.ts';
import { type KeptLine, keepLines, readLines } from '../files/json-lines.ts';
import { askedFromLine, AskedTally, roleStatsToWire } from '../models/asked-records.ts';
import type { MetricDisplay } from '../core/rubric.ts';
import type { RoleStats } from '../schemas/role-stats.ts';
import { AskedLineSchema } from '../schemas/asked-line.ts';
import { ResultSchema, type WireMetadata } from '../schemas/results.ts';
import { type RecordedRollout, recordedRollout } from './recorded-rollout.ts';
import type { RescoredLines } from './rescored-lines.ts';
import { configDigest } from './run-config.ts';
import { runFiles, writeMetadata } from './run-files.ts';
import { isBehind, withFigures } from './run-metadata.ts';
import { readMetadata, readRecords } from './run-records.ts';
import type { RunIndex } from './run-index.ts';

export interface ReplaceOptions {
  readonly index: RunIndex;
  readonly found: ReadonlyMap<string, RescoredLines>;
  readonly displays: ReadonlyMap<string, MetricDisplay>;
  /** The run's configuration from now on. */
  readonly config: Readonly<Record<string, unknown>>;
  /** Added to `scorings` of the metadata. */
  readonly scoring: NonNullable<WireMetadata['scorings']>[number];
  /** Failures of roles in this process. */
  readonly failures: ReadonlyMap<string, Pick<RoleStats, 'failures'>>;
}

/** Safe to repeat after a crash. Changes no file if no line changes, the configuration is the same, and the figures match the rollouts on file. */
export async function replaceScores(directory: string, options: ReplaceOptions): Promise<void> {
  const { index, found, config } = options;
  const files = runFiles(directory);
  const before = await readMetadata(directory);
  await replaceById(files.asked, 'asked', index.asked, found);
  await replaceById(files.played, 'played', index.played, found);
  const places = new Map([...index.rollouts].map(([id, { line }]) => [id, line]));
  const isChanged = await replaceById(files.results, 'result', places, found);
  const isScored = isChanged || configDigest(config) !== before.config_digest || isScoredByOthers(before, options.scoring);
  const isStale = isBehind(
    before,
    [...index.rollouts.values()].map(({ rollout }) => rollout),
  );
  if (isScored || isStale) await writeMetadata(directory, await newMetadata(directory, before, { ...options, isScored }));
}

/** Equal scores of other files are news, too: runs that different files scored are not compared. */
function isScoredByOthers(before: WireMetadata, scoring: ReplaceOptions['scoring']): boolean {
  const scorers = (metadata: Pick<WireMetadata, 'sessions' | 'scorings'>) => canonicalJson(withEnvironmentVersion({}, ...recordedInputs(metadata)));
  return scorers(before) !== scorers({ ...before, scorings: [...(before.scorings ?? []), scoring] });
}

/** Returns whether a line changed. */
async function replaceById(
  path: string,
  kind: keyof RescoredLines,
  places: ReadonlyMap<string, { readonly start: number }>,
  found: ReadonlyMap<string, RescoredLines>,
): Promise<boolean> {
  const changes = new Map([...found].flatMap(([id, lines]) => (lines[kind] === undefined ? [] : [[id, lines[kind]] as const])));
  if (changes.size === 0 || !existsSync(path)) return false;
  const byStart = new Map([...places].flatMap(([id, { start }]) => (changes.has(id) ? [[start, id] as const] : [])));
  // A killed run may end in half a line, and a line may repeat another.
  const known = new Set([...places.values()].map(({ start }) => start));
  const lines: KeptLine[] = [];
  for await (const { start, end, isWhole } of readLines(path)) {
    if (!known.has(start)) continue;
    const id = byStart.get(start);
    const newText = id === undefined ? undefined : changes.get(id)!;
    if (newText === undefined) lines.push({ start, end, isWhole });
    else if (newText !== '') lines.push({ newText });
  }
  for (const [id, newText] of changes) if (!places.has(id) && newText !== '') lines.push({ newText });
  await keepLines(path, lines);
  return true;
}

async function newMetadata(
  directory: string,
  before: WireMetadata,
  { displays, config, scoring, failures, isScored }: ReplaceOptions & { readonly isScored: boolean },
): Promise<WireMetadata> {
  const files = runFiles(directory);
  const rollouts = new Map<string, RecordedRollout>();
  await readRecords(files.results, ResultSchema, (result) => {
    rollouts.set(result.rollout_id, recordedRollout(result));
  });
  const asked = new Map<string, Parameters<AskedTally['add']>[0]>();
  await readRecords(files.asked, AskedLineSchema, (line) => asked.set(line.rollout_id, askedFromLine(line)));
  const tally = new AskedTally();
  for (const [id, records] of asked) if (rollouts.has(id)) tally.add(records);
  const roles = tally.stats(failures);
  const { scorings = [] } = before;
  // A process that was killed after this step has added its scoring already.
  const isNew = isScored && scorings.at(-1)?.at !== scoring.at;
  return {
    ...withFigures(before, [...rollouts.values()], displays),
    config,
    config_digest: configDigest(config),
    updated_at: new Date().toISOString(),
    ...(Object.keys(roles).length === 0 ? {} : { roles: roleStatsToWire(roles) }),
    ...(isNew ? { scorings: [...scorings, scoring] } : {}),
  };
}
