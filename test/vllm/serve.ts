/** Starts scripts/vllm-cpu/serve.sh on a free port, waits until it is ready, and stops it. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createWriteStream } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';

export interface ServedModel extends AsyncDisposable {
  /** Ends with `/v1`. */
  readonly url: string;
}

const ROOT = join(import.meta.dirname, '../..');
/** Installing takes minutes on a slow line. */
const READY_WITHIN_MS = 25 * 60_000;

/** Serves test/models/nano-base; `env` adds to the environment, as the header of the script says, and `flags` are vLLM's. */
export function serveNano(env: Readonly<Record<string, string>> = {}, flags: readonly string[] = [], port = '0'): Promise<ServedModel> {
  return serveModel('test/models/nano-base', env, flags, port);
}

/** The server of a variable such as VLLM_BASE_URL, which goes on when disposed, or else one that is started. */
export async function serveUnlessGiven(variable: string, start: () => Promise<ServedModel>): Promise<ServedModel> {
  const url = process.env[variable];
  return url === undefined || url === '' ? start() : { url, async [Symbol.asyncDispose]() {} };
}

/** Serves a folder of the repository. */
export async function serveModel(
  model: string,
  env: Readonly<Record<string, string>> = {},
  flags: readonly string[] = [],
  port = '0',
): Promise<ServedModel> {
  const server = spawn(join(ROOT, 'scripts/vllm-cpu/serve.sh'), [model, port, ...flags], {
    cwd: ROOT,
    env: { ...process.env, ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const log = join(tmpdir(), `vf-vllm-${server.pid}.log`);
  server.stderr.pipe(createWriteStream(log));
  const stop = async () => {
    if (server.exitCode !== null || server.signalCode !== null) return;
    server.kill('SIGTERM');
    await once(server, 'exit');
  };
  try {
    return { url: await firstLine(server), [Symbol.asyncDispose]: stop };
  } catch (cause) {
    await stop();
    throw new Error(`Expected a vLLM server of ${model}, got none; its output is in ${log}`, { cause });
  }
}

async function firstLine(server: ChildProcess): Promise<string> {
  const signal = AbortSignal.timeout(READY_WITHIN_MS);
  const [line] = (await Promise.race([
    once(createInterface({ input: server.stdout! }), 'line', { signal }),
    once(server, 'exit', { signal }).then(([code]) => {
      throw new Error(`The server ended with exit code ${code}`);
    }),
  ])) as [string];
  return line;
}
