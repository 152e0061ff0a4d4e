/** Runs a command of the package in the clone, as a user would. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { text } from 'node:stream/consumers';
import { ROOT } from './train-once.ts';

/** Its stdout; stderr is shown. Throws if it fails. */
export async function runCommand(name: string, words: readonly string[]): Promise<string> {
  const child = spawn(process.execPath, ['--conditions=vf-search-source', `bin/${name}.js`, ...words], {
    cwd: ROOT,
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const [stdout] = await Promise.all([text(child.stdout), once(child, 'close')]);
  if (child.exitCode !== 0) throw new Error(`${name} ${words.join(' ')} failed with ${child.signalCode ?? `exit code ${child.exitCode}`}.`);
  return stdout;
}
