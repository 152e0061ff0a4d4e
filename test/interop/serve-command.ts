/** A `vf-serve` command, built, in a process of its own on a free loopback port. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { createInterface } from 'node:readline';

export interface ServedCommand extends AsyncDisposable {
  /** What the command printed first: of `policy` it ends with `/v1`, of `retrieve` with `/retrieve`, of `verifiers` it is `tcp://host:port`. */
  readonly url: string;
  /** What it has said on stderr so far. */
  readonly said: () => string;
}

const LAUNCHER = join(import.meta.dirname, '../../bin/vf-serve.js');
const READY_WITHIN_MS = 120_000;
/** Then it is killed. */
const STOP_WITHIN_MS = 10_000;

/** Starts `vf-serve <args> --port 0` and resolves once it has printed its URL. Throws with its stderr if it ends before. `on`: instead of --port 0. */
export async function serveCommand(
  args: readonly string[],
  env: Readonly<Record<string, string>> = {},
  on: readonly string[] = ['--port', '0'],
): Promise<ServedCommand> {
  const child = spawn(process.execPath, [LAUNCHER, ...args, ...on], {
    env: { ...process.env, NODE_OPTIONS: '', ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const ended = once(child, 'close');
  let stderr = '';
  child.stderr.setEncoding('utf8').on('data', (chunk: string) => (stderr += chunk));
  const stop = async () => {
    child.kill('SIGTERM');
    const killer = setTimeout(() => child.kill('SIGKILL'), STOP_WITHIN_MS);
    await ended;
    clearTimeout(killer);
  };
  try {
    const signal = AbortSignal.timeout(READY_WITHIN_MS);
    const first = once(createInterface({ input: child.stdout }), 'line', { signal });
    const tooEarly = ended.then(([code]) => {
      throw new Error(`It ended with exit code ${code}.`);
    });
    const [url] = (await Promise.race([first, tooEarly])) as [string];
    return { url, said: () => stderr, [Symbol.asyncDispose]: stop };
  } catch (cause) {
    await stop();
    throw new Error(`vf-serve ${args.join(' ')} printed no URL; it said: ${stderr}`, { cause });
  }
}
