/**
 * The worker of torch-backend.ts: starts its processes, sends one call at a time to the first, matches answers to calls, enforces deadlines, and reports
 * in one line how it ended. If one process ends, it ends the others. Knows no particular call.
 */
import { cancelled, onAbort, throwIfAborted } from '../../../core/abort.ts';
import { type CancelledError, GradientError } from '../../../core/errors.ts';
import { timerMs } from '../../../core/timers.ts';
import { encodeFrame, type Frame, type FrameArrays, FrameDecoder } from './frames.ts';
import { type RankCommand, type RankProcess, RankProcesses, type WorkerExit } from './rank-processes.ts';

export interface WorkerCommand extends RankCommand {
  /** Deadline of each call. */
  readonly timeoutMs: number;
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

const CLOSE_MS = 15_000;

export class WorkerProcess {
  readonly exited: Promise<WorkerExit>;
  readonly #processes: RankProcesses;
  readonly #timeoutMs: number;
  readonly #decoder = new FrameDecoder();
  readonly #waiting: Call[] = [];
  #running: Call | null = null;
  #timer: NodeJS.Timeout | undefined;
  #calls = 0;
  /** A call missed its deadline, and the processes are being ended. */
  #isLate = false;
  #end: Error | null = null;
  #closing: Promise<void> | null = null;

  constructor(command: WorkerCommand) {
    this.#timeoutMs = command.timeoutMs;
    this.#processes = new RankProcesses(command);
    this.#processes.first.child.stdout?.on('data', (chunk: Buffer) => this.#receive(chunk));
    this.exited = this.#watch();
  }

  /** By rank; undefined for one that never started. */
  get pids(): readonly (number | undefined)[] {
    return this.#processes.ranks.map(({ child }) => child.pid);
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

  /** Asks the processes to end, kills them after `CLOSE_MS`, and waits until they have ended. */
  close(): Promise<void> {
    this.#closing ??= this.#shutDown();
    return this.#closing;
  }

  /** Kills the processes now; every pending call rejects with `reason`. */
  kill(reason: Error): void {
    this.#lose(reason);
    this.#processes.kill();
  }

  async #shutDown(): Promise<void> {
    const timer = setTimeout(() => this.#processes.kill(), CLOSE_MS);
    try {
      if (!this.#end) await this.call('shutdown', {}).catch(() => {});
      this.#lose(new GradientError('The gradient backend is closed; start another', { code: 'lost' }));
      this.#processes.endInput();
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
    this.#timer = setTimeout(() => void this.#killLate(call), timerMs(this.#timeoutMs));
    this.#processes.first.child.stdin?.write(call.frame);
  }

  async #killLate({ name }: Call): Promise<void> {
    const { ranks, first } = this.#processes;
    this.#isLate = true;
    const late = ranks.length === 1 ? [first] : await this.#processes.endLate();
    const [one] = late.length === 1 ? late : [];
    const who = one
      ? `${one.name} did`
      : ranks.length === late.length
        ? 'Torch worker did'
        : 'The ranks of the torch worker on this host wait for others, which did';
    const remedy = 'Raise backend.timeout_s, or lower backend.max_tokens.';
    const message = `${who} not answer ${name} within ${this.#timeoutMs / 1000} s and was killed. ${remedy}${(one ?? first).lastLines}`;
    this.kill(new GradientError(message, { code: 'lost' }));
  }

  #receive(chunk: Buffer): void {
    if (this.#end || this.#isLate) return;
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

  /** If one process ends, the others cannot go on. */
  async #watch(): Promise<WorkerExit> {
    const fallen = await this.#processes.fallen;
    // While late processes are being ended, each shows by how it ends whether it held the others up.
    if (!this.#isLate) {
      this.#lose(fallen.failure ?? this.#died(fallen));
      this.#processes.kill();
    }
    return await this.#processes.exited;
  }

  #died(rank: RankProcess): GradientError {
    const during = this.#running ? ` during ${this.#running.name}` : '';
    const torn = this.#decoder.torn > 0 ? `, ${this.#decoder.torn} bytes into an answer` : '';
    return new GradientError(`${rank.name} ${rank.end}${during}${torn}.${rank.remedy}`, {
      code: 'lost',
      needsSmallerBatches: rank.ranOutOfMemory,
    });
  }
}

export const INSTALL = 'install them (pip install torch transformers safetensors, and pillow for images) or name another Python';
