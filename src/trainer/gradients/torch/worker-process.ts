/**
 * Child process of torch-backend.ts: starts it, sends one call at a time, matches answers to calls, enforces deadlines, and reports in one line
 * how it ended. Knows no particular call.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { closeSync, openSync, writeSync } from 'node:fs';
import { cancelled, onAbort, throwIfAborted } from '../../../core/abort.ts';
import { type CancelledError, ConfigError, GradientError, thrownText } from '../../../core/errors.ts';
import { LONGEST_TIMER_MS } from '../../../core/timers.ts';
import { encodeFrame, type Frame, type FrameArrays, FrameDecoder } from './frames.ts';

export interface WorkerCommand {
  readonly python: string;
  readonly script: string;
  readonly env: Readonly<Record<string, string | undefined>>;
  /** The worker's stderr is appended here; null keeps only its last lines. */
  readonly logPath: string | null;
  /** Deadline of each call. */
  readonly timeoutMs: number;
}

/** How the process ended: its exit code, or the signal that killed it. */
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
/** How long to read output after the process ended: a grandchild may hold the pipes open forever. */
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
    // Unbuffered, so that the last output of a process that dies is not lost.
    const env = { ...command.env, PYTHONUNBUFFERED: '1', TOKENIZERS_PARALLELISM: 'false' };
    this.#child = spawn(command.python, [command.script], { env, stdio: ['pipe', 'pipe', 'pipe'] });
    this.exited = this.#watch(command.python);
  }

  /** Undefined if the process never started. */
  get pid(): number | undefined {
    return this.#child.pid;
  }

  /** Returns the answer to one call, success or failure. Rejects with GradientError `lost`, with CancelledError once `signal` aborts, with ConfigError if Python is missing. */
  async call(name: string, fields: Readonly<Record<string, unknown>>, arrays: FrameArrays = {}, options: CallOptions = {}): Promise<Frame> {
    const { signal } = options;
    const stopped = `Gradient backend call ${name} was cancelled`;
    if (this.#end) throw this.#end;
    throwIfAborted(signal, stopped);
    const id = ++this.#calls;
    const { promise, resolve, reject } = Promise.withResolvers<Frame>();
    const call: Call = { id, name, frame: encodeFrame({ id, call: name, ...fields }, arrays), resolve, reject, ...options };
    using _ = signal && onAbort(signal, () => this.#abandon(call, cancelled(signal, stopped)));
    this.#waiting.push(call);
    this.#sendNext();
    return await promise;
  }

  /** Asks the process to end, kills it after `CLOSE_MS`, and waits until it has ended. */
  close(): Promise<void> {
    this.#closing ??= this.#shutDown();
    return this.#closing;
  }

  /** Kills the process now; every pending call rejects with `reason`. */
  kill(reason: Error): void {
    this.#lose(reason);
    this.#child.kill('SIGKILL');
  }

  async #shutDown(): Promise<void> {
    const timer = setTimeout(() => this.#child.kill('SIGKILL'), CLOSE_MS);
    try {
      if (!this.#end) await this.call('shutdown', {}).catch(() => {});
      this.#lose(new GradientError('The gradient backend is closed; start another', { code: 'lost' }));
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
    const remedy = 'Raise backend.timeout_s, or lower backend.max_tokens.';
    const message = `Torch worker did not answer ${name} within ${this.#timeoutMs / 1000} s and was killed. ${remedy}${this.#lastLines()}`;
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
      throw new GradientError(`Torch worker answered ${got}, but ${call ? `call ${call.id} (${call.name})` : 'no call'} is pending`, {
        code: 'lost',
      });
    }
    clearTimeout(this.#timer);
    this.#running = null;
    if (call.signal?.aborted) call.onAbandoned?.(answer);
    call.resolve(answer);
    this.#sendNext();
  }

  /** Rejects the call. One that is already running continues in the worker, because torch cannot be interrupted. */
  #abandon(call: Call, reason: CancelledError): void {
    const at = this.#waiting.indexOf(call);
    if (at >= 0) this.#waiting.splice(at, 1);
    call.reject(reason);
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
    // Write errors surface through the exit handler.
    child.stdin?.on('error', () => {});
    return new Promise((resolve) => {
      const end = (exit: WorkerExit) => {
        if (this.#log !== null) closeSync(this.#log);
        resolve(exit);
      };
      child.once('error', (cause) => {
        this.#lose(
          new ConfigError(
            `Cannot start ${python} (backend.python): ${cause.message}; name a Python with torch, transformers and safetensors (pip install torch transformers safetensors)`,
            {
              cause,
            },
          ),
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
    const how = signal ? `was killed (${signal})` : `exited with code ${code}`;
    const during = this.#running ? ` during ${this.#running.name}` : '';
    const torn = this.#decoder.torn > 0 ? `, ${this.#decoder.torn} bytes into an answer` : '';
    const remedy = signal === 'SIGKILL' ? ' If the system ran out of memory, lower backend.max_tokens.' : '';
    return new GradientError(`Torch worker (pid ${this.pid}) ${how}${during}${torn}.${remedy}${this.#lastLines()}`, { code: 'lost' });
  }

  #note(chunk: Buffer): void {
    this.#tail = (this.#tail + chunk.toString('utf8')).slice(-TAIL_CHARACTERS);
    if (this.#log === null) return;
    try {
      // Synchronous: a queued write could run after the log is closed and its descriptor reused.
      writeSync(this.#log, chunk);
    } catch {
      // A full disk must not end the training; the log is then incomplete.
    }
  }

  #lastLines(): string {
    const lines = this.#tail
      .split('\n')
      .map((line) => line.trim())
      .filter((line) => line !== '');
    return lines.length === 0 ? '' : ` Last lines on stderr: ${lines.slice(-TAIL_LINES).join(' | ')}`;
  }
}

export const INSTALL = 'install them (pip install torch transformers safetensors) or name another Python';

function openLog(path: string): number {
  try {
    return openSync(path, 'a');
  } catch (cause) {
    throw new ConfigError(`Cannot append to the torch worker's log ${path}: ${thrownText(cause)}`, { cause });
  }
}
