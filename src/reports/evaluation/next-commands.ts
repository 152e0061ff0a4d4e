/** Suggested next commands after a run, derived from the command that started it. */
import { basename } from 'node:path';
import { UNPLAYED } from '../../rollouts/rollout.ts';
import type { Summary } from '../../schemas/summary.ts';
import { isEnvironmentPath } from '../../registry/find-environment.ts';
import { nearbyPath, type NextCommand, ownCommand, withoutOptions } from '../text/own-command.ts';

/** The same command with `-R DIRECTORY`, or with `-R` alone for a TOML file of runs. */
export function resumeCommand(words: readonly string[], directory: string): string {
  return ownCommand('vf-eval', [...words, '-R', ...(isFileOfRuns(words) ? [] : [nearbyPath(directory)])]);
}

/** Continues a run that ended early; a run that reached its cost limit continues with a higher one, or without a limit if its cost is unknown. */
export function continueCommand({ cost, directory }: Pick<Summary, 'cost' | 'directory'>, words: readonly string[]): string {
  const limit = cost?.limitReached === true && !isFileOfRuns(words) ? cost.limit : null;
  if (limit === null) return resumeCommand(words, directory);
  const others = withoutOptions(words, ['--max-cost']);
  const usd = cost?.usd ?? null;
  return resumeCommand(usd === null ? others : [...others, '--max-cost', String(higherLimit(limit, usd))], directory);
}

/** Twice the limit, or twice the cost if that is not enough, rounded up to two digits for people to read. */
function higherLimit(limit: number, spent: number): number {
  if (spent < 2 * limit) return 2 * limit;
  const unit = 10 ** (Math.floor(Math.log10(2 * spent)) - 1);
  return Number((Math.ceil((2 * spent) / unit) * unit).toPrecision(2));
}

export interface NextOptions {
  readonly envId: string;
  /** The arguments of the command, without -R. */
  readonly words: readonly string[];
  readonly policy: { readonly kind: string; readonly model: string };
  /** The model of the environment's own preset `laptop`; null if it brings none. */
  readonly laptopModel: string | null;
  /** The environment shows images, so the suggested model must see. @default false */
  readonly showsImages?: boolean;
}

export function nextCommands(summary: Summary, { envId, words, policy, laptopModel, showsImages = false }: NextOptions): NextCommand[] {
  if (!summary.complete) return [{ why: 'continue this run', command: continueCommand(summary, words) }];
  const { finished, errored } = summary.rollouts;
  if (errored > 0) {
    const mayPass = Object.keys(summary.errors).some((type) => OF_MOMENT.includes(type));
    const why = isEvery(summary, UNPLAYED)
      ? 'play the rollouts that had no room, once the window is larger'
      : `${mayPass ? '' : 'correct what failed, then '}play the failed rollouts again`;
    return [...scoreAgain(summary, envId, words), { why, command: resumeCommand(words, summary.directory) }];
  }
  if (finished === 0) return [];
  if (policy.kind === 'baseline') return withModel(words, showsImages ? 'Qwen/Qwen2.5-VL-7B-Instruct' : 'Qwen/Qwen2.5-3B-Instruct');
  const isTrainable = policy.kind === 'embedded' && laptopModel !== null && policy.model === basename(laptopModel);
  const train = isTrainable ? [{ why: 'train it on this machine', command: ownCommand('vf-train', [envId, '--preset', 'laptop']) }] : [];
  if (summary.policyKind === 'tokens') {
    return [
      ...train,
      { why: 'export these rollouts as training data', command: ownCommand('vf-export', [nearbyPath(summary.directory), '-o', 'rollouts.jsonl']) },
    ];
  }
  return [];
}

/** Errors of servers and of deadlines, which another attempt may not meet. */
const OF_MOMENT: readonly string[] = ['PolicyError', 'NumericPolicyError', 'RetrievalError', 'ToolError', 'ModelError', 'TimeoutError'];

/** Scores the failed rollouts again if a reward failed in each of them: they need not be played again. */
function scoreAgain({ errors, directory }: Pick<Summary, 'errors' | 'directory'>, envId: string, words: readonly string[]): NextCommand[] {
  if (isFileOfRuns(words) || !isEvery({ errors }, 'RewardError')) return [];
  const folder = words.flatMap((word, i) => (/^--env-dir-path(=|$)/.test(word) ? [word, ...(word.includes('=') ? [] : [words[i + 1]!])] : []));
  const command = ownCommand('vf-score', [
    nearbyPath(directory),
    '--failed',
    '--in-place',
    ...(isEnvironmentPath(envId) ? ['--env', envId] : []),
    ...folder,
  ]);
  return [{ why: 'correct the reward, then score the failed rollouts again without playing them', command }];
}

/** True if all failed rollouts have an error of this type. */
function isEvery({ errors }: Pick<Summary, 'errors'>, type: string): boolean {
  return Object.keys(errors).every((each) => each === type);
}

/** The command of a baseline run, changed to play a model. */
function withModel(words: readonly string[], model: string): NextCommand[] {
  // A TOML file names its models itself.
  if (isFileOfRuns(words)) return [];
  const command = ownCommand('vf-eval', [...withoutOptions(words, ['-p', '--provider']), '-p', 'vllm', '-m', model]);
  return [{ why: 'evaluate a model (here: vLLM on this machine)', command }];
}

function isFileOfRuns(words: readonly string[]): boolean {
  return words.some((word, i) => word.endsWith('.toml') && !/^(-e|--endpoints-path)$/.test(words[i - 1] ?? ''));
}
