/** Exports the rollouts of a run directory for a trainer. */
import { ConfigError } from '../core/errors.ts';
import { ResultSchema, TokensSchema, type WireMetadata, type WireResult, type WireTokens } from '../schemas/results.ts';
import { exportLine, exportProblem, type RolloutExport } from '../schemas/rollout-export.ts';
import { roleAndTask } from '../rollouts/rollout-columns.ts';
import { turnsOfGenerations } from '../rollouts/turns-of-generations.ts';
import { sampledPlaces } from '../schemas/turn-columns.ts';
import { type TokensRow, tokensRowLine } from '../schemas/demonstration-row.ts';
import { recordedMetrics } from './recorded-rollout.ts';
import { runFiles } from './run-files.ts';
import { readMetadata, readRecords } from './run-records.ts';

export interface ExportCounts {
  /** Name of the run; null without one. */
  readonly name: string | null;
  readonly exported: number;
  /** Their lines, one for each branch; absent if none has several. */
  readonly branches?: number;
  /** Left out: the rollout failed and has no reward. */
  readonly errored: number;
  /** Left out: its context was cut as upstream does, so its tokens are not those that the policy saw. */
  readonly cut: number;
  /** Left out: its tokens are not on file. */
  readonly withoutTokens: number;
  /** Left out of supervised rows: the policy wrote no token, for example because the prompt filled the context. */
  readonly unplayed: number;
  /** Left out of a training step: its reward depends on other rollouts that were never played. @default 0 */
  readonly unpaid?: number;
  /** Left out by the selection. */
  readonly unselected: number;
  /** Lines that were left out because they repeat others or are cut off, a sentence each. */
  readonly notes: readonly string[];
}

interface ExportSelection {
  /** Leaves out rollouts with a lower reward. @default none */
  readonly minReward?: number;
  /** Most rollouts of a group: those with the highest rewards, and among equal ones the first by index. @default all */
  readonly best?: number;
}

export interface ExportOptions extends ExportSelection {
  /** Writes supervised rows (`vf-train --sft`) instead of rollouts. @default false */
  readonly asDemonstrations?: boolean;
}

/**
 * Calls `write` with one line, line feed included, per branch of each finished and selected rollout, in the order in which they ended. Throws ConfigError if the directory
 * holds no run, if the run has no tokens, or if its files disagree.
 */
export async function exportRun(directory: string, write: (line: string) => Promise<void>, options: ExportOptions = {}): Promise<ExportCounts> {
  const metadata = await readMetadata(directory);
  if (metadata.policy.kind === 'none') {
    throw new ConfigError(
      `${directory} is a run of the program ${metadata.env_id}, which asks models of its own, so it has no token ids or log-probs to export. ` +
        'Evaluate an environment that a policy plays.',
    );
  }
  if (metadata.policy.kind !== 'tokens') {
    throw new ConfigError(
      `${directory} was played in chat mode (${metadata.policy.name}), so it has no token ids or log-probs to export. Evaluate with a model that plays ` +
        'this environment by token ids (-p embedded, -p vllm): the policy line of vf-eval --dry-run shows whether a model does, and if not, why.',
    );
  }
  const files = runFiles(directory);
  const waiting = new Map<string, Waiting>();
  const counts = { exported: 0, errored: 0, cut: 0, unplayed: 0 };
  const results = await readRecords(files.results, ResultSchema, (result) => {
    if (result.error !== null || result.reward === null) counts.errored += 1;
    else if (result.is_cut) counts.cut += 1;
    // A row without a token to learn is refused. Files of earlier versions hold a reward for a rollout that was not played.
    else if (result.num_turns === 0 || (options.asDemonstrations === true && result.token_usage.output_tokens === 0)) counts.unplayed += 1;
    else waiting.set(result.rollout_id, { ...exportHead(metadata, result), index: result.rollout_index, branches: waitingBranches(result) });
  });
  const unselected = unselectedIds([...waiting.values()], options);
  for (const id of unselected) waiting.delete(id);
  let lines: number | null = null;
  const tokenFile = await readRecords(files.tokens, TokensSchema, async (tokens) => {
    const found = waiting.get(tokens.rollout_id);
    if (found === undefined) return;
    const rollout = exportedBranch(found, tokens, files.tokens);
    const { branches } = found;
    const isLearned = options.asDemonstrations !== true || rollout.loss_mask.includes(1);
    const line = options.asDemonstrations === true ? tokensRowLine(demonstrationRow(rollout)) : exportLine(rollout);
    branches[tokens.branch ?? 0]!.line = isLearned ? line : '';
    if (branches.some((branch) => branch.line === null)) return;
    waiting.delete(tokens.rollout_id);
    const written = branches.map((branch) => branch.line!).filter((each) => each !== '');
    if (branches.length > 1) lines ??= counts.exported;
    if (lines !== null) lines += written.length;
    if (written.length === 0) counts.unplayed += 1;
    else counts.exported += 1;
    for (const each of written) await write(`${each}\n`);
  });
  return {
    name: metadata.name ?? null,
    ...counts,
    ...(lines === null ? {} : { branches: lines }),
    withoutTokens: waiting.size,
    unselected: unselected.length,
    notes: [results, tokenFile].flatMap(({ notes, cutOff }) => [...notes, ...cutOff]),
  };
}

/** The columns that a selection reads. */
type SelectedBy = Pick<RolloutExport, 'rollout_id' | 'group_id' | 'reward'> & { readonly index: number };

interface Waiting extends ExportHead {
  readonly index: number;
  readonly branches: readonly WaitingBranch[];
}

interface WaitingBranch {
  readonly turns: Parameters<typeof turnsOfGenerations>[0];
  readonly own: Pick<RolloutExport, 'role' | 'branch' | 'parent' | 'branch_count' | 'branch_reward' | 'ends_last'>;
  /** Null until its tokens were read; empty if it has nothing to learn. */
  line: string | null;
}

function waitingBranches({ generations, branches }: WireResult): WaitingBranch[] {
  const turns = generations.map(({ kept_tokens: keptTokens, reward }) => ({ keptTokens, ...(reward === undefined ? {} : { reward }) }));
  const isPlain = branches === undefined || (branches.length === 1 && branches[0]!.role === undefined && branches[0]!.reward === undefined);
  if (isPlain) return [{ turns, own: {}, line: null }];
  let at = 0;
  return branches.map(({ generations: count, parent, role, reward, ends_last: endsLast }, branch) => {
    const own = {
      branch,
      parent,
      branch_count: branches.length,
      ...(role === undefined ? {} : { role }),
      ...(reward === undefined ? {} : { branch_reward: reward }),
      ...(endsLast === undefined ? {} : { ends_last: endsLast }),
    };
    return { turns: turns.slice(at, (at += count)), own, line: null };
  });
}

/** Throws ConfigError if the tokens do not agree with each other or with the results. */
function exportedBranch(waiting: Waiting, tokens: WireTokens, path: string): RolloutExport {
  const { index: _, branches, ...head } = waiting;
  const branch = branches[tokens.branch ?? 0];
  const lost = branch === undefined ? `they are of branch ${tokens.branch}, and its results have ${branches.length}` : null;
  const rollout = { ...exported(head, tokens), ...branch?.own, ...turnsOfGenerations(branch?.turns ?? [], sampledPlaces(tokens.loss_mask)) };
  const problem = lost ?? exportProblem(rollout);
  if (problem !== null) throw new ConfigError(`The tokens of rollout ${tokens.rollout_id} in ${path} do not agree: ${problem}`);
  return rollout;
}

/** Rollouts below the lowest reward, or beyond the best of their group. */
export function unselectedIds(heads: readonly SelectedBy[], { minReward = -Infinity, best = Infinity }: ExportSelection): string[] {
  const groups = Map.groupBy(heads, ({ group_id: group }) => group);
  const kept = [...groups.values()].flatMap((members) =>
    members
      .filter(({ reward }) => reward >= minReward)
      .toSorted((a, b) => b.reward - a.reward || a.index - b.index)
      .slice(0, best),
  );
  const selected = new Set(kept.map(({ rollout_id: id }) => id));
  return heads.map(({ rollout_id: id }) => id).filter((id) => !selected.has(id));
}

/** A rollout as a supervised row: the tokens that the policy saw, and which of them it wrote. */
export function demonstrationRow({
  run_name,
  rollout_id,
  branch,
  parent,
  example_id,
  group_id,
  task,
  reward,
  token_ids,
  loss_mask,
  tokenizer_hash,
  turn_tokens,
  turn_rewards,
  images,
}: RolloutExport): TokensRow {
  return {
    ...(run_name === undefined ? {} : { run_name }),
    ...(branch === undefined ? {} : { rollout_id, branch, parent: parent! }),
    example_id,
    group_id,
    ...(task === undefined ? {} : { task }),
    reward,
    token_ids,
    loss_mask,
    tokenizer_hash,
    ...(turn_tokens === undefined ? {} : { turn_tokens }),
    ...(turn_rewards === undefined ? {} : { turn_rewards }),
    ...(images === undefined ? {} : { images }),
  };
}

type ExportHead = Omit<RolloutExport, keyof WireTokens | 'turn_tokens' | 'turn_rewards' | 'branch_count' | 'branch_reward' | 'ends_last'> &
  Pick<RolloutExport, 'rollout_id'>;

/** The columns of an exported line that come from the results. They are held until the rollout's tokens are read; texts are not. */
function exportHead({ name, sampling_args: sampling, policy }: WireMetadata, result: WireResult): ExportHead {
  return {
    schema_version: 1,
    ...(name === undefined ? {} : { run_name: name }),
    rollout_id: result.rollout_id,
    group_id: result.group_id,
    example_id: result.example_id,
    ...roleAndTask(result),
    reward: result.reward!,
    metrics: recordedMetrics(result),
    stop_condition: result.stop_condition,
    is_truncated: result.is_truncated,
    policy: { model: result.model, version: result.policy_version },
    // Only a program has none, and its runs are refused above.
    sampling: { ...sampling!, max_tokens: sampling!.max_tokens ?? longestLimit(result) },
    logprobs_mode: policy.logprobs_mode,
    tokenizer_hash: policy.tokenizer_hash,
  };
}

/** The largest limit of a request; null if one had none. */
function longestLimit({ generations }: WireResult): number | null {
  const limits = generations.map(({ max_new_tokens: limit }) => limit);
  return limits.reduce((longest, limit) => (longest === null || limit === null ? null : Math.max(longest, limit)), limits[0] ?? null);
}

function exported(head: ExportHead, { token_ids, loss_mask, logprobs, prompt_length, segments, images }: WireTokens): RolloutExport {
  return { ...head, token_ids, loss_mask, logprobs, prompt_length, segments, ...(images === undefined ? {} : { images }) };
}
