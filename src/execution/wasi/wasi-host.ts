/**
 * The whole operating system of one interpreter: arguments, standard output that is counted and thrown away, a clock that counts its own readings, bytes
 * that follow from a seed, jobs on standard input, and replies, which are the writes to standard error that `reply` takes. Every other call is answered with ENOSYS: no file, no socket, no process.
 */
import { countText } from '../../core/count-text.ts';
import { MEMORY_IMPORT } from './memory-import.ts';
import { type PythonModule, type SandboxMemory, webAssembly } from './web-assembly.ts';

const EBADF = 8;
const ENOSYS = 52;
const STDIN = 0;
const STDERR = 2;
/** Bytes of the last write to standard error that are kept, for the report of an interpreter that does not start. */
const ERROR_BYTES = 500;
const CHARACTER_DEVICE = 2;
const CLOCK_START_NS = 1_700_000_000_000_000_000n;
const CLOCK_STEP_NS = 1000n;

/** The way an interpreter ended, thrown through its frames. */
export class InterpreterExit extends Error {
  readonly reason: 'exited' | 'output_too_long' | 'finished';

  constructor(reason: InterpreterExit['reason'], detail: string) {
    super(detail);
    this.reason = reason;
  }
}

export interface HostOptions {
  readonly args: readonly string[];
  readonly memory: SandboxMemory;
  /** Seed of the bytes that the interpreter uses as random ones. */
  readonly seed: number;
  /** The next bytes of standard input, at most `most`; none at its end. May block. */
  readonly read: (most: number) => Uint8Array;
  /** Called with each write to standard error; true if it was a reply, false if it was printed text. */
  readonly reply: (bytes: Uint8Array) => boolean;
}

type Call = (...args: never[]) => number;

export class WasiHost {
  readonly #options: HostOptions;
  readonly #args: readonly Uint8Array[];
  readonly #random: () => number;
  #clock = CLOCK_START_NS;
  #printed = 0;
  #printable = Infinity;
  #lastError = '';

  constructor(options: HostOptions) {
    this.#options = options;
    this.#args = options.args.map((arg) => Buffer.from(`${arg}\0`));
    this.#random = seededBytes(options.seed);
  }

  /** Starts the count of printed bytes again. The interpreter ends when it prints more than `bytes`. */
  limitOutput(bytes: number): void {
    this.#printed = 0;
    this.#printable = bytes;
  }

  /** The last text on standard error, at most 500 bytes of it. */
  get lastError(): string {
    return this.#lastError;
  }

  /** The imports of `new WebAssembly.Instance` for this module. */
  imports(module: PythonModule): Record<string, Record<string, unknown>> {
    const calls: Record<string, Call> = this.#calls();
    const imports: Record<string, Record<string, unknown>> = { [MEMORY_IMPORT.module]: { [MEMORY_IMPORT.name]: this.#options.memory } };
    for (const { module: from, name, kind } of webAssembly.Module.imports(module))
      if (kind === 'function') (imports[from] ??= {})[name] = calls[name] ?? (() => ENOSYS);
    return imports;
  }

  #calls() {
    return {
      args_sizes_get: (count: number, size: number) => this.#setPair(count, this.#args.length, size, total(this.#args)),
      args_get: (pointers: number, bytes: number) => this.#giveArgs(pointers, bytes),
      environ_sizes_get: (count: number, size: number) => this.#setPair(count, 0, size, 0),
      environ_get: () => 0,
      clock_time_get: (_clock: number, _precision: bigint, at: number) => this.#setLong(at, (this.#clock += CLOCK_STEP_NS)),
      clock_res_get: (_clock: number, at: number) => this.#setLong(at, CLOCK_STEP_NS),
      random_get: (at: number, size: number) => this.#fillRandom(at, size),
      proc_exit: (code: number): number => {
        throw new InterpreterExit('exited', `The interpreter exited with code ${code}`);
      },
      fd_read: (fd: number, vectors: number, count: number, readAt: number) => this.#read(fd, vectors, count, readAt),
      fd_write: (fd: number, vectors: number, count: number, writtenAt: number) => this.#write(fd, vectors, count, writtenAt),
      fd_fdstat_get: (fd: number, at: number) => (fd > STDERR ? EBADF : this.#describe(at, 24, 0)),
      fd_filestat_get: (fd: number, at: number) => (fd > STDERR ? EBADF : this.#describe(at, 64, 16)),
      fd_prestat_get: () => EBADF,
      fd_close: () => 0,
      sched_yield: () => 0,
    } satisfies Record<string, Call>;
  }

  /** Each call makes a new view, because the buffer is replaced whenever the memory grows. */
  get #view(): DataView {
    return new DataView(this.#options.memory.buffer);
  }

  get #bytes(): Uint8Array {
    return new Uint8Array(this.#options.memory.buffer);
  }

  #setPair(firstAt: number, first: number, secondAt: number, second: number): number {
    this.#view.setUint32(firstAt, first, true);
    this.#view.setUint32(secondAt, second, true);
    return 0;
  }

  #setLong(at: number, value: bigint): number {
    this.#view.setBigUint64(at, value, true);
    return 0;
  }

  #giveArgs(pointers: number, bytes: number): number {
    let at = bytes;
    for (const [i, arg] of this.#args.entries()) {
      this.#view.setUint32(pointers + 4 * i, at, true);
      this.#bytes.set(arg, at);
      at += arg.length;
    }
    return 0;
  }

  #fillRandom(at: number, size: number): number {
    const target = this.#bytes.subarray(at, at + size);
    for (let i = 0; i < target.length; i += 1) target[i] = this.#random();
    return 0;
  }

  /** A structure of zeros that describes a character device on which everything is allowed. */
  #describe(at: number, size: number, typeAt: number): number {
    this.#bytes.fill(0, at, at + size);
    this.#view.setUint8(at + typeAt, CHARACTER_DEVICE);
    if (typeAt === 0) this.#view.setBigUint64(at + 8, 0xffffffffn, true);
    return 0;
  }

  #vectors(at: number, count: number): Uint8Array[] {
    const view = this.#view;
    return Array.from({ length: count }, (_, i) => {
      const start = view.getUint32(at + 8 * i, true);
      return this.#bytes.subarray(start, start + view.getUint32(at + 8 * i + 4, true));
    });
  }

  #read(fd: number, vectors: number, count: number, readAt: number): number {
    if (fd !== STDIN) return EBADF;
    // One vector is enough: a reader that needs more asks again.
    const target = this.#vectors(vectors, count).find((vector) => vector.length > 0);
    const bytes = target === undefined ? new Uint8Array() : this.#options.read(target.length);
    target?.set(bytes);
    this.#view.setUint32(readAt, bytes.length, true);
    return 0;
  }

  #write(fd: number, vectors: number, count: number, writtenAt: number): number {
    if (fd === STDIN || fd > STDERR) return EBADF;
    const parts = this.#vectors(vectors, count);
    const size = total(parts);
    if (fd !== STDERR || !parts.some((part) => this.#options.reply(part))) this.#print(fd, parts, size);
    this.#view.setUint32(writtenAt, size, true);
    return 0;
  }

  #print(fd: number, parts: readonly Uint8Array[], size: number): void {
    this.#printed += size;
    if (this.#printed > this.#printable)
      throw new InterpreterExit('output_too_long', `The program printed more than ${countText(this.#printable)} bytes.`);
    if (fd !== STDERR) return;
    for (const part of parts) this.#lastError = (this.#lastError + Buffer.from(part.subarray(0, ERROR_BYTES)).toString()).slice(-ERROR_BYTES);
  }
}

const total = (parts: readonly Uint8Array[]): number => parts.reduce((sum, part) => sum + part.length, 0);

/** Bytes of a generator (mulberry32). They are not secret; another seed merely gives other bytes. */
function seededBytes(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 24) & 0xff;
  };
}
