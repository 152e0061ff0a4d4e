/** Exports the rollouts that a training run has kept of a step, compressed or not, in the form of an evaluation's. */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { ConfigError } from '../../core/errors.ts';
import { demonstrationRow, type ExportCounts, type ExportOptions, unselectedIds } from '../../evaluate/export-run.ts';
import { joinedSpans, type VersionSpan } from '../../core/version-spans.ts';
import { runNameIn } from '../../files/run-name-in.ts';
import { readTomlSync } from '../../files/toml-text.ts';
import { imageColumns, roleAndTask } from '../../rollouts/rollout-columns.ts';
import { tokensRowLine } from '../../schemas/demonstration-row.ts';
import { fieldsOf } from '../../schemas/is-object.ts';
import { exportLine, exportProblem, type RolloutExport } from '../../schemas/rollout-export.ts';
import { samplingColumns } from '../../schemas/sampling-columns.ts';
import { rewardColumn } from '../../schemas/turn-columns.ts';
import { type KeptStep, keptSteps, readKeptStep } from '../../trainer/records/kept-steps.ts';
import { trainingPaths } from '../../trainer/records/training-directory.ts';
import { sequencesOf } from '../../trainer/trajectory-branches.ts';
import type { Trajectory } from '../../trainer/trajectory.ts';
import { localTokenizerHash } from '../../sessions/policy/local-tokenizer-hash.ts';

type Write = (line: string) => Promise<void>;

/** Tells whether the folder is that of a training run. */
export function isTrainingRun(directory: string): boolean {
  return existsSync(trainingPaths(directory).run);
}

/** Calls `write` as `exportRun` does. `step`: null if none was named. Throws ConfigError for a step that the run has not kept with its tokens. */
export async function exportTrainingStep(directory: string, step: number | null, write: Write, options: ExportOptions): Promise<ExportCounts> {
  const files = await filesOf(directory, step);
  const run = await readRun(directory);
  const counts = { name: run.run_name ?? null, exported: 0, errored: 0, cut: 0, withoutTokens: 0, unplayed: 0, unpaid: 0 };
  const rollouts: Exported[] = [];
  const notes: string[] = [];
  for (const trajectory of (await Promise.all(files.map((file) => readKeptStep(file, (note) => notes.push(note))))).flat()) {
    const { error, reward, isCut, logProbs, targets } = trajectory;
    if (error !== null) counts.errored += 1;
    else if (reward === null) counts.unpaid += 1;
    else if (isCut) counts.cut += 1;
    else if (logProbs === null) counts.withoutTokens += 1;
    // A row without a token to learn is refused.
    else if (options.asDemonstrations === true && targets.length === 0) counts.unplayed += 1;
    else rollouts.push({ lines: branchLines(trajectory, reward, run), index: trajectory.index });
  }
  const unselected = new Set(
    unselectedIds(
      rollouts.map(({ lines: [first], index }) => ({ ...first!, index })),
      options,
    ),
  );
  let lines = 0;
  for (const { lines: own } of rollouts) {
    if (unselected.has(own[0]!.rollout_id)) continue;
    // A row without a token to learn is refused.
    const written = own.filter(({ loss_mask: mask }) => options.asDemonstrations !== true || mask.includes(1));
    for (const line of written) {
      const problem = exportProblem(line);
      if (problem !== null) throw new ConfigError(`The tokens of rollout ${line.rollout_id} of ${directory} do not agree: ${problem}`);
      await write(`${options.asDemonstrations === true ? tokensRowLine(demonstrationRow(line)) : exportLine(line)}\n`);
    }
    lines += written.length;
    counts.exported += 1;
  }
  const hasBranches = rollouts.some(({ lines: own }) => own.length > 1);
  return { ...counts, ...(hasBranches ? { branches: lines } : {}), unselected: unselected.size, notes };
}

interface Exported {
  /** One for each branch. */
  readonly lines: readonly RolloutExport[];
  readonly index: number;
}

function branchLines(trajectory: Trajectory, reward: number, run: RunColumns): readonly RolloutExport[] {
  const { branches } = trajectory;
  return sequencesOf(trajectory).map((sequence, branch) => {
    const line = exportOf(sequence, { reward, logProbs: sequence.logProbs! }, run);
    if (branches === undefined) return line;
    const { parent, reward: own, endsLast } = branches[branch]!;
    return {
      ...line,
      branch,
      parent,
      branch_count: branches.length,
      ...(own === undefined ? {} : { branch_reward: own }),
      ...(endsLast === undefined ? {} : { ends_last: endsLast }),
    };
  });
}

/** Files of the step, one for each phase. */
async function filesOf(directory: string, step: number | null): Promise<readonly KeptStep[]> {
  const kept = await keptSteps(trainingPaths(directory).rollouts);
  const whole = [...new Set(kept.filter((file) => file.kept !== 'thin').map((file) => file.step))];
  const known =
    whole.length === 0
      ? 'It has kept no step with its tokens'
      : `It has kept ${stepsText(whole)} with ${whole.length === 1 ? 'its' : 'their'} tokens`;
  if (step === null) throw new ConfigError(`${directory} is a training run. Name one of its steps: --step N. ${known}.`);
  const files = kept.filter((file) => file.step === step);
  if (files.length === 0) throw new ConfigError(`${directory} has not kept the rollouts of step ${step}. ${known}.`);
  if (files.some((file) => file.kept === 'thin'))
    throw new ConfigError(`${directory} has kept step ${step} without its tokens, to save space, so it cannot be exported. ${known}.`);
  return files;
}

const MOST_LISTED = 12;

function stepsText(steps: readonly number[]): string {
  const listed = steps.length <= MOST_LISTED ? steps.join(', ') : `${steps.length} steps from ${steps[0]} to ${steps.at(-1)}`;
  return steps.length === 1 ? `step ${listed}` : steps.length <= MOST_LISTED ? `the steps ${listed}` : listed;
}

type RunColumns = Pick<RolloutExport, 'run_name' | 'sampling' | 'logprobs_mode' | 'tokenizer_hash'>;

async function readRun(directory: string): Promise<RunColumns> {
  const path = trainingPaths(directory).config;
  const config = readTomlSync(path);
  const { temperature, max_tokens: maxTokens } = fieldsOf(config['rollouts']);
  const { path: model } = fieldsOf(config['model']);
  const name = await runNameIn(directory);
  return {
    ...(name === null ? {} : { run_name: name }),
    sampling: samplingColumns({
      temperature: typeof temperature === 'number' ? temperature : 1,
      topP: 1,
      maxTokens: typeof maxTokens === 'number' ? maxTokens : null,
    }),
    // A training refuses a server whose log-probs are not those of the distribution that it samples from.
    logprobs_mode: 'processed',
    tokenizer_hash: typeof model === 'string' && existsSync(join(model, 'tokenizer.json')) ? await localTokenizerHash(model) : null,
  };
}

function exportOf(
  {
    rolloutId,
    groupId,
    role,
    task,
    metrics,
    stop,
    isTruncated,
    policy,
    ids,
    targets,
    promptLength,
    versions,
    turnTokens,
    turnRewards = [],
    images = [],
  }: Trajectory,
  { reward, logProbs }: { readonly reward: number; readonly logProbs: Float64Array },
  run: RunColumns,
): RolloutExport {
  const mask = Array.from(ids, (): 0 | 1 => 0);
  const ofToken = Array.from(ids, (): number | null => null);
  const versionOf = Array.from(ids, (): number | null => null);
  for (const [i, at] of targets.entries()) {
    mask[at] = 1;
    ofToken[at] = logProbs[i]!;
    versionOf[at] = versions?.[i] ?? policy.version;
  }
  return {
    schema_version: 1,
    ...run,
    rollout_id: rolloutId,
    group_id: groupId,
    // A training keeps no other id for the row.
    example_id: groupId,
    ...roleAndTask({ role, task }),
    reward,
    metrics: { ...metrics },
    stop_condition: stop,
    is_truncated: isTruncated,
    policy: { model: policy.model, version: policy.version },
    token_ids: [...ids],
    loss_mask: mask,
    logprobs: ofToken,
    prompt_length: promptLength,
    segments: segmentsOf(promptLength, versionOf),
    ...(turnTokens === undefined ? {} : { turn_tokens: [...turnTokens] }),
    ...rewardColumn(turnRewards),
    ...(images.length === 0 ? {} : { images: images.map(imageColumns) }),
  };
}

/** The prompt, then text of the policy and text of the environment, in turn. */
function segmentsOf(promptLength: number, versionOf: readonly (number | null)[]): RolloutExport['segments'] {
  const segments: RolloutExport['segments'] = promptLength > 0 ? [{ kind: 'prompt', start: 0, end: promptLength, version: null }] : [];
  for (let start = promptLength, end = start; start < versionOf.length; start = end) {
    const isModel = versionOf[start] !== null;
    while (end < versionOf.length && (versionOf[end] !== null) === isModel) end++;
    if (!isModel) segments.push({ kind: 'observation', start, end, version: null });
    else segments.push({ kind: 'model', start, end, ...versionsOf(versionOf.slice(start, end) as readonly number[]) });
  }
  return segments;
}

/** The oldest, and all of them in order if there are several. */
function versionsOf(each: readonly number[]): { readonly version: number; readonly versions?: VersionSpan[] } {
  const versions = joinedSpans(each.map((version) => ({ version, tokens: 1 })));
  return {
    version: versions.reduce((oldest, { version }) => Math.min(oldest, version), Infinity),
    ...(versions.length > 1 ? { versions: [...versions] } : {}),
  };
}
