/** Commands worth typing after a run, made from the one that was typed. */
import type { Summary } from '../../schemas/summary.ts';
import { SMALLEST_MODEL } from '../bundled-model.ts';
import { ownCommand } from '../own-command.ts';
import type { OpenedPolicy } from './open-policy.ts';
import { displayPath } from './render-summary.ts';

/** The command line again, with `-R DIRECTORY`; for a file of runs with the bare `-R`. */
export function resumeCommand(words: readonly string[], directory: string): string {
  return ownCommand('vf-eval', [...words, '-R', ...(isFileOfRuns(words) ? [] : [displayPath(directory)])]);
}

export interface NextOptions {
  readonly envId: string;
  /** The words of the command line, without -R. */
  readonly words: readonly string[];
  readonly policy: OpenedPolicy;
}

export function nextCommands(summary: Summary, { envId, words, policy }: NextOptions): { why: string; command: string }[] {
  if (!summary.complete) return [{ why: 'continue this run', command: resumeCommand(words, summary.directory) }];
  const { finished, errored } = summary.rollouts;
  if (errored > 0) return [{ why: 'play the failed rollouts again', command: resumeCommand(words, summary.directory) }];
  if (finished === 0) return [];
  if (policy.kind === 'baseline') return withModel(envId, words);
  const training = policy.kind === 'embedded' && policy.model === SMALLEST_MODEL && envId === 'search-r1';
  const train = training
    ? [{ why: 'let it learn to search, in half a minute', command: ownCommand('vf-train', ['search-r1', '--preset', 'laptop']) }]
    : [];
  if (summary.policyKind === 'tokens') {
    return [
      ...train,
      { why: 'these rollouts as training data', command: ownCommand('vf-export', [displayPath(summary.directory), '-o', 'rollouts.jsonl']) },
    ];
  }
  return [];
}

/** The command of a baseline run again, on a model. */
function withModel(envId: string, words: readonly string[]): { why: string; command: string }[] {
  // A file of runs names its models itself.
  if (isFileOfRuns(words)) return [];
  const same = words.some((word) => /^(-p|--provider)/.test(word)) ? [envId] : words;
  const command = ownCommand('vf-eval', [...same, '-p', 'vllm', '-m', 'Qwen/Qwen2.5-3B-Instruct']);
  return [{ why: 'the same with a model (here: vLLM on this machine)', command }];
}

function isFileOfRuns(words: readonly string[]): boolean {
  return words.some((word, i) => word.endsWith('.toml') && !/^(-e|--endpoints-path)$/.test(words[i - 1] ?? ''));
}
