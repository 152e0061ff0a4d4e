import { accessSync, constants } from 'node:fs';
import { ConfigError } from '../../core/errors.ts';
import { statIfThere } from '../../files/regular-file.ts';
import { openExecutor } from '../../execution/open-executor.ts';
import { executionApp } from '../../server/execution-app.ts';
import { isLoopback, listen } from '../../server/listen.ts';
import type { CommandContext } from '../command-line.ts';
import type { ExecuteOptions } from './execute-command.ts';
import { failureNotes, serveUntilStopped } from './serving.ts';

/** Time for pending jobs to finish after Ctrl-C; a second Ctrl-C ends them. */
const GRACE_MS = 30_000;
const MEBIBYTE = 2 ** 20;

/** Serves until the process is asked to stop. The first line on stdout is the URL, printed once the server answers. */
export async function serveExecution(options: ExecuteOptions, context: CommandContext): Promise<void> {
  const { executor: name, workers, python, host, port, maxPending, maxSeconds, maxMemoryMb } = options;
  if (name === 'none' && !isLoopback(host))
    throw new ConfigError(
      `With the executor none, anyone who can reach ${host} could run commands here. Choose wasi or bubblewrap, or leave --host out`,
    );
  if (python !== undefined && name !== 'wasi' && !isProgram(python))
    throw new ConfigError(`${python} (--python) is not a program that can be run. Name the file of a Python, or leave --python out`);
  const executor = await openExecutor(name, { workers, ...(python === undefined ? {} : { python }) });
  try {
    const app = executionApp({ executor, host, maxPending, maxSeconds, maxMemoryBytes: maxMemoryMb * MEBIBYTE, onFailure: failureNotes(context) });
    const server = await listen(app, { host, port });
    if (!isLoopback(host))
      context.note(`vf-serve: listening on ${host}: anyone who can reach this machine can run programs in the sandbox, without a password`);
    if (name === 'none') context.note('vf-serve: the executor none isolates nothing: a program can read your files and reach your network');
    const { isolation, python: version } = executor.capabilities;
    const about = `Python ${version} in ${name} (isolation: ${isolation}), ${workers} at a time`;
    await serveUntilStopped({ address: server.url, about, ending: 'finishing pending jobs' }, context);
    await server.close({ graceMs: GRACE_MS });
  } finally {
    await executor.close();
  }
}

function isProgram(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
  } catch {
    return false;
  }
  return statIfThere(path)?.isFile() === true;
}
