/**
 * A source of an environment or of a user's module, which no compiler has checked. A missing method, a wrong request or a wrong result ends the run with one line
 * that names the module. Without this, a source that has no `saveState` trains to the end, and no checkpoint of it can be written.
 */
import { suggestion } from '../../core/closest-name.ts';
import { onAbort } from '../../core/abort.ts';
import { repeatedIdText, rowProblem } from '../../core/dataset.ts';
import { CancelledError, ConfigError, RewardError, VfError } from '../../core/errors.ts';
import { ownCodeText } from '../../core/thrown-place.ts';
import { isObject } from '../../schemas/is-object.ts';
import { moduleFault, stoppingFault } from '../../core/module-fault.ts';
import { checkedState } from '../credit/checked-state.ts';
import { isPhaseName } from '../records/rollout-files.ts';
import { assertRoleHasValues } from '../losses/loss-roles.ts';
import type { PlayedRoles } from '../token-loss.ts';
import { POLICY_ROLE } from '../trajectory.ts';
import type { CreateSource, PhasePlan, SourceContext, TrajectorySource } from '../trajectory-source.ts';
import { batchProblem } from './batch-problem.ts';
import { PlayedRollouts } from './played-rollouts.ts';

const METHODS = ['take', 'needsPolicy', 'saveState', 'loadState'] as const satisfies readonly (keyof TrajectorySource)[];
const PLAN_KEYS: readonly string[] = [
  'step',
  'phase',
  'role',
  'rows',
  'rolloutsPerExample',
  'isPaidLater',
  'environment',
] satisfies readonly (keyof PhasePlan)[];

interface CheckedSourceOptions {
  /** Those that the module says its source plays. @default null: it does not say */
  readonly roles?: PlayedRoles | null;
  /** Of the trained model. @default null: unknown */
  readonly vocabularySize?: number | null;
}

/**
 * @param module the name that the user gave: a path, or the environment's id
 */
export function checkedSource(
  createSource: CreateSource,
  module: string,
  { roles = null, vocabularySize = null }: CheckedSourceOptions = {},
): CreateSource {
  return (context) => {
    const played = new PlayedPhases(module);
    const rollouts = new PlayedRollouts(vocabularySize);
    const play: SourceContext['play'] = async (plan, signal) => {
      checkPlan(plan, module);
      checkRole(plan, module, { roles, config: context.config });
      played.add(plan);
      const batch = await context.play(plan, signal);
      rollouts.add(plan, batch.trajectories);
      return batch;
    };
    const source = checkedMethods(created(createSource, { ...context, play }, module), module);
    return {
      async take(step, signal) {
        played.begin(step);
        rollouts.begin(step);
        const batch = await own(`take(${step})`, module, () => source.take(step, signal), signal);
        played.end(step);
        const wrong = (problem: string) => moduleFault(`take(${step}) of the source ${module} returned a wrong batch: ${problem}`, module);
        const problem = batchProblem(batch);
        if (problem !== null) throw wrong(problem);
        const account = rollouts.account(batch, step);
        if ('problem' in account) throw wrong(account.problem);
        for (const { paid, phase } of account.phases) await context.store.pay(paid, step, phase);
        return { ...batch, played: account.played, notes: [...(batch.notes ?? []), ...leftOutNotes(account)] };
      },
      needsPolicy: (step) => checkedNeed(() => source.needsPolicy(step), step, module),
      ...checkedState(source, { owner: 'source', module, limits: context.config.rollouts }),
      ...(source.close === undefined ? {} : { close: () => own('close', module, async () => source.close?.()) }),
    };
  };
}

function leftOutNotes({ leftOut, total }: { readonly leftOut: number; readonly total: number }): string[] {
  return leftOut === 0
    ? []
    : [
        `The source returned ${leftOut} of the ${total} rollouts that it played neither among trajectories nor among discarded. They are not trained on; the figures of the step count them.`,
      ];
}

function created(createSource: CreateSource, context: SourceContext, module: string): TrajectorySource {
  try {
    return createSource(context);
  } catch (cause) {
    if (cause instanceof VfError) throw cause;
    throw new ConfigError(`createSource of ${module} failed: ${ownCodeText(cause)}`, { cause });
  }
}

function checkedMethods(source: TrajectorySource | null | undefined, module: string): TrajectorySource {
  if (source instanceof Promise) throw new ConfigError(`createSource of ${module} must not be async: it must return the source itself`);
  const missing = METHODS.filter((name) => typeof source?.[name] !== 'function');
  if (source && missing.length === 0) return source;
  throw new ConfigError(
    `createSource of ${module} must return { take(step, signal), needsPolicy(step), saveState(directory), loadState(directory) }; ${missing.join(', ')} ${missing.length === 1 ? 'is' : 'are'} missing. A source without a state has an empty saveState and loadState`,
  );
}

function checkedNeed(ask: () => unknown, step: number, module: string): boolean {
  const what = `needsPolicy(${step}) of the source ${module}`;
  let answer: unknown;
  try {
    answer = ask();
  } catch (cause) {
    if (cause instanceof VfError) throw cause;
    throw moduleFault(`${what} failed: ${ownCodeText(cause)}`, module, cause);
  }
  if (typeof answer === 'boolean') return answer;
  throw moduleFault(`${what} must return true or false, got ${JSON.stringify(answer)}`, module);
}

/** Runs a method of the source; an error of its own code names the module and the line that threw. */
async function own<T>(method: string, module: string, run: () => Promise<T>, signal?: AbortSignal): Promise<T> {
  try {
    return await untilStuck(run(), signal);
  } catch (cause) {
    // `withReward` was given a value that is not a number: an error of the source, too.
    if (cause instanceof RewardError) throw moduleFault(`${method} of the source ${module} failed: ${cause.message}`, module, cause);
    if (cause instanceof VfError) throw cause;
    if (signal?.aborted === true) throw new CancelledError(`Stopped in ${method} of the source ${module}`, { cause });
    throw moduleFault(`${method} of the source ${module} failed: ${ownCodeText(cause)}`, module, cause);
  }
}

const STUCK_MS = 2000;

/** As the work, unless the run stopped for an error that nothing caught: what the source waits for may then never come. */
async function untilStuck<T>(work: Promise<T>, signal = new AbortController().signal): Promise<T> {
  const stuck = Promise.withResolvers<never>();
  let timer: NodeJS.Timeout | undefined;
  using _ = onAbort(signal, () => {
    if (stoppingFault(signal) !== null) timer = setTimeout(() => stuck.reject(signal.reason), STUCK_MS);
  });
  try {
    return await Promise.race([work, stuck.promise]);
  } finally {
    clearTimeout(timer);
  }
}

/** The phases of the steps that are being taken: a second one of the same name would overwrite the rollouts of the first, and a resume would play it again. */
class PlayedPhases {
  readonly #module: string;
  readonly #byStep = new Map<number, Set<string | undefined>>();

  constructor(module: string) {
    this.#module = module;
  }

  add({ step, phase }: PhasePlan): void {
    const phases = this.#byStep.get(step);
    if (phases === undefined) {
      const taken = [...this.#byStep.keys()].join(' or ') || 'none now';
      throw moduleFault(
        `The source ${this.#module} called play wrongly: step must be the one that take was called for (${taken}), got ${step}`,
        this.#module,
      );
    }
    if (phases.has(phase))
      throw moduleFault(
        `The source ${this.#module} played ${phase === undefined ? 'a phase without a name' : `the phase "${phase}"`} twice in step ${step}; give each phase of a step a name of its own`,
        this.#module,
      );
    phases.add(phase);
  }

  begin(step: number): void {
    this.#byStep.set(step, new Set());
  }

  end(step: number): void {
    this.#byStep.delete(step);
  }
}

function checkPlan(plan: PhasePlan, module: string): void {
  const problem = isObject(plan) ? planProblem(plan) : 'the plan must be { step, phase, rows }';
  if (problem !== null) throw moduleFault(`The source ${module} called play wrongly: ${problem}`, module);
}

/** Before the phase is sampled: a loss without a value for the role could not train on it. */
function checkRole({ role, rows }: PhasePlan, module: string, { roles, config }: RunRoles): void {
  for (const each of role === undefined ? new Set(rows.map((row) => row.role ?? POLICY_ROLE)) : [role]) {
    if (roles === null) assertRoleHasValues(config, each);
    else if (!Object.hasOwn(roles, each))
      throw moduleFault(
        `The source ${module} played the role ${JSON.stringify(each)}, but its playedRoles has only ${Object.keys(roles).join(', ')}; add it there`,
        module,
      );
  }
}

interface RunRoles extends Pick<SourceContext, 'config'> {
  readonly roles: PlayedRoles | null;
}

function planProblem(plan: PhasePlan): string | null {
  const { step, phase, role = POLICY_ROLE, rows, rolloutsPerExample: members = 1, isPaidLater = false } = plan;
  const unknown = Object.keys(plan).find((key) => !PLAN_KEYS.includes(key));
  if (unknown !== undefined) return `it has no option ${unknown}${suggestion(unknown, PLAN_KEYS)}; its options are ${PLAN_KEYS.join(', ')}`;
  if (!Number.isInteger(step) || step < 1) return `step must be the one that take was called for, got ${JSON.stringify(step)}`;
  if (phase !== undefined && !isPhaseName(phase))
    return `the phase ${JSON.stringify(phase)} is part of a file name; use letters, digits and dashes, and not "asked"`;
  if (typeof role !== 'string' || role === '') return `the role must be a name, got ${JSON.stringify(role)}`;
  if (!Number.isInteger(members) || members < 1) return `rolloutsPerExample must be a whole number of at least 1, got ${JSON.stringify(members)}`;
  if (typeof isPaidLater !== 'boolean') return `isPaidLater must be true or false, got ${JSON.stringify(isPaidLater)}`;
  if (!Array.isArray(rows)) return 'rows must be a list of rows, such as environment.train.at(0)';
  const wrong = rows.findIndex((row) => rowProblem(row) !== null);
  if (wrong >= 0) return `rows[${wrong}] must be a row, such as environment.train.at(0): ${rowProblem(rows[wrong])}`;
  const twice = repeatedIdText(rows);
  return twice === null ? null : `${twice}; rolloutsPerExample says how often a row is played`;
}
