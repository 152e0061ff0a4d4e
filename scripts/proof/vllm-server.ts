/** Shared by the proofs with a real vLLM: its Python, and a server on the CPU as a child process. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { join } from 'node:path';
import { ROOT } from './train-once.ts';

export interface VllmServer extends AsyncDisposable {
  /** Up to and with /v1. */
  readonly url: string;
}

export interface VllmOptions {
  /** A model directory. */
  readonly model: string;
  /** Further flags of vLLM, after those of scripts/vllm-cpu/serve.sh. */
  readonly flags?: readonly string[];
  /** Further environment variables; VF_VLLM_LORA=1 accepts adapters. */
  readonly env?: Readonly<Record<string, string>>;
  /** A server that runs already, which is used in its place and is left running. */
  readonly baseUrl?: string;
}

/** Installs vLLM if it is missing, and resolves once the server is healthy. */
export async function serveVllm({ model, flags = [], env = {}, baseUrl }: VllmOptions): Promise<VllmServer> {
  if (baseUrl !== undefined) return { url: baseUrl, async [Symbol.asyncDispose]() {} };
  process.stdout.write('starting vLLM on the CPU\n');
  const child = spawn(join(ROOT, 'scripts/vllm-cpu/serve.sh'), [model, '0', ...flags], {
    cwd: ROOT,
    env: { ...process.env, ...env },
    stdio: ['ignore', 'pipe', 'ignore'],
  });
  const [url] = (await Promise.race([
    once(createInterface({ input: child.stdout }), 'line'),
    once(child, 'exit').then(([code]) =>
      Promise.reject(new Error(`vLLM did not start, it ended with exit code ${code}. Run scripts/vllm-cpu/serve.sh ${model} to see why.`)),
    ),
  ])) as [string];
  return {
    url,
    async [Symbol.asyncDispose]() {
      child.kill('SIGTERM');
      if (child.exitCode === null && child.signalCode === null) await once(child, 'exit');
    },
  };
}

/** Runs a command to its end and returns the last line of its stdout. Throws if it fails. */
export async function lastLine(command: string, args: readonly string[] = []): Promise<string> {
  const child = spawn(join(ROOT, command), args, { stdio: ['ignore', 'pipe', 'inherit'] });
  let text = '';
  child.stdout.on('data', (chunk: Buffer) => (text += chunk.toString('utf8')));
  const [code] = (await once(child, 'close')) as [number | null];
  if (code !== 0) throw new Error(`${command} failed with exit code ${code}.`);
  return text.trim().split('\n').at(-1)!;
}
