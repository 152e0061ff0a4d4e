/** Runs of the small world in child processes, to be killed or to meet each other. */
import { type ChildProcess, spawn } from 'node:child_process';
import { text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import type { Summary } from '../../src/schemas/summary.ts';

const SCRIPT = fileURLToPath(import.meta.resolve('./sums-run.ts'));
export const NODE = ['--conditions=vf-search-source', '--no-warnings', SCRIPT];
export const OPTIONS = { rows: 30, rolloutsPerExample: 4, maxConcurrent: 8, seed: 3 };

export function start(path: string, options: object): ChildProcess {
  return spawn(process.execPath, [...NODE, path, JSON.stringify({ ...OPTIONS, ...options })], { stdio: ['ignore', 'pipe', 'pipe'] });
}

export async function finish(path: string, options: object): Promise<{ summary: Summary; message: string; name: string }> {
  const child = start(path, options);
  const [out] = await Promise.all([text(child.stdout!), text(child.stderr!)]);
  return JSON.parse(out) as { summary: Summary; message: string; name: string };
}

/** Resolves when the child has reported `rollouts` recorded rollouts, or has ended. */
export function recorded(child: ChildProcess, rollouts: number): Promise<void> {
  return new Promise((resolve) => {
    let count = 0;
    child.stderr!.on('data', (chunk) => {
      count += String(chunk).split('rollout').length - 1;
      if (count >= rollouts) resolve();
    });
    child.on('close', () => resolve());
  });
}
