/** Runs another command of this package as a child process, from the same build as this one. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { extname, join } from 'node:path';
import { text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import { onAbort } from '../../../core/abort.ts';
import { CancelledError } from '../../../core/errors.ts';
import type { EndedCommand, RunOptions } from '../../../rounds/driver/round-commands.ts';
import { STOP_MESSAGE, UNDER_ROUNDS } from '../../command-line.ts';

const HERE = fileURLToPath(import.meta.url);

/** Its stderr is ours. A stop is passed on and waited for: then it throws CancelledError, unless the command was done by then. */
export async function runOwn(name: string, words: readonly string[], { signal, onStart }: RunOptions): Promise<EndedCommand> {
  signal.throwIfAborted();
  const script = join(HERE, '../../..', `${name}${extname(HERE)}`);
  const child: ChildProcess = spawn(process.execPath, [...process.execArgv, script, ...words], {
    stdio: ['ignore', 'pipe', 'inherit', 'ipc'],
    env: { ...process.env, [UNDER_ROUNDS]: '1' },
  });
  // It may have ended meanwhile.
  const stop = () => child.send(STOP_MESSAGE, () => {});
  using _ = onAbort(signal, stop);
  if (child.pid !== undefined) onStart?.(child.pid);
  const [stdout] = await Promise.all([text(child.stdout!), once(child, 'close')]);
  if (signal.aborted && child.exitCode !== 0) throw new CancelledError(`Stopped during ${name}`, { cause: signal.reason });
  return { status: child.exitCode ?? child.signalCode!, stdout };
}
