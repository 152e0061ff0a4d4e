/** Runs commands of the package, and modules of `recipes`, in the clone as a user would. */
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { text } from 'node:stream/consumers';
import { ROOT } from './train-once.ts';

/** Returns its stdout; stderr is shown. Throws if it fails. */
export async function runCommand(name: string, words: readonly string[]): Promise<string> {
  const child = spawn(process.execPath, ['--conditions=vf-search-source', `bin/${name}.js`, ...words], {
    cwd: ROOT,
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const [stdout] = await Promise.all([text(child.stdout), once(child, 'close')]);
  if (child.exitCode !== 0) throw new Error(`${name} ${words.join(' ')} failed with ${child.signalCode ?? `exit code ${child.exitCode}`}.`);
  return stdout;
}

/** Runs a Python module, such as `recipes.base.world`, with the system's python3. Throws if it fails. */
export function runRecipe(module: string, words: readonly string[]): void {
  const args = ['-m', module, ...words];
  const { status, error } = spawnSync('python3', args, { cwd: ROOT, stdio: ['ignore', 'ignore', 'inherit'] });
  if (status !== 0) throw new Error(`python3 ${args.join(' ')} failed.`, { cause: error });
}
