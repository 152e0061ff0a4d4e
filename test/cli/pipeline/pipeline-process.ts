/** `vf-pipeline` in the process of the test, and commands as child processes, in a folder. */
import { type ChildProcessWithoutNullStreams, spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { until } from '../../transport/loopback.ts';
import { BARE_ENVIRONMENT } from '../../bare-environment.ts';
import { runInProcess } from '../in-process.ts';

export const ROOT = join(import.meta.dirname, '../../..');

const command = (name: string, args: readonly string[]) => ['--conditions=vf-search-source', join(ROOT, 'src/cli', `${name}.ts`), ...args];

export interface Finished {
  readonly status: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** Runs to the end, in the process of the test. */
export async function pipeline(args: readonly string[], cwd: string, env: Readonly<Record<string, string>> = {}): Promise<Finished> {
  const { code: status, ...printed } = await runInProcess('vf-pipeline', args, { cwd, env });
  return { status, ...printed };
}

export interface Started {
  readonly child: ChildProcessWithoutNullStreams;
  stdout: string;
  stderr: string;
  readonly ended: Promise<unknown>;
}

export function start(name: string, args: readonly string[], cwd: string): Started {
  const child = spawn(process.execPath, command(name, args), { cwd, env: BARE_ENVIRONMENT });
  const started: Started = { child, stdout: '', stderr: '', ended: once(child, 'close') };
  child.stdout.on('data', (chunk) => (started.stdout += String(chunk)));
  child.stderr.on('data', (chunk) => (started.stderr += String(chunk)));
  return started;
}

/** Runs to the end while this process does other work. */
export async function pipelineInBackground(args: readonly string[], cwd: string): Promise<Finished> {
  const started = start('vf-pipeline', args, cwd);
  await started.ended;
  return { status: started.child.exitCode, stdout: started.stdout, stderr: started.stderr };
}

/** Starts a server; the first line of its output is its URL. */
export async function serving(args: readonly string[], cwd: string): Promise<{ readonly url: string } & AsyncDisposable> {
  const server = start('vf-serve', args, cwd);
  await Promise.race([until(() => server.stdout.includes('\n')), server.ended]);
  const [url] = server.stdout.split('\n');
  if (!url) throw new Error(server.stderr);
  return {
    url,
    [Symbol.asyncDispose]: async () => {
      server.child.kill('SIGKILL');
      await server.ended;
    },
  };
}
