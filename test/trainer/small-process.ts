/** `train-small.ts` as a child process, to be killed. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import type { TrainingOutcome } from '../../src/trainer/training-session.ts';

export interface SmallProcessOptions {
  readonly config: Record<string, unknown>;
  /** Delay of each generation and each call of the backend, so that there are moments to be killed in. @default 0 */
  readonly slowMs?: number;
  /** @default unigram */
  readonly backend?: 'unigram' | 'torch';
  /** The credit is that of running-mean.ts. @default the configured one */
  readonly hasOwnCredit?: boolean;
  /** Its rollouts are the made-up ones of branched-source.ts. @default they are sampled */
  readonly isBranched?: boolean;
}

const SCRIPT = fileURLToPath(import.meta.resolve('./train-small.ts'));

export function smallCommand(path: string, options: SmallProcessOptions): [string, ...string[]] {
  return [process.execPath, '--conditions=vf-search-source', '--no-warnings', SCRIPT, path, JSON.stringify(options)];
}

export function startSmall(path: string, options: SmallProcessOptions): ChildProcess {
  const [node, ...rest] = smallCommand(path, options);
  const child = spawn(node, rest, { stdio: ['ignore', 'pipe', 'pipe'] });
  child.stdout.resume();
  child.stderr.resume();
  return child;
}

/** Resolves when the child has reported this many phases and rollouts, or has ended. */
export function untilPhases(child: ChildProcess, count: number): Promise<void> {
  return new Promise((resolve) => {
    let lines = 0;
    child.stderr!.on('data', (chunk) => {
      lines += String(chunk).split('\n').length - 1;
      if (lines >= count) resolve();
    });
    child.once('close', () => resolve());
  });
}

/** Runs to the end; throws with what the child wrote if it does not get there. */
export async function finishSmall(path: string, options: SmallProcessOptions): Promise<TrainingOutcome> {
  const child = startSmall(path, options);
  const [said, errors] = await Promise.all([text(child.stdout!), text(child.stderr!), once(child, 'close')]);
  try {
    return JSON.parse(said) as TrainingOutcome;
  } catch (cause) {
    throw new Error(`Expected the outcome of a run, got ${said}${errors.slice(-2000)}`, { cause });
  }
}
