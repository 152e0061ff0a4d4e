/** Describes the setup of a run, for the printed summary and for `--json`. */
import type { Summary } from '../../schemas/summary.ts';
import { hideSecrets } from '../../transport/redact.ts';
import { countText, plural } from '../text/number-text.ts';
import { paintFor } from '../text/paint.ts';
import { nextCommands } from './next-commands.ts';
import { renderSummary } from './render-summary.ts';
import type { PreparedRun } from '../../cli/eval/run-evaluation.ts';

/** Fields that `--json` adds to the summary; in snake_case, as printed. */
export interface RunFacts {
  /** Null for a program that asks no model. */
  readonly policy: string | null;
  readonly base_url: string | null;
  readonly dataset: string;
  readonly num_examples: number;
  readonly seed: number;
  readonly sampling_args: Readonly<Record<string, unknown>>;
}

export function describeRun({ policy, opened, counts, sampling }: PreparedRun): RunFacts {
  const { temperature, topP, extra = {} } = sampling.sampling;
  const isProgram = policy.kind === 'program';
  const limit = sampling.maxTokens === null || 'max_completion_tokens' in extra ? {} : { max_tokens: sampling.maxTokens };
  return {
    policy: policy.description,
    base_url: policy.baseUrl,
    dataset: opened.environment.eval.name,
    num_examples: counts.rows,
    seed: counts.seed,
    sampling_args: isProgram ? {} : hideSecrets({ temperature, top_p: topP, ...limit, ...extra }),
  };
}

export function summaryText(summary: Summary, prepared: PreparedRun, words: readonly string[]): string {
  const { planned, policy, opened, laptopModel } = prepared;
  const { settings, envId } = planned;
  return renderSummary(summary, {
    columns: (process.stdout.isTTY && process.stdout.columns) || 80,
    paint: paintFor(process.stdout, { plain: settings.plain ?? false }),
    abbreviated: (settings['abbreviated-summary'] ?? false) || !summary.complete,
    verbose: settings.verbose ?? false,
    rewardNames: opened.environment.rubric.rewardNames,
    displays: opened.environment.rubric.displays ?? new Map(),
    setup: setupLines(prepared),
    next: nextCommands(summary, { envId, words, policy, laptopModel, showsImages: opened.environment.images !== undefined }),
  });
}

function setupLines(prepared: PreparedRun): [label: string, text: string][] {
  const { planned, opened, counts, policy, roles } = prepared;
  const { length, name } = opened.environment.eval;
  const isProgram = policy.kind === 'program';
  const order = planned.settings.shuffle ? `shuffled with seed ${counts.shuffleSeed}` : 'in order';
  const sampling = Object.entries(describeRun(prepared).sampling_args).map(([key, value]) => `${key} ${JSON.stringify(value)}`);
  return [
    ...(planned.name === null ? [] : [['run', planned.name] as [string, string]]),
    [isProgram ? 'models' : 'policy', policy.description ?? 'none'],
    ...[...roles.descriptions].map(([role, text]): [string, string] => ['role', `${role}: ${text}`]),
    ['data', `${name}: ${countText(counts.rows)} of ${plural(length, 'row')}, ${order} × ${plural(counts.rolloutsPerExample, 'rollout')}`],
    ...(isProgram ? [] : [['sampling', `${sampling.join(', ')}, seed ${counts.seed}`] as [string, string]]),
  ];
}
