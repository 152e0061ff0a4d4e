/** One interpreter: an instance of CPython over its own memory and host. It serves the channel until it ends. */
import { InterpreterExit, WasiHost } from './wasi-host.ts';
import { type PythonModule, type SandboxMemory, webAssembly } from './web-assembly.ts';

export interface Program {
  readonly module: PythonModule;
  /** Pages of 64 KiB at the start. */
  readonly initialPages: number;
  /** Says whether `modules` holds sources or compiled code. */
  readonly form: 'source' | 'code';
  /** Names and texts of Python modules in turn, in the order of their loading; the last one serves. `boot` loads them. */
  readonly modules: readonly string[];
  readonly boot: string;
}

export interface InterpreterOptions {
  readonly program: Program;
  readonly hashSeed: number;
  readonly memoryPages: number;
  readonly read: (most: number) => Uint8Array;
  /** True if a write was a reply. */
  readonly reply: (bytes: Uint8Array) => boolean;
}

// Isolated, without site, without bytecode files, without warnings: a warning is printed once for each place, so it would reveal earlier programs.
const FLAGS = ['-I', '-S', '-B', '-W', 'ignore'];

const LAYOUTS = 13;
const LAYOUT_BYTES = 9001;

// The build answers for all descriptors above standard error itself.
const REPLIES = '2';
// The host limits an interpreter, not the interpreter itself.
const NO_LIMITS = '';

export class Interpreter {
  readonly #options: InterpreterOptions;
  readonly #host: WasiHost;
  readonly #memory: SandboxMemory;

  constructor(options: InterpreterOptions) {
    const { program, memoryPages, hashSeed, read, reply } = options;
    this.#options = options;
    this.#memory = new webAssembly.Memory({ initial: program.initialPages, maximum: Math.max(program.initialPages, memoryPages) });
    this.#host = new WasiHost({
      args: ['python', ...FLAGS, '-X', layout(hashSeed), '-c', program.boot, REPLIES, NO_LIMITS, program.form, ...program.modules],
      memory: this.#memory,
      seed: hashSeed,
      read,
      reply,
    });
  }

  get memoryBytes(): number {
    return this.#memory.buffer.byteLength;
  }

  /** The last text on standard error. */
  get lastError(): string {
    return this.#host.lastError;
  }

  limitOutput(bytes: number): void {
    this.#host.limitOutput(bytes);
  }

  /** Runs until the interpreter ends, and returns the way it ended. */
  run(): InterpreterExit {
    const { module } = this.#options.program;
    try {
      const instance = new webAssembly.Instance(module, this.#host.imports(module));
      (instance.exports['_start'] as () => void)();
      return new InterpreterExit('exited', 'The interpreter ended.');
    } catch (error) {
      if (error instanceof InterpreterExit) return error;
      // A trap, or a stack that is used up.
      return new InterpreterExit('exited', `The interpreter broke off: ${error instanceof Error ? error.message : String(error)}.`);
    }
  }
}

/** An option without meaning, of a length that follows from the seed. It moves objects, so that the addresses that a program sees depend on the seed. */
function layout(seed: number): string {
  return `layout=${'x'.repeat((seed % LAYOUTS) * LAYOUT_BYTES)}`;
}
