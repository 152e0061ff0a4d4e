/** A run directory → rollouts for a trainer. */
import { ConfigError } from '../core/errors.ts';
import { ResultSchema, TokensSchema, type WireMetadata, type WireResult, type WireTokens } from '../schemas/results.ts';
import { exportProblem, type RolloutExport } from '../schemas/rollout-export.ts';
import { runFiles } from './run-files.ts';
import { readMetadata, readRecords } from './run-records.ts';

export interface ExportCounts {
  readonly exported: number;
  /** Left out: the rollout failed and has no reward. */
  readonly errored: number;
  /** Left out: its context was cut as upstream does, so its tokens are not what the policy saw. */
  readonly cut: number;
  /** Left out: its tokens are not on file. */
  readonly withoutTokens: number;
}

/**
 * Gives `write` one line (with its line feed) per finished rollout, in the order they ended. Throws ConfigError when the directory holds
 * no run, when its policy gave no tokens, or when its files disagree.
 */
export async function exportRun(directory: string, write: (line: string) => Promise<void>): Promise<ExportCounts> {
  const metadata = await readMetadata(directory);
  if (metadata.policy.kind !== 'tokens') {
    throw new ConfigError(
      `${directory} was played in chat mode (${metadata.policy.name}), so it has no token ids or log-probs to export. Evaluate with a model that plays ` +
        'this environment by token ids (-p embedded, -p vllm): vf-eval --dry-run says in its policy line whether one does, and why not.',
    );
  }
  const files = runFiles(directory);
  const waiting = new Map<string, WireResult>();
  const counts = { exported: 0, errored: 0, cut: 0 };
  await readRecords(files.results, ResultSchema, (result) => {
    if (result.error !== null || result.reward === null) counts.errored += 1;
    else if (result.is_cut) counts.cut += 1;
    else waiting.set(result.rollout_id, withoutTexts(result));
  });
  await readRecords(files.tokens, TokensSchema, async (tokens) => {
    const result = waiting.get(tokens.rollout_id);
    if (result === undefined) return;
    waiting.delete(tokens.rollout_id);
    const rollout = exported(metadata, result, tokens);
    const problem = exportProblem(rollout);
    if (problem !== null) throw new ConfigError(`The tokens of rollout ${tokens.rollout_id} in ${files.tokens} do not agree: ${problem}`);
    await write(`${JSON.stringify(rollout)}\n`);
    counts.exported += 1;
  });
  return { ...counts, withoutTokens: waiting.size };
}

function exported(metadata: WireMetadata, result: WireResult, tokens: WireTokens): RolloutExport {
  return {
    schema_version: 1,
    rollout_id: result.rollout_id,
    group_id: result.group_id,
    example_id: result.example_id,
    reward: result.reward!,
    metrics: Object.fromEntries(Object.entries(result.metrics).filter((entry): entry is [string, number] => entry[1] !== null)),
    stop_condition: result.stop_condition,
    is_truncated: result.is_truncated,
    policy: { model: result.model, version: result.policy_version },
    sampling: metadata.sampling_args,
    logprobs_mode: metadata.policy.logprobs_mode,
    tokenizer_hash: metadata.policy.tokenizer_hash,
    token_ids: tokens.token_ids,
    loss_mask: tokens.loss_mask,
    logprobs: tokens.logprobs,
    prompt_length: tokens.prompt_length,
    segments: tokens.segments,
  };
}

/** All results wait for their tokens; their texts need not. */
function withoutTexts(result: WireResult): WireResult {
  return { ...result, prompt: [], completion: [], segments: [], generations: [], info: {} };
}
