/** Runs a planned pipeline: one call after another, over all questions, over the questions of a branch, or over those that have not failed. */
import { throwIfAborted } from '../core/abort.ts';
import type { AgentPolicy } from '../core/environment.ts';
import { CancelledError, thrownText, VfError } from '../core/errors.ts';
import { isObject } from '../schemas/is-object.ts';
import { kindOf } from '../schemas/kind-of.ts';
import type { CallJournal, FailedItems, RecordedCall } from './call-journal.ts';
import { checkArguments, checkReply } from './check-call.ts';
import { PipelineError } from './pipeline-error.ts';
import type { PipelinePlan, PlannedBranch, PlannedCall, PlannedLoop, PlannedOutput, PlannedStep } from './pipeline-plan.ts';
import type { CallContext, PipelineTool, Values } from './pipeline-server.ts';
import { RunBounds } from './run-bounds.ts';
import { type Items, unequal, VariablePool } from './variable-pool.ts';

export interface RunOptions {
  /** Parameters by server; a tool may change them. */
  readonly parameters: ReadonlyMap<string, Values>;
  /** Holds the calls of an earlier process, and records those of this one. */
  readonly journal: CallJournal;
  readonly resolve: (path: string) => string;
  readonly signal: AbortSignal;
  /** Replies used instead of a tool's own, by `server.tool`. @default none */
  readonly given?: ReadonlyMap<string, Values>;
  /** The policy that each server asks, by its name. @default none: no tool may ask it */
  readonly policies?: ReadonlyMap<string, AgentPolicy>;
  /** Called after every call. @default does nothing */
  readonly onCall?: (call: FinishedCall) => void;
}

export interface FinishedCall {
  /** From 1 up. */
  readonly number: number;
  /** `server.tool`. */
  readonly name: string;
  readonly place: string;
  /** The questions that took part; null if the call was not about questions one by one. */
  readonly questions: number | null;
  /** True if its reply was on file. */
  readonly isRecorded: boolean;
  readonly arguments: Values;
  readonly reply: Values;
}

interface AskedCall extends RecordedCall {
  /** Records it; missing if it is recorded. */
  readonly end?: () => void;
}

export interface PipelineResult {
  /** The variables at the end; lists of questions have null for one that failed before they were written. */
  readonly variables: Readonly<Record<string, unknown>>;
  /** Null if the pipeline never treated its lists as questions. */
  readonly questions: number | null;
  /** The reason why each failed question failed, by its number from 0 up. */
  readonly failed: ReadonlyMap<number, string>;
  readonly calls: number;
  /** The routers of loops that gave no question a state that ends it, through all rounds. */
  readonly unstopped: readonly UnstoppedLoop[];
}

interface UnstoppedLoop {
  readonly router: string;
  readonly place: string;
  /** The state that ends a question's loop. */
  readonly state: string;
  readonly rounds: number;
}

/** Throws PipelineError, or the error of the call that failed; the journal keeps all calls before it. */
export async function runPipeline(plan: PipelinePlan, options: RunOptions): Promise<PipelineResult> {
  const run = new Run(plan, options);
  await run.steps(plan.steps, null);
  return run.result();
}

class Run {
  readonly #options: RunOptions;
  readonly #pool: VariablePool;
  readonly #parameters: Map<string, Record<string, unknown>>;
  readonly #failed = new Map<number, string>();
  /** Rounds of a loop through its branch; null once the branch has ended the loop of a question. */
  readonly #rounds = new Map<PlannedBranch, number | null>();
  #calls = 0;
  readonly #bounds = new RunBounds();

  constructor(plan: PipelinePlan, options: RunOptions) {
    this.#options = options;
    this.#pool = new VariablePool(plan.histories);
    this.#parameters = new Map([...options.parameters].map(([server, values]) => [server, { ...values }]));
  }

  result(): PipelineResult {
    const unstopped = [...this.#rounds].flatMap(([{ place, router, branches }, rounds]) =>
      rounds === null ? [] : endingStates(branches).map((state) => ({ router: router.at(-1)!.name, place, state, rounds })),
    );
    return { variables: this.#pool.values(), questions: this.#pool.itemCount, failed: this.#failed, calls: this.#calls, unstopped };
  }

  /** Returns whether a tool ran that is not a router. */
  async steps(steps: readonly PlannedStep[], items: Items): Promise<boolean> {
    let hasRun = false;
    for (const step of steps) {
      await this.#bounds.turn();
      throwIfAborted(this.#options.signal, 'The pipeline was stopped');
      hasRun = (await this.#step(step, items)) || hasRun;
    }
    return hasRun;
  }

  async #step(step: PlannedStep, items: Items): Promise<boolean> {
    if (step.kind === 'loop') return this.#loop(step, items);
    if (this.#pool.active(items)?.length === 0) return false;
    if (step.kind === 'branch') return this.#branch(step, items);
    await this.#call(step, items, (reply, active) => this.#write(step, reply, active, items !== null));
    return true;
  }

  async #loop({ times, steps }: PlannedLoop, items: Items): Promise<boolean> {
    let hasRun = false;
    for (let round = 0; round < times; round++) {
      if (!(await this.steps(steps, items))) break;
      hasRun = true;
      if (times > 1) for (const step of steps) if (step.kind === 'branch' && this.#rounds.get(step) !== null) this.#rounds.set(step, round + 1);
    }
    return hasRun;
  }

  async #branch(branch: PlannedBranch, items: Items): Promise<boolean> {
    const { place, router, branches } = branch;
    let states: readonly string[] = [];
    let active: Items = items;
    for (const step of router) {
      await this.#call(step, items, (reply, among) => {
        states = this.#route(step, reply, among);
        active = this.#pool.active(items);
      });
    }
    const routed = active ?? states.map((_, i) => i);
    const stranger = states.find((state) => !branches.has(state));
    if (stranger !== undefined) {
      const known = [...branches.keys()].join(', ');
      throw new PipelineError(`The router of step ${place} gave the state ${JSON.stringify(stranger)}, which has no branch; there are ${known}`, {
        failure: 'state',
      });
    }
    if (endingStates(branches).some((state) => states.includes(state))) this.#rounds.set(branch, null);
    let hasRun = false;
    for (const [state, steps] of branches) {
      const members = routed.filter((_, i) => states[i] === state);
      if (members.length === 0) continue;
      hasRun = (await this.steps(steps, members)) || hasRun;
    }
    return hasRun;
  }

  /** Writes a router's reply without its states, and returns the state of each question. */
  #route({ name, outputs }: PlannedCall, reply: Values, items: Items): readonly string[] {
    let states: readonly string[] | null = null;
    for (const output of outputs) {
      const value = replied(name, reply, output);
      if (!Array.isArray(value) || !value.every(isRouted)) {
        throw new PipelineError(`The router ${name} must give a list of {data, state} as ${output.key}, got ${routedKind(value)}`, {
          failure: 'state',
        });
      }
      if (items === null) this.#pool.count(value.length, name);
      else if (value.length !== items.length) throw unequal(name, value.length, items.length);
      const given = value.map(({ state }) => state);
      if (states !== null && given.some((state, i) => state !== states![i])) {
        throw new PipelineError(`The router ${name} gave a question two states at once, as ${output.key} and as another output`, {
          failure: 'state',
        });
      }
      states = given;
      this.#pool.write(
        output.name,
        value.map(({ data }) => data),
        items,
      );
    }
    return states ?? [];
  }

  #write({ name, server, outputs, tool }: PlannedCall, reply: Values, items: Items, isBranch: boolean): void {
    for (const output of outputs) {
      const value = replied(name, reply, output);
      if (output.to === 'parameter') {
        this.#parameters.set(server, { ...this.#parameters.get(server), [output.name]: value });
        continue;
      }
      const belongs = isBranch || tool.isPerItem === true;
      if (belongs && items !== null && Array.isArray(value) && value.length !== items.length) throw unequal(name, value.length, items.length);
      this.#pool.write(output.name, value, items);
    }
  }

  async #call(call: PlannedCall, items: Items, take: (reply: Values, active: Items) => void): Promise<void> {
    const { journal, onCall, given } = this.#options;
    const { tool, name, place, outputs } = call;
    const active = tool.takesFailed === true && items === null ? null : this.#pool.active(items);
    const args = this.#arguments(call, active);
    checkArguments(call, args);
    const number = ++this.#calls;
    this.#bounds.assertCall(number);
    const standIn = given?.get(name);
    const recorded = standIn === undefined ? journal.recorded(number, name, place) : { reply: standIn, failures: {} };
    const asked: AskedCall = recorded ?? (await this.#ask(tool, { name, place, number, items: active }, args));
    const { reply, failures } = asked;
    checkReply(call, args, reply);
    this.#fail(failures, { active, reply, outputs, name });
    this.#assertSomeLeft(name, place);
    asked.end?.();
    take(reply, active);
    onCall?.({ number, name, place, questions: active?.length ?? this.#pool.itemCount, isRecorded: recorded !== null, arguments: args, reply });
  }

  /** Called before the call is recorded, so that a later process asks again. */
  #assertSomeLeft(name: string, place: string): void {
    const { failed, itemCount } = this.#pool;
    if (itemCount !== null && itemCount > 0 && failed.size === itemCount) {
      const all = itemCount === 1 ? 'The question' : `All ${itemCount} questions`;
      throw new PipelineError(`${all} failed in ${name} (step ${place}): ${this.#failed.get([...failed][0]!)!}`, {
        failure: 'failed',
      });
    }
  }

  async #ask(tool: PipelineTool, about: { name: string; place: string; number: number; items: Items }, args: Values) {
    const { journal, resolve, signal, policies } = this.#options;
    const server = about.name.split('.')[0]!;
    const policy = policies?.get(server);
    const failures: Record<string, string> = {};
    const partial = journal.begin(about);
    const context: CallContext = {
      parameters: this.#parameters.get(server) ?? {},
      ...(policy && { policy }),
      resolve,
      signal,
      recall: (position) => partial.recall(position),
      record: (position, reply) => partial.record(position, reply),
      fail: (position, error) => (failures[position] = thrownText(error)),
    };
    let reply: Values;
    try {
      reply = await tool.run(args, context);
    } catch (cause) {
      if (cause instanceof VfError) throw cause;
      if (signal.aborted) throw new CancelledError('The pipeline was stopped', { cause });
      throw new PipelineError(`${about.name} (step ${about.place}) failed: ${thrownText(cause)}`, { failure: 'failed', cause });
    }
    if (!isObject(reply)) throw new PipelineError(`${about.name} must give an object with its outputs, got ${kindOf(reply)}`, { failure: 'output' });
    return { reply, failures, end: () => partial.end(reply, failures) };
  }

  #arguments({ inputs, server }: PlannedCall, active: Items): Values {
    const parameters = this.#parameters.get(server) ?? {};
    const values = inputs.map(({ argument, from, name }) => {
      if (from === 'parameter') return [argument, parameters[name]] as const;
      return [argument, from === 'history' ? this.#pool.history(name, active) : this.#pool.read(name, active)] as const;
    });
    return Object.fromEntries(values);
  }

  #fail(
    failures: FailedItems,
    { active, reply, outputs, name }: { active: Items; reply: Values; outputs: readonly PlannedOutput[]; name: string },
  ): void {
    const positions = Object.entries(failures);
    if (positions.length === 0) return;
    if (active === null) {
      const list = outputs.map(({ key }) => reply[key]).find(Array.isArray);
      this.#pool.count(list?.length ?? 0, name);
    }
    for (const [position, reason] of positions) {
      const item = active === null ? Number(position) : active[Number(position)]!;
      this.#pool.fail(item);
      this.#failed.set(item, `${name}: ${reason}`);
    }
  }
}

/** The states whose branch has no steps. */
export function endingStates(branches: PlannedBranch['branches']): readonly string[] {
  return [...branches].flatMap(([state, steps]) => (steps.length === 0 ? [state] : []));
}

function replied(name: string, reply: Values, { key }: PlannedOutput): unknown {
  if (Object.hasOwn(reply, key) && reply[key] !== undefined) return reply[key];
  const given = Object.keys(reply).join(', ') || 'nothing';
  throw new PipelineError(`${name} did not give ${key}; it gave ${given}`, { failure: 'output' });
}

function routedKind(value: unknown): string {
  const stranger: unknown = Array.isArray(value) ? value.find((each) => !isRouted(each)) : undefined;
  return stranger === undefined ? kindOf(value) : `a list with ${kindOf(stranger)}`;
}

function isRouted(value: unknown): value is { readonly data: unknown; readonly state: string } {
  return isObject(value) && 'data' in value && typeof value['state'] === 'string';
}
