/**
 * Runs Python programs that a model wrote, which may be hostile. No effect of a program reaches the host, another program or the verdict about it: an executor
 * returns texts (the `repr` of each value), and the caller compares them. A value that the caller wants to keep from a program must not be in its job.
 */
import type { Turn } from '../core/limiter.ts';

/** Limits of one job. */
export interface ExecutionLimits {
  /** Wall-clock time in seconds: of all calls that share an interpreter, otherwise of each call; at most a day. @default 2 (Absolute Zero: 10) */
  readonly seconds: number;
  /** Memory of the whole interpreter, in bytes; at least 32 MiB. @default 64 MiB */
  readonly memoryBytes: number;
  /** Limit of the job's printed output, in bytes. The output is counted and thrown away. @default 1 MiB */
  readonly outputBytes: number;
  /** The longest `repr` of a value, in characters. @default 4000 (Absolute Zero cuts at 400, which spoils the value) */
  readonly reprLength: number;
}

export const DEFAULT_LIMITS: ExecutionLimits = { seconds: 2, memoryBytes: 64 * 2 ** 20, outputBytes: 2 ** 20, reprLength: 4000 };

/** Limits of reading a program. Only a hostile program makes a parser take longer. */
export const ANALYSIS_LIMITS: ExecutionLimits = { ...DEFAULT_LIMITS, seconds: 10, memoryBytes: 256 * 2 ** 20 };

export interface ExecutionJob {
  /** The program. It defines `f`. */
  readonly code: string;
  /** Texts of arguments: `'314', 2` calls `f('314', 2)`. The module runs again, in a new namespace, for each call. */
  readonly calls: readonly string[];
  /** Seed of the hashes of strings, an integer from 0 to 2^32 - 1: it decides the order of sets. */
  readonly hashSeed: number;
  readonly limits: ExecutionLimits;
}

/** The value of one call, or the exception that it raised: its class and at most 200 characters of its message. */
export type CallResult = { readonly repr: string } | { readonly error: string; readonly message: string };

/** The reason why a job did not come to its end. In a job of several calls these are also the `error` of the calls that ended so. */
export type JobFailure = 'timeout' | 'memory' | 'output_too_long' | 'crashed';

export type ExecutionResult =
  /** One result for each call, in order. */
  { readonly kind: 'ran'; readonly calls: readonly CallResult[] } | { readonly kind: JobFailure; readonly detail: string };

/**
 * A change of a program's text. `comments`: comments, docstrings and blank lines are left out. `definitions`: only imports, functions and classes stay.
 * `prints`: calls of `print` are left out. A pair: the function of the first name, and its calls, get the second name.
 */
export type CodeRewrite = 'comments' | 'definitions' | 'prints' | readonly [from: string, to: string];

export interface AnalyseOptions {
  /** Names of modules and of their members, such as `random` or `os.path`. */
  readonly banned: readonly string[];
  /**
   * `any_spelling`: a banned name that is imported or read in any way. `modules`: Absolute Zero's rule, which compares the parts of dotted names in import
   * statements alone, so that a dotted name is never found. @default 'any_spelling'
   */
  readonly bannedRule?: 'any_spelling' | 'modules';
  /** Changes to the text for `CodeFacts.code`, in order. @default the entry is renamed to `f`, then `comments` */
  readonly rewrites?: readonly CodeRewrite[];
  /** The facts have `measures`. @default false */
  readonly measured?: boolean;
  readonly signal: AbortSignal;
  /** The place among those that wait for a worker. @default first come, first served */
  readonly turn?: Turn;
}

/** Facts about a program from CPython's own parser. */
export interface CodeFacts {
  /** The parser's message about code that it refuses; null if it parses. Imports and banned names are then found by their spelling, and the rest is empty. */
  readonly syntaxError: string | null;
  /** Functions defined at top level, in order. */
  readonly functions: readonly string[];
  /** The function that is the program: the only one at top level; null if there are none or several. */
  readonly entry: string | null;
  /** Import statements, those in functions after those at top level, as source. */
  readonly imports: readonly string[];
  /** The banned names that the program imports or reads, dotted ones too. */
  readonly banned: readonly string[];
  /** The program's text after the rewrites; empty if it does not parse. */
  readonly code: string;
  /** The program can neither observe nor change anything but its arguments, so that it may share an interpreter with others. */
  readonly plain: boolean;
  /** Only if requested, and for a program that parses. */
  readonly measures?: CodeMeasures;
}

/** Measures of a program's complexity. */
export interface CodeMeasures {
  /** Branches, loops, handlers and conditional expressions, each 1 plus its depth among these; each run of equal boolean operators 1. At least 0. */
  readonly cognitive: number;
  /** Complexity of the most complex function at top level, as radon counts it. At least 1. */
  readonly cyclomatic: number;
  /** Halstead's volume and effort, as radon counts them. At least 0. */
  readonly volume: number;
  readonly effort: number;
  /** The syntax tree in order: names of its nodes, names and constants; the first 1,000. */
  readonly nodes: readonly string[];
}

export interface ExecutorCapabilities {
  readonly name: ExecutorName;
  /** `wasm`: an interpreter without an operating system. `container`: a process in namespaces of its own. `none`: a process with limits only. */
  readonly isolation: 'wasm' | 'container' | 'none';
  /** Version of Python, such as `3.12.0`. */
  readonly python: string;
}

export type ExecutorName = 'wasi' | 'bubblewrap' | 'none';

export interface CodeExecutor {
  readonly capabilities: ExecutorCapabilities;
  /** CPU time of its workers so far, in seconds, without jobs that are not over. @default null: not known */
  readonly cpuSeconds?: number | null;
  /**
   * Runs a job when a worker is free. A job of several calls that ends badly is run again call by call, so that no call loses its result because of another. Each
   * call of a program that is not plain gets a new interpreter, so that it can pass nothing on to the next. Throws ExecutionError if no worker can be started,
   * ConfigError for limits out of range, CancelledError if the signal aborts.
   */
  run(job: ExecutionJob, o: { readonly signal: AbortSignal; readonly turn?: Turn }): Promise<ExecutionResult>;
  /** Reads a program without running it. Throws as `run` does, and TimeoutError if the parser does not finish. */
  analyse(code: string, o: AnalyseOptions): Promise<CodeFacts>;
  /** Ends all workers. Jobs in flight reject with CancelledError. */
  close(): Promise<void>;
}
