/** Compares the first prompts of rows with the window of the policy. */
import type { Row } from '../core/dataset.ts';
import type { Environment } from '../core/environment.ts';
import { VfError } from '../core/errors.ts';
import { countText, plural } from '../reports/text/number-text.ts';
import { promptLengths, type PromptLengths, type PromptLengthsOptions } from './prompt-lengths.ts';
import { unplayedText, widerWindow } from '../rollouts/unplayed-text.ts';
import { type Finding, missing, ok, skipped, warning } from './finding.ts';

export interface PromptCheck extends Pick<PromptLengthsOptions, 'render' | 'seed' | 'signal'> {
  readonly environment: Pick<Environment, 'start' | 'turnFormat' | 'limits' | 'limitArguments'>;
  readonly purpose: 'training' | 'evaluation';
  readonly rows: Iterable<Row>;
  /** Of the policy, in tokens; null if unknown. */
  readonly windowTokens: number | null;
  /** Most new tokens of a generation; null leaves it to the environment. */
  readonly maxTokens: number | null;
  /** No further prompt is measured after this time. @default 5000 */
  readonly limitMs?: number;
  /** The embedded engine plays. */
  readonly isEmbedded: boolean;
}

const LIMIT_MS = 5_000;

export async function checkPrompts(check: PromptCheck): Promise<Finding> {
  const { purpose, rows, windowTokens, limitMs = LIMIT_MS, signal } = check;
  try {
    const lengths = await promptLengths(rows, { ...check, windowTokens: windowTokens ?? Infinity, limitMs });
    return lengths.beyond === 0 ? fitting(lengths, check) : beyond(lengths, check);
  } catch (error) {
    if (!(error instanceof VfError) || signal.aborted) throw error;
    return skipped('prompts', `those of the ${purpose} rows were not measured: ${error.message}`);
  }
}

function policyOf({ windowTokens, isEmbedded }: PromptCheck) {
  return { kind: 'tokens', maxModelLen: windowTokens, isEmbedded } as const;
}

function fitting(lengths: PromptLengths, check: PromptCheck): Finding {
  const { purpose, windowTokens, maxTokens, environment } = check;
  const { longest } = lengths;
  const window = windowTokens === null ? '' : ` of a window of ${countText(windowTokens)}`;
  const text = `the longest of ${rowsText(purpose, lengths)} has ${plural(longest, 'token')}${window}`;
  const wanted = maxTokens ?? environment.limits.responseTokens;
  const room = (windowTokens ?? Infinity) - longest;
  if (!Number.isFinite(wanted) || room >= wanted) return ok('prompts', text);
  const wider = widerWindow(policyOf(check));
  const remedy = `${wider[0]!.toLowerCase()}${wider.slice(1)}, or lower max_tokens`;
  return warning('prompts', `${text}, which leaves a generation ${plural(room, 'token')} of the ${countText(wanted)} that it may have`, remedy);
}

function beyond(lengths: PromptLengths, check: PromptCheck): Finding {
  const { purpose, environment, windowTokens } = check;
  const { rows, longest, beyond: count } = lengths;
  const limits = { ...environment.limits, windowTokens: windowTokens ?? Infinity };
  const { limitArguments = {} } = environment;
  const [why = '', ...remedy] = unplayedText({
    refusal: null,
    transcript: { tokens: { length: longest }, limits },
    limitArguments,
    policy: policyOf(check),
  }).split('. ');
  if (count === rows)
    return missing('prompts', `no ${purpose} row leaves the policy room for a token, so nothing can be played. ${why}`, remedy.join('. '));
  const text = `${countText(count)} of ${rowsText(purpose, lengths)} leave the policy no room for a token and are not played. ${why}`;
  return warning('prompts', text, remedy.join('. '));
}

function rowsText(purpose: string, { looked, rows }: PromptLengths): string {
  const all = `${countText(rows)} ${purpose} rows`;
  return looked === rows ? all : `${all} (of which the ${countText(looked)} with the most text were measured)`;
}
