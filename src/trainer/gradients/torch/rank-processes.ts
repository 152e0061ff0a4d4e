/**
 * The processes of a worker: one per device, each a Python that runs worker.py. Starts them, keeps what each writes to stderr, and says in one line
 * which of them ended and how. Rank 0 exchanges frames (worker-process.ts); the others follow it (ranks.py).
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { closeSync, mkdtempSync, openSync, rmSync, writeSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { ConfigError } from '../../../core/errors.ts';
import { withoutColours } from '../../../core/without-colours.ts';
import { systemText } from '../../../files/system-text.ts';

export interface RankCommand {
  readonly python: string;
  readonly script: string;
  readonly env: Readonly<Record<string, string | undefined>>;
  /** The processes' stderr is appended here; null keeps only the last lines. */
  readonly logPath: string | null;
  /** One process for each. */
  readonly devices: readonly string[];
  /** Number of all ranks; those beyond `devices` are started on other hosts, and all meet at MASTER_ADDR and MASTER_PORT of `env`. */
  readonly worldSize: number;
}

/** The end of a process: its exit code, or the signal that killed it. */
export interface WorkerExit {
  readonly code: number | null;
  readonly signal: string | null;
}

const TAIL_CHARACTERS = 4096;
const TAIL_LINES = 3;
/** The time to read output after a process ended: a grandchild may hold the pipes open forever. */
const DRAIN_MS = 500;
/** Exit codes of failure.py. A rank that lost another one is not the cause. */
const EXIT_BUSY = 3;
const EXIT_PEER_LOST = 4;
const EXIT_MEMORY = 6;
/** The time that a rank may take to end after its stdin: twice GRACE_S of worker.py. */
const GRACE_MS = 4000;

export class RankProcesses {
  readonly ranks: readonly RankProcess[];
  /** Resolves with the exit of rank 0 once all have ended. */
  readonly exited: Promise<WorkerExit>;
  /** Resolves with the rank that ended first by itself; if another rank brought it down, with that one. */
  readonly fallen: Promise<RankProcess>;
  readonly #log: number | null;
  readonly #folder: string | null;

  constructor(command: RankCommand) {
    const { devices, worldSize, logPath } = command;
    this.#log = logPath === null ? null : openLog(logPath);
    // A file of this host, so that no port listens.
    this.#folder = worldSize === devices.length && worldSize > 1 ? mkdtempSync(join(tmpdir(), 'vf-ranks-')) : null;
    const common = {
      WORLD_SIZE: `${worldSize}`,
      LOCAL_WORLD_SIZE: `${devices.length}`,
      VF_TORCH_STORE: this.#folder ? join(this.#folder, 'store') : '',
    };
    this.ranks = devices.map((device, i) => {
      const env = { ...command.env, ...common, RANK: `${i}`, LOCAL_RANK: `${i}`, VF_TORCH_DEVICE: device };
      return new RankProcess({ ...command, env, rank: worldSize === 1 ? null : i, log: this.#log });
    });
    this.exited = this.#allExited();
    this.fallen = this.#firstFallen();
  }

  get first(): RankProcess {
    return this.ranks[0]!;
  }

  kill(): void {
    for (const rank of this.ranks) rank.child.kill('SIGKILL');
  }

  endInput(): void {
    for (const rank of this.ranks) rank.child.stdin?.end();
  }

  /**
   * Ends all of them and returns those that blocked the others: the ones that do not notice the end of their input, else the ones that were not waiting for another
   * rank.
   */
  async endLate(): Promise<readonly RankProcess[]> {
    this.endInput();
    const exits = await Promise.all(this.ranks.map((rank) => Promise.race([rank.exited, elapsed(GRACE_MS)])));
    const silent = this.ranks.filter((_, i) => exits[i] === null);
    return silent.length > 0 ? silent : this.ranks.filter((_, i) => exits[i]!.code === EXIT_BUSY);
  }

  async #allExited(): Promise<WorkerExit> {
    const [exit] = await Promise.all(this.ranks.map((rank) => rank.exited));
    if (this.#log !== null) closeSync(this.#log);
    if (this.#folder !== null) rmSync(this.#folder, { recursive: true, force: true });
    return exit!;
  }

  async #firstFallen(): Promise<RankProcess> {
    const ends = this.ranks.map(async (rank) => ({ rank, exit: await rank.exited }));
    const first = await Promise.race(ends);
    if (first.exit.code !== EXIT_PEER_LOST) return first.rank;
    const causes = ends.map(async (end) => ((await end).exit.code === EXIT_PEER_LOST ? await new Promise<never>(() => {}) : await end));
    const cause = await Promise.race([...causes, elapsed(DRAIN_MS)]);
    return (cause ?? first).rank;
  }
}

interface RankOptions extends RankCommand {
  /** Null if it is the only one. */
  readonly rank: number | null;
  readonly log: number | null;
}

export class RankProcess {
  readonly child: ChildProcess;
  readonly exited: Promise<WorkerExit>;
  /** The reason why it could not be started; null if it was. */
  failure: ConfigError | null = null;
  readonly #rank: number | null;
  readonly #log: number | null;
  #tail = '';
  #exit: WorkerExit | null = null;

  constructor({ python, script, env, rank, log }: RankOptions) {
    this.#rank = rank;
    this.#log = log;
    // Unbuffered, so that the last output of a process that dies is not lost.
    const variables = { ...env, PYTHONUNBUFFERED: '1', TOKENIZERS_PARALLELISM: 'false' };
    const stdout = rank === null || rank === 0 ? 'pipe' : 'ignore';
    this.child = spawn(python, [script], { env: variables, stdio: ['pipe', stdout, 'pipe'] });
    this.exited = this.#watch(python);
  }

  /** `Torch worker (pid 12)`, or `Torch worker rank 1 (pid 13)`. */
  get name(): string {
    return `Torch worker ${this.#rank === null ? '' : `rank ${this.#rank} `}(pid ${this.child.pid})`;
  }

  /** Describes how it ended. */
  get end(): string {
    const { code, signal } = this.#exit ?? { code: null, signal: null };
    return signal ? `was killed (${signal})` : `exited with code ${code}`;
  }

  /** True if it ended itself because memory ran out. */
  get ranOutOfMemory(): boolean {
    return this.#exit?.code === EXIT_MEMORY;
  }

  /** Advice about its end and its last output, each after a space. */
  get remedy(): string {
    const remedy = this.#exit?.signal === 'SIGKILL' ? ' If the system ran out of memory, lower backend.max_tokens.' : '';
    return remedy + this.lastLines;
  }

  get lastLines(): string {
    const lines = withoutColours(this.#tail)
      .split('\n')
      .map((line) => line.trim())
      .filter((line) => line !== '');
    return lines.length === 0 ? '' : ` Last lines on stderr: ${lines.slice(-TAIL_LINES).join(' | ')}`;
  }

  #watch(python: string): Promise<WorkerExit> {
    const { child } = this;
    child.stderr?.on('data', (chunk: Buffer) => this.#note(chunk));
    // Write errors surface through the exit handler.
    child.stdin?.on('error', () => {});
    return new Promise((resolve) => {
      const end = (exit: WorkerExit) => {
        this.#exit = exit;
        resolve(exit);
      };
      child.once('error', (cause) => {
        const remedy = 'name a Python with torch, transformers and safetensors (pip install torch transformers safetensors)';
        this.failure = new ConfigError(`Cannot start ${python} (backend.python): ${systemText(cause)}; ${remedy}`, { cause });
        if (child.pid === undefined) end({ code: null, signal: null });
      });
      child.once('exit', (code, signal) => {
        const finish = () => {
          clearTimeout(timer);
          child.removeAllListeners('close');
          child.stdout?.destroy();
          child.stderr?.destroy();
          end({ code, signal });
        };
        const timer = setTimeout(finish, DRAIN_MS);
        child.once('close', finish);
      });
    });
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
}

function elapsed(ms: number): Promise<null> {
  return new Promise((resolve) => setTimeout(resolve, ms, null));
}

function openLog(path: string): number {
  try {
    return openSync(path, 'a');
  } catch (cause) {
    throw new ConfigError(`Cannot append to the torch worker's log ${path}: ${systemText(cause)}`, { cause });
  }
}
