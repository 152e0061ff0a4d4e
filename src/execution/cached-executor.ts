/** Remembers the results of calls by program, call, limits and seed. Results that a loaded machine can cause (a missed deadline, a crash) are never kept. */
import { createHash } from 'node:crypto';
import { LRUCache } from 'lru-cache';
import type { AnalyseOptions, CallResult, CodeExecutor, CodeFacts, ExecutionJob, ExecutionResult, ExecutorCapabilities } from './code-executor.ts';
import { mergeCalls } from './merge-calls.ts';

/** Bytes of an entry in addition to its texts. */
const ENTRY_BYTES = 200;
const CHANCE: ReadonlySet<string> = new Set(['timeout', 'memory', 'crashed']);

export class CachedExecutor implements CodeExecutor {
  readonly #executor: CodeExecutor;
  readonly #results: LRUCache<string, CallResult>;
  readonly #facts: LRUCache<string, CodeFacts>;

  /** @param bytes memory of the results; an eighth of it keeps facts about programs */
  constructor(executor: CodeExecutor, bytes: number) {
    this.#executor = executor;
    const factBytes = Math.ceil(bytes / 8);
    this.#results = new LRUCache<string, CallResult>({ maxSize: bytes - factBytes + 1, sizeCalculation: sizeOf });
    this.#facts = new LRUCache<string, CodeFacts>({ maxSize: factBytes, sizeCalculation: sizeOf });
  }

  get capabilities(): ExecutorCapabilities {
    return this.#executor.capabilities;
  }

  get cpuSeconds(): number | null {
    return this.#executor.cpuSeconds ?? null;
  }

  run(job: ExecutionJob, options: Parameters<CodeExecutor['run']>[1]): Promise<ExecutionResult> {
    const keyOf = callKeys(job);
    const known = job.calls.map((call) => this.#results.get(keyOf(call)) ?? null);
    return mergeCalls(known, job, async (rest) => {
      const result = await this.#executor.run(rest, options);
      if (result.kind === 'ran') for (const [i, call] of rest.calls.entries()) this.#keep(keyOf(call), result.calls[i]!);
      return result;
    });
  }

  async analyse(code: string, options: AnalyseOptions): Promise<CodeFacts> {
    const { signal: _, turn: _turn, ...rules } = options;
    const key = hash([code, rules]);
    const known = this.#facts.get(key);
    if (known !== undefined) return known;
    const facts = await this.#executor.analyse(code, options);
    this.#facts.set(key, facts);
    return facts;
  }

  close(): Promise<void> {
    return this.#executor.close();
  }

  #keep(key: string, result: CallResult): void {
    if ('repr' in result || !CHANCE.has(result.error)) this.#results.set(key, result);
  }
}

/** The key of a call. The program is hashed once for all calls of a job. */
function callKeys({ code, hashSeed, limits }: ExecutionJob): (call: string) => string {
  const program = hash([code, hashSeed, limits]);
  return (call) => hash([program, call]);
}

const hash = (parts: readonly unknown[]): string => createHash('sha256').update(JSON.stringify(parts)).digest('base64');

const sizeOf = (value: object): number => ENTRY_BYTES + 2 * JSON.stringify(value).length;
