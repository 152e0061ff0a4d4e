/** A command of this package as a child process under attack: what it says, how it ends, and the most memory that it held meanwhile. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync, writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import { join } from 'node:path';
import { buffer } from 'node:stream/consumers';
import { until } from '../transport/loopback.ts';
import { BARE_ENVIRONMENT } from '../bare-environment.ts';

const root = join(import.meta.dirname, '../..');

/** A test that runs out of time disposes of nothing: a process that an attack made hang must not outlive the suite. */
const running = new Set<ChildProcess>();
process.on('exit', () => {
  for (const child of running) child.kill('SIGKILL');
});

export interface AttackedProcess extends AsyncDisposable {
  readonly child: ChildProcess;
  readonly stdout: string;
  readonly stderr: string;
  /** Resolves to the exit code and the signal that ended it; one of them is null. */
  readonly ended: Promise<readonly [number | null, NodeJS.Signals | null]>;
}

export interface AttackedServer extends AttackedProcess {
  /** `http://127.0.0.1:port` */
  readonly url: string;
  readonly port: number;
}

export interface StartOptions {
  readonly cwd?: string;
  readonly env?: Readonly<Record<string, string>>;
}

/** Starts a command from its source, `vf-serve` for example. Disposing kills it. */
export function startCommand(name: string, args: readonly string[], options: StartOptions = {}): AttackedProcess {
  return startNode([join(root, `src/cli/${name}.ts`), ...args], options);
}

/** Starts Node with these arguments. */
export function startNode(args: readonly string[], { cwd = root, env = {} }: StartOptions = {}): AttackedProcess {
  const child = spawn(process.execPath, args, { cwd, env: { ...BARE_ENVIRONMENT, ...env }, stdio: ['ignore', 'pipe', 'pipe'] });
  const ended = once(child, 'close') as Promise<[number | null, NodeJS.Signals | null]>;
  running.add(child);
  void ended.then(() => running.delete(child));
  const started = {
    child,
    stdout: '',
    stderr: '',
    ended,
    async [Symbol.asyncDispose]() {
      child.kill('SIGKILL');
      await ended;
    },
  };
  child.stdout.on('data', (chunk) => (started.stdout += String(chunk)));
  child.stderr.on('data', (chunk) => (started.stderr += String(chunk)));
  return started;
}

/** Starts `vf-serve`, or another command that serves, on a free port and waits until it answers. */
export async function startServer(
  args: readonly string[],
  { command = 'vf-serve', ...options }: StartOptions & { readonly command?: string } = {},
): Promise<AttackedServer> {
  const started = startCommand(command, [...args, '--port', '0'], options);
  await Promise.race([until(() => started.stdout.includes('\n')), started.ended]);
  if (!started.stdout.includes('\n')) throw new Error(`Expected ${command} to start, got: ${started.stderr}`);
  const { origin, port } = new URL(started.stdout.trim());
  return Object.assign(started, { url: origin, port: Number(port) });
}

/**
 * Bytes by which the process's memory grew at its peak while `attack` ran. 0 where nobody measures it; then a claim about it holds by default. Measured by
 * `npm run test:long` (VF_MEASURE_MEMORY) on Linux: on a busy machine a process gives its memory back later, and `npm test` must not depend on that.
 */
export async function peakGrowth({ child }: AttackedProcess, attack: () => Promise<void>): Promise<number> {
  if (process.platform !== 'linux' || process.env['VF_MEASURE_MEMORY'] === undefined) {
    await attack();
    return 0;
  }
  // Sets the recorded peak back to what is held now.
  writeFileSync(`/proc/${child.pid}/clear_refs`, '5');
  const before = statusBytes(child, 'VmRSS');
  await attack();
  return statusBytes(child, 'VmHWM') - before;
}

function statusBytes({ pid }: ChildProcess, field: 'VmRSS' | 'VmHWM'): number {
  const [, kibibytes] = new RegExp(`^${field}:\\s+(\\d+) kB$`, 'm').exec(readFileSync(`/proc/${pid}/status`, 'utf8')) ?? [];
  return Number(kibibytes) * 1024;
}

/**
 * Sends bytes as they are over a connection of their own; returns all that comes back until the connection ends, '' where the server just hangs up.
 * `waits`: this side sends no more but does not end the connection either, so that only the server can.
 */
export async function sendRaw(port: number, bytes: string | Buffer, { waits = false } = {}): Promise<string> {
  const socket = connect(port, '127.0.0.1');
  const answer = buffer(socket).catch(() => Buffer.alloc(0));
  socket.on('error', () => {});
  if (waits) socket.write(bytes);
  else socket.end(bytes);
  return (await answer).toString('latin1');
}

/** Opens connections that each send these bytes and then wait. Disposing drops them. */
export async function openConnections(port: number, count: number, bytes: string): Promise<AsyncDisposable> {
  const sockets = await Promise.all(
    Array.from({ length: count }, async () => {
      const socket = connect(port, '127.0.0.1');
      socket.on('error', () => {});
      await once(socket, 'connect');
      await new Promise((done) => socket.write(bytes, done));
      return socket;
    }),
  );
  return {
    async [Symbol.asyncDispose]() {
      for (const socket of sockets) socket.destroy();
    },
  };
}
