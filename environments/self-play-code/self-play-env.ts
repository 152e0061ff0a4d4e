/**
 * Self-play over programs: one policy proposes programs, solves them and grades the thinking, a turn each. Rows for evaluation are held-out tasks for the solver; rows
 * for training are the tasks that a run begins with. Rows, executor and settings are passed in; `loadEnvironment` opens them.
 */
import { LRUCache } from 'lru-cache';
import { Dataset, SingleTurnEnv, TimeoutError } from 'vf-search';
import type { Baseline } from 'vf-search/environment-kit';
import type { CodeExecutor, CodeMeasures, ExecutionLimits } from 'vf-search/execution';
import { lastLiteralBaseline } from './baseline.ts';
import { type BonusMeasures, programMeasures, soughtValues, valueDiversity } from './bonuses.ts';
import { checkSolution } from './check-solution.ts';
import { examineProposal, type ProposalRequest } from './examine-proposal.ts';
import type { NamedTask } from './load-tasks.ts';
import type { ProposalResult } from './proposals.ts';
import type { IoRecord, TaskRecord } from './records.ts';
import { selfPlayRubric } from './rubric.ts';
import type { SelfPlaySettings } from './settings.ts';
import { solveRow, type TaskRow } from './task-rows.ts';

/** A program that is used instead of a proposal. */
export interface GivenProgram {
  /** The step that plays it; null for the next step that has room for it. */
  readonly step: number | null;
  readonly record: TaskRecord;
}

export interface SelfPlayOptions {
  readonly settings: SelfPlaySettings;
  /** Tasks for evaluation. Their programs are refused as proposals. */
  readonly heldOut: readonly NamedTask[];
  /** The tasks that a run begins with. */
  readonly seeds: readonly NamedTask[];
  /** Programs in place of proposals. @default the policy proposes */
  readonly given?: readonly GivenProgram[];
  /** Closed together with the environment. */
  readonly executor: CodeExecutor;
  readonly limits: ExecutionLimits;
  /** Maximum number of new tokens of a reply. @default no limit */
  readonly responseTokens?: number;
  /** Name of the data set. @default 'self-play-code' */
  readonly name?: string;
  readonly notices?: readonly string[];
  readonly provenance?: Readonly<Record<string, unknown>>;
}

/** The number of examined proposals that are remembered: the rubric and the source of a step ask about the same ones. */
const REMEMBERED = 4096;

export class SelfPlayEnv extends SingleTurnEnv<TaskRow> {
  readonly limitArguments = { responseTokens: 'max_response_length' };
  readonly settings: SelfPlaySettings;
  /** The tasks that a run begins with. */
  readonly seeds: readonly TaskRecord[];
  override readonly baseline: Baseline;
  readonly #options: SelfPlayOptions;
  readonly #executor: CodeExecutor;
  #countedCpuSeconds = 0;
  readonly #examined = new LRUCache<string, Promise<ProposalResult>>({ max: REMEMBERED });
  #heldOut: Promise<ReadonlySet<string>> | null = null;

  constructor(options: SelfPlayOptions) {
    const { settings, heldOut, seeds, name = 'self-play-code', responseTokens, notices, provenance } = options;
    const rows = (tasks: readonly NamedTask[]) =>
      new Dataset(
        name,
        tasks.map(({ id, record }) => solveRow(id, record, settings)),
      );
    super({
      id: 'self-play-code',
      eval: rows(heldOut),
      train: rows(seeds),
      rubric: selfPlayRubric({
        ...settings,
        examine: (reply, asked, signal) => this.examine(reply, asked, signal),
        check: (record, answer, signal) => this.#check(record, answer, signal),
      }),
      ...(responseTokens === undefined ? {} : { limits: { responseTokens } }),
      ...(notices === undefined ? {} : { notices }),
      ...(provenance === undefined ? {} : { provenance }),
    });
    this.settings = settings;
    this.seeds = seeds.map(({ record }) => record);
    this.baseline = lastLiteralBaseline(settings.prompt);
    this.#options = options;
    this.#executor = options.executor;
  }

  /** Tells whether a proposal brings a task. The same reply is examined once. */
  examine(reply: string, { kind, program }: ProposalRequest, signal: AbortSignal): Promise<ProposalResult> {
    const key = JSON.stringify([kind, program, reply]);
    let found = this.#examined.get(key);
    if (found === undefined) {
      const { limits, settings } = this.#options;
      const isHeldOut = async (code: string) => (await this.#heldOutPrograms(signal)).has(code);
      found = examineProposal(reply, { kind, program }, { ...settings, executor: this.#executor, limits, isHeldOut }, signal);
      this.#examined.set(key, found);
      // An outage or an abort says nothing about the proposal, so it is not remembered.
      found.catch(() => this.#examined.delete(key));
    }
    return found;
  }

  /** Tells whether the program of a task is held out, however it is spelled. */
  async isHeldOut({ snippet }: TaskRecord, signal: AbortSignal): Promise<boolean> {
    const { code } = await this.#executor.analyse(snippet, { banned: [], signal });
    return (await this.#heldOutPrograms(signal)).has(code);
  }

  /**
   * The measures for bonuses; a program that is nested too deeply has only diversity.
   * @param known values of the same kind of task
   */
  async measure(record: TaskRecord, references: readonly IoRecord[], known: readonly string[], signal: AbortSignal): Promise<BonusMeasures> {
    const diversity = valueDiversity(soughtValues(record), known);
    if (record.kind === 'code_f') return { diversity };
    const [program, ...others] = await Promise.all([record, ...references].map(({ snippet }) => this.#measures(snippet, signal)));
    if (program === null || program === undefined) return { diversity };
    return {
      ...programMeasures(
        program,
        others.filter((other) => other !== null),
      ),
      diversity,
    };
  }

  async #measures(snippet: string, signal: AbortSignal): Promise<CodeMeasures | null> {
    try {
      return (await this.#executor.analyse(snippet, { banned: [], rewrites: [], measured: true, signal })).measures ?? null;
    } catch (error) {
      if (error instanceof TimeoutError && !signal.aborted) return null;
      throw error;
    }
  }

  /** CPU time of reading and running programs since the last call, in seconds; null if the executor does not know it. */
  takeExecutionSeconds(): number | null {
    const seconds = this.#executor.cpuSeconds ?? null;
    if (seconds === null) return null;
    const since = seconds - this.#countedCpuSeconds;
    this.#countedCpuSeconds = seconds;
    return since;
  }

  /** The programs that a step uses instead of proposals; null if the policy proposes. `count`: programs of each kind, of those without a step. */
  proposalsOf(step: number, count: number): readonly TaskRecord[] | null {
    const { given, settings } = this.#options;
    if (given === undefined) return null;
    const own = given.filter((program) => program.step === step).map(({ record }) => record);
    const undated = given.filter((program) => program.step === null).map(({ record }) => record);
    return [
      ...own,
      ...settings.kinds.flatMap((kind) =>
        sliceOf(
          undated.filter((record) => record.kind === kind),
          step,
          count,
        ),
      ),
    ];
  }

  override async close(): Promise<void> {
    await this.#executor.close();
  }

  #check(record: TaskRecord, answer: string, signal: AbortSignal): Promise<number> {
    const { limits, settings } = this.#options;
    return checkSolution(record, answer, { executor: this.#executor, limits, style: settings.prompt, functionScore: settings.functionScore, signal });
  }

  /** In Python's own spelling, so that other spacing does not hide a program. Computed when the first proposal is examined: an evaluation has none. */
  #heldOutPrograms(signal: AbortSignal): Promise<ReadonlySet<string>> {
    const { heldOut } = this.#options;
    const read = async () => {
      const programs = new Set(heldOut.map(({ record }) => record.snippet));
      const facts = await Promise.all([...programs].map((program) => this.#executor.analyse(program, { banned: [], signal })));
      return new Set(facts.map(({ code }) => code));
    };
    this.#heldOut ??= read();
    this.#heldOut.catch(() => (this.#heldOut = null));
    return this.#heldOut;
  }
}

/** The part of a list that a step plays; after the end of the list it starts again at the beginning. */
function sliceOf<T>(items: readonly T[], step: number, count: number): T[] {
  if (items.length === 0) return [];
  return Array.from({ length: Math.min(count, items.length) }, (_, i) => items[((step - 1) * count + i) % items.length]!);
}
