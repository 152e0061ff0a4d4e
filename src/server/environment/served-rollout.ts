/** A played and scored rollout as a line of an environment server. */
import type { PolicyCapabilities } from '../../clients/policy-client.ts';
import type { Row } from '../../core/dataset.ts';
import { branchesOrPrompt, branchFactColumns, ownColumns } from '../../rollouts/branch-columns.ts';
import { completionMessages, wireMessage } from '../../rollouts/message-columns.ts';
import { bufferColumns, roleAndTask } from '../../rollouts/rollout-columns.ts';
import { type Branch, type Rollout, rolloutError } from '../../rollouts/rollout.ts';
import { turnsOfGenerations } from '../../rollouts/turns-of-generations.ts';
import { sampledPlaces } from '../../schemas/turn-columns.ts';
import type { ServedRollout } from '../../schemas/environment-server/served-rollout.ts';

export interface ServedRolloutOptions {
  /** The caller's name of the group. @default the rollout's own, which is its row's */
  readonly groupId?: string;
  readonly capabilities: Pick<PolicyCapabilities, 'kind' | 'logProbsMode' | 'tokenizerHash'>;
  /** The sampling parameters of the sampler; empty if only the caller knows them. */
  readonly sampling: ServedRollout['sampling'];
  /** Removes secrets from an error's message. */
  readonly redact: (text: string) => string;
  /** True if the answer has the messages as well as the tokens. @default only without tokens */
  readonly withMessages?: boolean;
}

const NO_TOKENS = { token_ids: [], loss_mask: [], logprobs: [], prompt_length: 0, segments: [] };

export function servedRollout(rollout: Rollout, options: ServedRolloutOptions): ServedRollout {
  const { capabilities, redact, withMessages = capabilities.kind === 'chat' } = options;
  const { row, error, policy, turnFormat } = rollout;
  const [first, ...others] = branchesOrPrompt(rollout);
  const columns = (branch: Branch) => branchColumns(branch, { kind: capabilities.kind, turnFormat, withMessages });
  return {
    schema_version: 1,
    rollout_id: rollout.rolloutId,
    group_id: options.groupId ?? rollout.groupId,
    example_id: row.exampleId,
    ...roleAndTask(rollout),
    reward: rollout.reward,
    error:
      error === null
        ? null
        : {
            type: error.type,
            message: redact(error.message),
            retryable: error.retryable,
            phase: error.phase,
            ...(error.reason === undefined ? {} : { reason: error.reason }),
          },
    metrics: { ...rollout.metrics },
    stop_condition: rollout.stop,
    is_truncated: rollout.isTruncated,
    policy: { model: policy.model, version: policy.version },
    sampling: options.sampling,
    logprobs_mode: capabilities.logProbsMode,
    tokenizer_hash: capabilities.tokenizerHash,
    num_turns: rollout.turns,
    ...columns(first),
    ...(others.length === 0
      ? {}
      : {
          ...firstColumns(first),
          branches: others.map((branch) => ({ ...branchFactColumns(branch), ...ownColumns(branch), ...columns(branch) })),
        }),
  };
}

function firstColumns({ role, reward }: Pick<Branch, 'role' | 'reward'>): Pick<ServedRollout, 'role' | 'branch_reward'> {
  return { ...(role === undefined ? {} : { role }), ...(reward === undefined ? {} : { branch_reward: reward + 0 }) };
}

interface ColumnsOptions extends Pick<Rollout, 'turnFormat'> {
  readonly kind: 'tokens' | 'chat';
  readonly withMessages: boolean;
}

function branchColumns(branch: Branch, { kind, turnFormat, withMessages }: ColumnsOptions) {
  const { prompt, segments, generations, tokens } = branch;
  return {
    ...turnsOfGenerations(generations, tokens === null ? null : sampledPlaces(tokens.mask)),
    ...(withMessages ? { messages: [...prompt.map(wireMessage), ...completionMessages({ segments, turnFormat, branches: [branch] })] } : {}),
    ...(kind === 'chat' ? {} : tokens === null ? NO_TOKENS : bufferColumns(tokens)),
  };
}

export interface LostRolloutOptions extends Pick<ServedRolloutOptions, 'sampling' | 'redact'> {
  readonly row: Row;
  readonly index: number;
  readonly groupId?: string;
  readonly policy: { readonly model: string; readonly version: number };
  readonly kind: 'tokens' | 'chat';
  readonly reason: unknown;
  /** For answers with messages: true if the record has those of the prompt. @default true */
  readonly withPrompt?: boolean;
}

/** A rollout that was never recorded, because the policy could not be opened or the server gave up. */
export function lostRollout({ row, index, groupId, policy, kind, sampling, reason, redact, withPrompt = true }: LostRolloutOptions): ServedRollout {
  const { type, message, retryable, phase } = rolloutError(reason, 'lease');
  return {
    schema_version: 1,
    rollout_id: `${row.exampleId}/${index}`,
    group_id: groupId ?? String(row.exampleId),
    example_id: row.exampleId,
    ...roleAndTask(row),
    reward: null,
    error: { type, message: redact(message), retryable, phase },
    metrics: {},
    stop_condition: 'has_error',
    is_truncated: false,
    policy,
    sampling,
    logprobs_mode: kind === 'chat' ? 'none' : 'unknown',
    tokenizer_hash: null,
    num_turns: 0,
    ...(kind === 'chat' ? { messages: withPrompt ? row.prompt.map(wireMessage) : [] } : NO_TOKENS),
  };
}
