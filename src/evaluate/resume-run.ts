/** Repairs the files that an earlier process left in a run directory, and checks them against the current options. */
import { canonicalJson } from '../core/canonical-json.ts';
import type { Row } from '../core/dataset.ts';
import { ConfigError } from '../core/errors.ts';
import { ResultSchema, TokensSchema, type WireMetadata, type WireResult } from '../schemas/results.ts';
import { recoverPlayed } from './played-file.ts';
import { recoverAsked } from './recover-asked.ts';
import type { EvaluationOptions } from './evaluation-options.ts';
import { keepLines, type Line } from '../files/json-lines.ts';
import { type RecordedRollout, recordedRollout } from './recorded-rollout.ts';
import type { Redaction } from './redaction.ts';
import { isRecordedRow } from './row-content.ts';
import { assertSameConfig, runConfig } from './run-config.ts';
import { removeTemporaryFiles, runFiles } from './run-files.ts';
import type { RunState } from './run-metadata.ts';
import { groupSize, type OpenPlan } from './run-plan.ts';
import { readMetadata, readRecords } from './run-records.ts';
import { journalPath, unfinishedScoring } from './score-journal.ts';
import { SharedTools } from './shared-tools.ts';
import { RunSpending, Spending } from './spending.ts';

/** Throws ConfigError if the directory holds no run. */
export async function assertRun(directory: string): Promise<void> {
  await readMetadata(directory);
}

/** Throws ConfigError if the directory holds no run, a run with another configuration, or a finished rollout of a row that has changed since. */
export async function resumedPlan<R extends Row>(options: EvaluationOptions<R>, rows: readonly R[], redaction: Redaction): Promise<OpenPlan<R>> {
  const { outputDir } = options;
  const metadata = await readMetadata(outputDir);
  await assertOwnScores(outputDir, metadata);
  assertSameConfig(outputDir, metadata.config, runConfig(options, redaction));
  if (rows.length < metadata.num_examples) {
    throw new ConfigError(
      `${outputDir} cannot be resumed: num_examples was ${metadata.num_examples} and is ${rows.length} now; it may only grow. Play at least as many rows, or start a new run.`,
    );
  }
  const needsTokens = options.client.capabilities.kind === 'tokens';
  const rowsById = new Map(rows.map((row) => [String(row.exampleId), row]));
  const { kept, dropped, repeated, tools, droppedTokens } = await recoverRun(outputDir, {
    needsTokens,
    membersPerGroup: groupSize(options),
    isChanged: (result) => {
      const row = rowsById.get(result.group_id);
      return row !== undefined && !isRecordedRow(result, row, redaction);
    },
  });
  const stranger = kept.find((rollout) => !rowsById.has(rollout.groupId));
  if (stranger) {
    throw new ConfigError(
      `${outputDir} cannot be resumed: its example "${stranger.groupId}" is not among the rows to play now (${rows.length}). Play more rows (-n), or start a new run.`,
    );
  }
  const { rolloutsPerExample } = options;
  const surplus = kept.find(({ rolloutId, groupId, index }) => index >= rolloutsPerExample || rolloutId !== `${groupId}/${index}`);
  if (surplus) {
    throw new ConfigError(
      `${runFiles(outputDir).results} holds rollout "${surplus.rolloutId}" with rollout_index ${surplus.index}, but each example has only ` +
        `rollouts 0 to ${rolloutsPerExample - 1}. Remove its line, or restore the file.`,
    );
  }
  const sessions = settled(metadata.sessions, kept, dropped);
  const keptIds = new Set(kept.map(({ rolloutId }) => rolloutId));
  await recoverPlayed(outputDir, keptIds);
  const asked = await recoverAsked(outputDir, keptIds);
  const earlier = metadata.dropped === undefined ? new Spending() : Spending.of(metadata.dropped);
  const spending = new RunSpending({ kept: asked.kept, dropped: earlier.plus(droppedTokens).plus(asked.dropped) });
  for (const rollout of kept) spending.addRollout(rollout);
  return {
    rows,
    kept,
    redone: dropped,
    repeated,
    sessions,
    scorings: metadata.scorings,
    startedAt: metadata.started_at,
    asked: asked.tally,
    tools,
    spending,
  };
}

/** Throws ConfigError if the rollouts that are played now would be scored in another way than those on file. */
async function assertOwnScores(directory: string, { config }: WireMetadata): Promise<void> {
  const unfinished = await unfinishedScoring(directory);
  if (unfinished !== null) {
    const remedy = unfinished.isReplacing ? '' : `, or delete ${journalPath(directory)} to give up those scores`;
    throw new ConfigError(`${directory} has an unfinished scoring. Run the same vf-score command again to finish it${remedy}. Then resume the run.`);
  }
  if (config['scoring'] === undefined) return;
  throw new ConfigError(
    `${directory} was scored by vf-score with ${canonicalJson(config['scoring'])}, so new rollouts would get other rewards than those on file. Compute the environment's own rewards again with vf-score ${directory} --in-place, then resume the run and score it at the end.`,
  );
}

/** The sessions, with the last one corrected from the results: a killed process could not record its progress. */
function settled(sessions: RunState['sessions'], kept: readonly RecordedRollout[], dropped: number): RunState['sessions'] {
  const last = sessions.at(-1);
  if (last === undefined) return sessions;
  const endedAtMs = kept.reduce((latest, rollout) => Math.max(latest, rollout.endedAtMs), 0);
  const seconds = Math.max(last.seconds, (endedAtMs - Date.parse(last.started_at)) / 1000);
  return [...sessions.slice(0, -1), { ...last, seconds, recorded: Math.max(last.recorded, kept.length + dropped - last.kept) }];
}

interface RecoverOptions {
  /** A finished rollout is kept only with the tokens of all of its branches. */
  readonly needsTokens: boolean;
  /** Size of the groups that were scored together; a rollout is kept only if its whole group finished. 1 if each was scored alone. */
  readonly membersPerGroup: number;
  /** True if the row of the rollout now has other data. */
  readonly isChanged: (result: WireResult) => boolean;
}

interface Recovered {
  /** The finished rollouts, in the order of the file. */
  readonly kept: readonly RecordedRollout[];
  /** Recorded rollouts that were dropped: they failed, or lack their tokens or their group. */
  readonly dropped: number;
  /** Lines that repeated another and were dropped, a sentence for each file. */
  readonly repeated: readonly string[];
  /** The native tools of the finished rollouts. */
  readonly tools: SharedTools;
  /** Tokens that the policy read and wrote in the dropped ones. */
  readonly droppedTokens: Spending;
}

/**
 * Drops the lines of rollouts that a resume plays again, and torn lines of a process that died. Needs the lock. Throws ConfigError, and changes no line, if the row of
 * a kept rollout has changed.
 */
async function recoverRun(directory: string, { needsTokens, membersPerGroup, isChanged }: RecoverOptions): Promise<Recovered> {
  await removeTemporaryFiles(directory);
  const files = runFiles(directory);
  const tokens = new Map<string, Map<number, Line>>();
  const tokenFile = await readRecords(files.tokens, TokensSchema, ({ rollout_id: id, branch = 0 }, line) => {
    const lines = tokens.get(id) ?? new Map<number, Line>();
    tokens.set(id, lines.set(branch, withoutText(line)));
  });
  const tools = new SharedTools();
  const found = new Map<string, { rollout: RecordedRollout; line: Line; hasChanged: boolean }>();
  const droppedTokens = new Spending();
  const resultFile = await readRecords(files.results, ResultSchema, (record, line) => {
    tools.add(record);
    const rollout = recordedRollout(record);
    const isFinished = rollout.error === null && (!needsTokens || hasEveryBranch(tokens.get(rollout.rolloutId), record));
    if (isFinished) found.set(rollout.rolloutId, { rollout, line: withoutText(line), hasChanged: isChanged(record) });
    else droppedTokens.addRollout(rollout);
  });
  const sizes = new Map<string, number>();
  for (const { rollout } of found.values()) sizes.set(rollout.groupId, (sizes.get(rollout.groupId) ?? 0) + 1);
  const kept = [...found.values()].filter(({ rollout }) => sizes.get(rollout.groupId)! >= membersPerGroup);
  const changed = kept.find(({ hasChanged }) => hasChanged);
  if (changed) {
    throw new ConfigError(
      `${directory} cannot be resumed: row "${changed.rollout.groupId}" of the environment now has another answer or info than the run has on file. ` +
        `Restore the data that the run played, or start a new run.`,
    );
  }

  const incomplete = [...found.values()].filter(({ rollout }) => sizes.get(rollout.groupId)! < membersPerGroup);
  for (const { rollout } of incomplete) droppedTokens.addRollout(rollout);

  const keptIds = new Set(kept.map(({ rollout }) => rollout.rolloutId));
  const keptTokens = [...tokens].filter(([id]) => keptIds.has(id)).flatMap(([, lines]) => [...lines.values()]);
  // Tokens last: a crash in between leaves tokens without a result, which the next resume drops, but never a result without its tokens.
  if (!resultFile.endsWhole || kept.length < resultFile.lines)
    await keepLines(
      files.results,
      kept.map(({ line }) => line),
    );
  if (!tokenFile.endsWhole || keptTokens.length < tokenFile.lines) await keepLines(files.tokens, keptTokens);
  return {
    kept: kept.map(({ rollout }) => rollout),
    dropped: resultFile.records - kept.length,
    repeated: [...resultFile.notes, ...tokenFile.notes],
    tools,
    droppedTokens,
  };
}

function hasEveryBranch(lines: ReadonlyMap<number, unknown> = new Map(), { branches }: WireResult): boolean {
  return Array.from({ length: branches?.length ?? 1 }, (_, branch) => lines.has(branch)).every(Boolean);
}

/** The place of a line without its text. */
function withoutText(line: Line): Line {
  return { ...line, text: '' };
}
