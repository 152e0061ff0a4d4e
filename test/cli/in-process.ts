/**
 * A command of this package in the process of the test, for what it prints: its modules are loaded once for all tests of a file, where a process of its own loads them
 * again. It has its arguments, folder, variables and streams to itself. Signals, kills, threads that must end and what Node itself does need a process.
 */
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { setFlagsFromString } from 'node:v8';
import { BARE_ENVIRONMENT } from '../bare-environment.ts';

export interface Printed {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

export interface InProcessOptions {
  readonly cwd: string;
  /** All variables but those of `BARE_ENVIRONMENT`. */
  readonly env: Readonly<Record<string, string>>;
}

const CLI = join(import.meta.dirname, '../../src/cli');
/** The flags of V8 that a command sets (src/sessions/engine/spare-memory.ts), as Node has them. */
const V8_FLAGS = ['--semi-space-growth-factor=2', '--heap-growing-percent=0'];
const EVENTS = ['SIGINT', 'SIGTERM', 'uncaughtException', 'unhandledRejection', 'message'] as const;
let count = 0;
let before: Promise<unknown> = Promise.resolve();

/** Runs `src/cli/<command>.ts`. Only one runs at a time: others wait. */
export function runInProcess(command: string, args: readonly string[], options: InProcessOptions): Promise<Printed> {
  const run = before.then(() => runAlone(command, args, options));
  before = run.catch(() => {});
  return run;
}

async function runAlone(command: string, args: readonly string[], { cwd, env }: InProcessOptions): Promise<Printed> {
  const own = { cwd: process.cwd(), argv: process.argv, env: { ...process.env }, exit: Object.getOwnPropertyDescriptor(process, 'exit')! };
  const listeners = EVENTS.map((event) => process.listeners(event as 'SIGINT'));
  const streams = [process.stdout, process.stderr] as const;
  const writes = streams.map((stream) => stream.write.bind(stream));
  const errors = streams.map((stream) => stream.listeners('error'));
  const said = ['', ''];
  const exited = Promise.withResolvers<number>();
  // The channel is that of the test runner. A command would take it for that of a command that started it, and let go of it.
  const { channel } = process;
  if (channel) Object.assign(channel, { unref: () => {} });
  process.chdir(cwd);
  process.argv = [process.execPath, join(CLI, `${command}.ts`), ...args];
  setVariables({ ...BARE_ENVIRONMENT, ...env });
  process.exit = ((code?: number) => exited.resolve(code ?? 0)) as never;
  for (const [i, stream] of streams.entries()) {
    stream.write = (chunk: string | Uint8Array, ...rest: unknown[]) => {
      said[i] += typeof chunk === 'string' ? chunk : Buffer.from(chunk).toString();
      (rest.at(-1) as (() => void) | undefined)?.();
      return true;
    };
  }
  try {
    // A query makes it a module of its own, whose imports are shared.
    const ended = import(/* @vite-ignore */ `${pathToFileURL(join(CLI, `${command}.ts`)).href}?run=${++count}`);
    const code = await Promise.race([exited.promise, ended.then(() => exited.promise)]);
    return { code, stdout: said[0]!, stderr: said[1]! };
  } finally {
    for (const [i, stream] of streams.entries()) {
      stream.write = writes[i]!;
      restore(stream, 'error', errors[i]!);
    }
    for (const flag of V8_FLAGS) setFlagsFromString(flag);
    for (const [i, event] of EVENTS.entries()) restore(process, event, listeners[i]!);
    if (channel) Reflect.deleteProperty(channel, 'unref');
    Object.defineProperty(process, 'exit', own.exit);
    process.argv = own.argv;
    setVariables(own.env as Record<string, string>);
    process.chdir(own.cwd);
  }
}

function setVariables(variables: Readonly<Record<string, string>>): void {
  for (const name of Object.keys(process.env)) if (!(name in variables)) delete process.env[name];
  Object.assign(process.env, variables);
}

function restore(emitter: NodeJS.EventEmitter, event: string, listeners: readonly Function[]): void {
  for (const listener of emitter.listeners(event)) if (!listeners.includes(listener)) emitter.off(event, listener as () => void);
}
