/** Global set-up of the real-vLLM tests: gives them the URL of a server of test/models/nano-base, started on a free port unless one runs. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createWriteStream } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import type { TestProject } from 'vitest/node';

declare module 'vitest' {
  export interface ProvidedContext {
    /** Ends with `/v1`. */
    vllmUrl: string;
  }
}

/** Installing takes minutes on a slow line. */
const READY_WITHIN_MS = 25 * 60_000;

export async function setup(project: TestProject): Promise<(() => Promise<void>) | undefined> {
  const running = process.env['VLLM_BASE_URL'];
  if (running !== undefined && running !== '') {
    project.provide('vllmUrl', running);
    return undefined;
  }
  const root = join(import.meta.dirname, '../..');
  const logFile = join(tmpdir(), `vf-vllm-${process.pid}.log`);
  const server = spawn('scripts/vllm-cpu/serve.sh', ['test/models/nano-base'], { cwd: root, stdio: ['ignore', 'pipe', 'pipe'] });
  server.stderr.pipe(createWriteStream(logFile));
  const stop = async () => {
    if (server.exitCode !== null || server.signalCode !== null) return;
    server.kill('SIGTERM');
    await once(server, 'exit');
  };
  try {
    project.provide('vllmUrl', await firstLine(server));
  } catch (cause) {
    await stop();
    throw new Error(`Expected a vLLM server of test/models/nano-base, got none; its output is in ${logFile}`, { cause });
  }
  return stop;
}

async function firstLine(server: ReturnType<typeof spawn>): Promise<string> {
  const signal = AbortSignal.timeout(READY_WITHIN_MS);
  const [line] = (await Promise.race([
    once(createInterface({ input: server.stdout! }), 'line', { signal }),
    once(server, 'exit', { signal }).then(([code]) => {
      throw new Error(`The server ended with exit code ${code}`);
    }),
  ])) as [string];
  return line;
}
