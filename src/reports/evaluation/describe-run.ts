/** Describes the setup of a run, for the printed summary and for `--json`. */
import type { Summary } from '../../schemas/summary.ts';
import { type Sampling, samplingFields } from '../../core/sampling.ts';
import type { Environment } from '../../core/environment.ts';
import { hideSecrets } from '../../transport/redact.ts';
import { countText, plural } from '../text/number-text.ts';
import type { Paint } from '../text/paint.ts';
import { nextCommands } from './next-commands.ts';
import { renderSummary } from './render-summary.ts';

/** Fields that `--json` adds to the summary; in snake_case, as printed. */
export interface RunFacts {
  /** Null for a program that uses no model. */
  readonly policy: string | null;
  readonly base_url: string | null;
  readonly dataset: string;
  readonly num_examples: number;
  readonly seed: number;
  readonly sampling_args: Readonly<Record<string, unknown>>;
}

/** The parts of an evaluation that its reports describe. */
export interface DescribedRun {
  readonly request: { readonly environment: string; readonly shuffle?: boolean };
  readonly policy: { readonly kind: string; readonly model: string; readonly baseUrl: string | null; readonly description: string | null };
  readonly opened: { readonly environment: Environment };
  readonly roles: { readonly descriptions: ReadonlyMap<string, string> };
  readonly sampling: { readonly sampling: Sampling; readonly maxTokens: number | null };
  readonly counts: { readonly rows: number; readonly rolloutsPerRow: number; readonly seed: number; readonly shuffleSeed: number };
  readonly laptopModel: string | null;
}

export function describeRun({ policy, opened, counts, sampling }: DescribedRun): RunFacts {
  const isProgram = policy.kind === 'program';
  return {
    policy: policy.description,
    base_url: policy.baseUrl,
    dataset: opened.environment.eval.name,
    num_examples: counts.rows,
    seed: counts.seed,
    sampling_args: isProgram ? {} : hideSecrets(samplingFields(sampling.sampling, sampling.maxTokens)),
  };
}

/** The command's way of showing the summary, and its suggestions. */
export interface RunView {
  /** The arguments of the command, without -R. */
  readonly words: readonly string[];
  readonly columns: number;
  readonly paint: Paint;
  readonly abbreviated: boolean;
  readonly verbose: boolean;
}

export function summaryText(summary: Summary, run: DescribedRun, view: RunView): string {
  const { request, policy, opened, laptopModel } = run;
  const { rubric, images } = opened.environment;
  const { words } = view;
  return renderSummary(summary, {
    ...view,
    abbreviated: view.abbreviated || !summary.complete,
    rewardNames: rubric.rewardNames,
    displays: rubric.displays ?? new Map(),
    setup: setupLines(run, summary.name ?? null),
    next: nextCommands(summary, { envId: request.environment, words, policy, laptopModel, showsImages: images !== undefined }),
  });
}

function setupLines(run: DescribedRun, runName: string | null): [label: string, text: string][] {
  const { request, opened, counts, policy, roles } = run;
  const { length, name } = opened.environment.eval;
  const isProgram = policy.kind === 'program';
  const order = request.shuffle === true ? `shuffled with seed ${counts.shuffleSeed}` : 'in order';
  const given = Object.entries(describeRun(run).sampling_args).map(([key, value]) => `${key} ${JSON.stringify(value)}`);
  const sampling = given.length === 0 ? ["the server's own"] : given;
  return [
    ...(runName === null ? [] : [['name', runName] as [string, string]]),
    [isProgram ? 'models' : 'policy', policy.description ?? 'none'],
    ...[...roles.descriptions].map(([role, text]): [string, string] => ['role', `${role}: ${text}`]),
    ['data', `${name}: ${countText(counts.rows)} of ${plural(length, 'row')}, ${order} × ${plural(counts.rolloutsPerRow, 'rollout')}`],
    ...(isProgram ? [] : [['sampling', [...sampling, `seed ${counts.seed}`].join(', ')] as [string, string]]),
  ];
}
