/** Commands worth typing after a run, made from the one that was typed. */
import type { Summary } from '../../schemas/summary.ts';
import { shellCommand } from '../shell-text.ts';
import type { OpenedPolicy } from './open-policy.ts';
import { displayPath } from './render-summary.ts';

/** The command line again, with `-R DIRECTORY`; for a file of runs with the bare `-R`. */
export function resumeCommand(words: readonly string[], directory: string): string {
  const isFile = words.some((word) => word.endsWith('.toml'));
  return `npx vf-eval ${shellCommand([...words, '-R', ...(isFile ? [] : [displayPath(directory)])])}`;
}

export interface NextOptions {
  readonly envId: string;
  /** The words of the command line, without -R. */
  readonly words: readonly string[];
  readonly policy: OpenedPolicy;
  /** -n as it was given. */
  readonly numExamples: number | null;
}

export function nextCommands(summary: Summary, { envId, words, policy, numExamples }: NextOptions): { why: string; command: string }[] {
  if (!summary.complete) return [{ why: 'continue this run', command: resumeCommand(words, summary.directory) }];
  const { finished, errored } = summary.rollouts;
  if (errored > 0) return [{ why: 'play the failed rollouts again', command: resumeCommand(words, summary.directory) }];
  if (finished === 0) return [];
  const rows = ['-n', String(numExamples ?? 50)];
  if (policy.baseUrl === null) {
    const command = shellCommand([envId, ...rows, '-p', 'vllm', '-m', 'Qwen/Qwen2.5-3B-Instruct']);
    return [{ why: 'the same with a model (here: vLLM on this machine)', command: `npx vf-eval ${command}` }];
  }
  if (summary.policyKind === 'tokens') {
    return [
      { why: 'these rollouts as training data', command: `npx vf-export ${shellCommand([displayPath(summary.directory), '-o', 'rollouts.jsonl'])}` },
    ];
  }
  return [];
}
