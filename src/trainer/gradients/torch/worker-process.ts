/**
 * The child process under torch-backend.ts: starts it, sends one call at a time, matches answers to calls, holds deadlines, and tells in one line
 * how it ended. It knows no call by name.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { closeSync, openSync, writeSync } from 'node:fs';
import { CancelledError, ConfigError, GradientError, thrownText } from '../../../core/errors.ts';
import { LONGEST_TIMER_MS } from '../../../core/timers.ts';
import { encodeFrame, type Frame, type FrameArrays, FrameDecoder } from './frames.ts';

export interface WorkerCommand {
  readonly python: string;
  readonly script: string;
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Where the worker's stderr goes, appended; null keeps its last lines alone. */
  readonly logPath: string | null;
  /** Of every call. */
  readonly timeoutMs: number;
}

/** How the process ended: exit code, or the signal that killed it. */
export interface WorkerExit {
  readonly code: number | null;
  readonly signal: string | null;
}

interface CallOptions {
  readonly signal?: AbortSignal;
  /** Called with the answer to a call whose signal was aborted while it ran. */
  readonly onAbandoned?: (answer: Frame) => void;
}

interface Call extends CallOptions {
  readonly id: number;
  readonly name: string;
  readonly frame: Buffer;
  readonly resolve: (answer: Frame) => void;
  readonly reject: (error: unknown) => void;
}

const TAIL_CHARACTERS = 4096;
const TAIL_LINES = 3;
/** After the process ended, for what it still wrote to arrive: a grandchild may hold its pipes open for ever. */
const DRAIN_MS = 500;
const CLOSE_MS = 15_000;

export class WorkerProcess {
  readonly exited: Promise<WorkerExit>;
  readonly #child: ChildProcess;
  readonly #timeoutMs: number;
  readonly #decoder = new FrameDecoder();
  readonly #log: number | null;
  readonly #waiting: Call[] = [];
  #running: Call | null = null;
  #timer: NodeJS.Timeout | undefined;
  #calls = 0;
  #tail = '';
  #end: Error | null = null;
  #closing: Promise<void> | null = null;

  constructor(command: WorkerCommand) {
    this.#timeoutMs = command.timeoutMs;
    this.#log = command.logPath === null ? null : openLog(command.logPath);
    // Unbuffered, so that the last words of a process that dies are not lost.
    const env = { ...command.env, PYTHONUNBUFFERED: '1', TOKENIZERS_PARALLELISM: 'false' };
    this.#child = spawn(command.python, [command.script], { env, stdio: ['pipe', 'pipe', 'pipe'] });
    this.exited = this.#watch(command.python);
  }

  /** Undefined where it never started. */
  get pid(): number | undefined {
    return this.#child.pid;
  }

  /** The answer to one call, whatever it says. Rejects with GradientError `lost`, with CancelledError once `signal` is aborted, with ConfigError where Python is missing. */
  call(name: string, fields: Readonly<Record<string, unknown>>, arrays: FrameArrays = {}, options: CallOptions = {}): Promise<Frame> {
    return new Promise((resolve, reject) => {
      const { signal } = options;
      if (this.#end) throw this.#end;
      if (signal?.aborted) throw cancelled(name, signal);
      const id = ++this.#calls;
      const call: Call = { id, name, frame: encodeFrame({ id, call: name, ...fields }, arrays), resolve, reject, ...options };
      const onAbort = signal && (() => this.#abandon(call, signal));
      signal?.addEventListener('abort', onAbort!, { once: true });
      const settled = <T>(settle: (value: T) => void) => {
        return (value: T) => {
          signal?.removeEventListener('abort', onAbort!);
          settle(value);
        };
      };
      this.#waiting.push({ ...call, resolve: settled(resolve), reject: settled(reject) });
      this.#sendNext();
    });
  }

  /** Asks it to end, ends it after `CLOSE_MS`, and waits for that. */
  close(): Promise<void> {
    this.#closing ??= this.#shutDown();
    return this.#closing;
  }

  /** Ends it now; every call that is under way rejects with `reason`. */
  kill(reason: Error): void {
    this.#lose(reason);
    this.#child.kill('SIGKILL');
  }

  async #shutDown(): Promise<void> {
    const timer = setTimeout(() => this.#child.kill('SIGKILL'), CLOSE_MS);
    try {
      if (!this.#end) await this.call('shutdown', {}).catch(() => {});
      this.#lose(new GradientError('Expected an open gradient backend, it is closed; start another', { code: 'lost' }));
      this.#child.stdin?.end();
      await this.exited;
    } finally {
      clearTimeout(timer);
    }
  }

  #sendNext(): void {
    if (this.#running || this.#end) return;
    const call = this.#waiting.shift();
    if (!call) return;
    this.#running = call;
    this.#timer = setTimeout(() => this.#killLate(call), Math.min(this.#timeoutMs, LONGEST_TIMER_MS));
    this.#child.stdin?.write(call.frame);
  }

  #killLate({ name }: Call): void {
    const remedy = 'it was killed. Raise backend.timeout_s, or lower backend.max_tokens';
    const message = `Expected the torch worker to answer ${name} within ${this.#timeoutMs / 1000} s; ${remedy}${this.#lastLines()}`;
    this.kill(new GradientError(message, { code: 'lost' }));
  }

  #receive(chunk: Buffer): void {
    if (this.#end) return;
    try {
      for (const frame of this.#decoder.push(chunk)) this.#settle(frame);
    } catch (error) {
      this.kill(error as GradientError);
    }
  }

  #settle(answer: Frame): void {
    const call = this.#running;
    if (!call || answer.header['id'] !== call.id) {
      const got = JSON.stringify(answer.header).slice(0, 200);
      throw new GradientError(`Expected the answer to ${call ? `call ${call.id} (${call.name})` : 'no call'}, the worker sent ${got}`, {
        code: 'lost',
      });
    }
    clearTimeout(this.#timer);
    this.#running = null;
    if (call.signal?.aborted) call.onAbandoned?.(answer);
    call.resolve(answer);
    this.#sendNext();
  }

  /** What runs goes on to its end: torch cannot be interrupted. Nobody waits for it any more. */
  #abandon(call: Call, signal: AbortSignal): void {
    const at = this.#waiting.findIndex(({ id }) => id === call.id);
    if (at >= 0) this.#waiting.splice(at, 1);
    call.reject(cancelled(call.name, signal));
  }

  #lose(reason: Error): void {
    if (this.#end) return;
    this.#end = reason;
    clearTimeout(this.#timer);
    for (const call of [...(this.#running ? [this.#running] : []), ...this.#waiting.splice(0)]) call.reject(reason);
    this.#running = null;
  }

  #watch(python: string): Promise<WorkerExit> {
    const child = this.#child;
    child.stdout?.on('data', (chunk: Buffer) => this.#receive(chunk));
    child.stderr?.on('data', (chunk: Buffer) => this.#note(chunk));
    // What cannot be written any more is told by its end.
    child.stdin?.on('error', () => {});
    return new Promise((resolve) => {
      const end = (exit: WorkerExit) => {
        if (this.#log !== null) closeSync(this.#log);
        resolve(exit);
      };
      child.once('error', (cause) => {
        this.#lose(
          new ConfigError(`Expected a Python with torch in backend.python, ${python} did not start: ${cause.message}; ${INSTALL}`, { cause }),
        );
        if (child.pid === undefined) end({ code: null, signal: null });
      });
      child.once('exit', (code, signal) => {
        const finish = () => {
          clearTimeout(timer);
          child.removeAllListeners('close');
          child.stdout?.destroy();
          child.stderr?.destroy();
          this.#lose(this.#died({ code, signal }));
          end({ code, signal });
        };
        const timer = setTimeout(finish, DRAIN_MS);
        child.once('close', finish);
      });
    });
  }

  #died({ code, signal }: WorkerExit): GradientError {
    const how = signal ? `ended by ${signal}` : `exited with code ${code}`;
    const during = this.#running ? ` during ${this.#running.name}` : '';
    const torn = this.#decoder.torn > 0 ? `, ${this.#decoder.torn} bytes into an answer` : '';
    const remedy = signal === 'SIGKILL' ? ' If the system ran out of memory, lower backend.max_tokens.' : '';
    return new GradientError(`Expected the torch worker (pid ${this.pid}) to go on, it was ${how}${during}${torn}.${remedy}${this.#lastLines()}`, {
      code: 'lost',
    });
  }

  #note(chunk: Buffer): void {
    this.#tail = (this.#tail + chunk.toString('utf8')).slice(-TAIL_CHARACTERS);
    if (this.#log === null) return;
    try {
      // At once: what waited for its turn would come after the end, when the log is closed and its number another file's.
      writeSync(this.#log, chunk);
    } catch {
      // A full disk must not end a training: the log is then short.
    }
  }

  #lastLines(): string {
    const lines = this.#tail
      .split('\n')
      .map((line) => line.trim())
      .filter((line) => line !== '');
    return lines.length === 0 ? '' : ` Its last words: ${lines.slice(-TAIL_LINES).join(' | ')}`;
  }
}

export const INSTALL = 'install them (pip install torch transformers safetensors) or name another Python';

function openLog(path: string): number {
  try {
    return openSync(path, 'a');
  } catch (cause) {
    throw new ConfigError(`Expected a file that the worker's log can be appended to, got ${path}: ${thrownText(cause)}`, { cause });
  }
}

function cancelled(name: string, signal: AbortSignal): CancelledError {
  return new CancelledError(`The call ${name} of the gradient backend was cancelled`, { cause: signal.reason });
}
