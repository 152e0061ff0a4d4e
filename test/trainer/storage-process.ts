/** `storage-run.ts` as a child process. */
import { type ChildProcess, spawn } from 'node:child_process';
import { fileURLToPath } from 'node:url';

const SCRIPT = fileURLToPath(import.meta.resolve('./storage-run.ts'));
export const STORAGE_RUN = ['--conditions=vf-search-source', '--no-warnings', SCRIPT];

export function startStorage(what: 'rollouts' | 'checkpoint', directory: string, number: number): ChildProcess {
  return spawn(process.execPath, [...STORAGE_RUN, what, directory, String(number)], { stdio: ['ignore', 'pipe', 'pipe'] });
}

/** Kills the child as soon as it has written `lines` lines, and returns everything it had written by its end. */
export function killAfter(child: ChildProcess, lines: number): Promise<string[]> {
  return new Promise((resolve) => {
    let said = '';
    child.stderr!.on('data', (chunk) => {
      said += String(chunk);
      if (said.split('\n').length > lines) child.kill('SIGKILL');
    });
    child.on('close', () => resolve(said.split('\n').slice(0, -1)));
  });
}
