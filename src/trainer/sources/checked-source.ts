/**
 * A source of an environment or of a user's module, which no compiler has checked. A missing method, a wrong request or a wrong result ends the run with one line
 * that names the module. Without this, a source that has no `saveState` trains to the end, and no checkpoint of it can be written.
 */
import { suggestion } from '../../core/closest-name.ts';
import { repeatedIdText, rowProblem } from '../../core/dataset.ts';
import { CancelledError, ConfigError, ownCodeText, RewardError, VfError } from '../../core/errors.ts';
import { isObject } from '../../schemas/is-object.ts';
import { moduleFault } from '../../core/module-fault.ts';
import { SOURCE_PREFIX, STEP_METRICS } from '../records/metrics.ts';
import { isSourceFileName } from '../records/source-files.ts';
import { isPhaseName } from '../records/rollout-files.ts';
import { assertRoleHasValues } from '../losses/loss-roles.ts';
import type { PlayedRoles } from '../token-loss.ts';
import { POLICY_ROLE, type Trajectory } from '../trajectory.ts';
import type { CreateSource, PhasePlan, SourceContext, TrajectoryBatch, TrajectorySource } from '../trajectory-source.ts';

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

/**
 * @param module the name that the user gave: a path, or the environment's id
 * @param roles those that the module says its source plays; null if it does not say
 */
export function checkedSource(createSource: CreateSource, module: string, roles: PlayedRoles | null = null): CreateSource {
  return (context) => {
    const played = new PlayedPhases(module);
    const owed = new OwedRewards();
    const play: SourceContext['play'] = async (plan, signal) => {
      checkPlan(plan, module);
      checkRole(plan, module, { roles, config: context.config });
      played.add(plan);
      const batch = await context.play(plan, signal);
      owed.add(plan, batch);
      return batch;
    };
    const source = checkedMethods(created(createSource, { ...context, play }, module), module);
    return {
      async take(step, signal) {
        played.begin(step);
        const batch = await own(`take(${step})`, module, () => source.take(step, signal), signal);
        played.end(step);
        checkBatch(batch, step, module);
        for (const { paid, phase } of owed.paidIn(batch)) await context.store.pay(paid, step, phase);
        return batch;
      },
      needsPolicy: (step) => checkedNeed(() => source.needsPolicy(step), step, module),
      saveState: (directory) => own('saveState', module, () => source.saveState(directory)),
      loadState: (directory) => own('loadState', module, () => source.loadState(directory)),
      ...(source.close === undefined ? {} : { close: () => own('close', module, async () => source.close?.()) }),
    };
  };
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
    return await run();
  } catch (cause) {
    // `withReward` was given a value that is not a number: an error of the source, too.
    if (cause instanceof RewardError) throw moduleFault(`${method} of the source ${module} failed: ${cause.message}`, module, cause);
    if (cause instanceof VfError) throw cause;
    if (signal?.aborted === true) throw new CancelledError(`Stopped in ${method} of the source ${module}`, { cause });
    throw moduleFault(`${method} of the source ${module} failed: ${ownCodeText(cause)}`, module, cause);
  }
}

/** The rollouts that a source pays later, by their tokens, which stay the same however the source copies and renames them. */
class OwedRewards {
  readonly #phases = new WeakMap<Int32Array, { readonly phase: string | undefined; readonly recorded: Trajectory }>();

  /** A source pays in the step that plays. */
  add({ phase, isPaidLater }: PhasePlan, { trajectories }: TrajectoryBatch): void {
    if (isPaidLater === true) for (const recorded of trajectories) this.#phases.set(recorded.ids, { phase, recorded });
  }

  /** Those that have a reward now, by phase, under their recorded names. */
  paidIn({ trajectories, discarded = [] }: TrajectoryBatch): { readonly phase: string | undefined; readonly paid: readonly Trajectory[] }[] {
    const paid = [...trajectories, ...discarded].flatMap(({ ids, reward, metrics }) => {
      const owed = this.#phases.get(ids);
      return owed === undefined || reward === null ? [] : [{ phase: owed.phase, paid: { ...owed.recorded, reward, metrics } }];
    });
    return [...Map.groupBy(paid, ({ phase }) => phase)].map(([phase, members]) => ({ phase, paid: members.map((each) => each.paid) }));
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

function checkBatch(batch: TrajectoryBatch, step: number, module: string): void {
  const problem = isObject(batch) ? batchProblem(batch) : 'it must be { trajectories }';
  if (problem !== null) throw moduleFault(`take(${step}) of the source ${module} returned a wrong batch: ${problem}`, module);
}

function batchProblem(batch: TrajectoryBatch): string | null {
  const { trajectories, discarded = [], attempts = 0, values = {} } = batch;
  for (const [name, list] of Object.entries({ trajectories, discarded })) {
    if (!Array.isArray(list)) return `${name} must be a list of trajectories, as play returns them`;
    const wrong = list.findIndex((each) => trajectoryProblem(each) !== null);
    if (wrong >= 0) return `${name}[${wrong}] is not a trajectory as play returns it: ${trajectoryProblem(list[wrong])}`;
    const unscored = list.find(({ reward }) => reward !== null && !Number.isFinite(reward));
    if (unscored !== undefined)
      return `the reward of ${unscored.rolloutId} must be a finite number, or null for a failed rollout; got ${JSON.stringify(unscored.reward)}`;
  }
  const owed = trajectories.find(({ isUnpaid }) => isUnpaid === true);
  if (owed !== undefined)
    return `${owed.rolloutId} has no reward yet; give it one with withReward(trajectory, reward), or return it among discarded instead`;
  const twice = repeated([...trajectories, ...discarded]);
  if (twice !== undefined) return `it has the trajectory ${twice.rolloutId} twice`;
  // A copy with another reward or group has the same tokens.
  const trained = new Set(trajectories.map(({ ids }) => ids));
  const both = discarded.find(({ ids }) => trained.has(ids));
  if (both !== undefined) return `it has ${both.rolloutId} among trajectories and again among discarded`;
  if (!isObject(values)) return `values must be an object of metrics, got ${JSON.stringify(values)}`;
  if (!Number.isInteger(attempts) || attempts < 0) return `attempts must be a whole number, got ${JSON.stringify(attempts)}`;
  for (const [name, value] of Object.entries(values)) {
    if (!name.startsWith(SOURCE_PREFIX) && !STEP_METRICS.some((metric) => metric.name === name))
      return `the value "${name}" must be called "${SOURCE_PREFIX}${name}"`;
    if (value !== null && typeof value !== 'number') return `the value "${name}" must be a number or null, got ${JSON.stringify(value)}`;
  }
  return textProblem(batch);
}

/** Describes a fault in the notes and rows for people to read; null if there is none. */
function textProblem({ notes = [], records = {} }: TrajectoryBatch): string | null {
  if (!Array.isArray(notes) || notes.some((note) => typeof note !== 'string')) return 'notes must be a list of strings';
  if (!isObject(records)) return 'records must be an object of lists of rows, such as { programs: [{ code }] }';
  for (const [name, rows] of Object.entries(records)) {
    if (!isSourceFileName(name)) return `the name ${JSON.stringify(name)} in records is that of a file; use letters, digits and dashes`;
    if (!Array.isArray(rows)) return `records.${name} must be a list of rows`;
    const wrong = rows.findIndex((row) => !isObject(row) || 'step' in row);
    if (wrong >= 0) return `records.${name}[${wrong}] must be an object without a key "step", which the run adds`;
  }
  return null;
}

function repeated<T>(items: readonly T[]): T | undefined {
  const seen = new Set<T>();
  return items.find((item) => seen.has(item) || !seen.add(item));
}

/** Finds mistakes that would otherwise train on the wrong tokens, or compare the wrong rollouts, without an error. */
function trajectoryProblem(each: Trajectory): string | null {
  if (!isObject(each)) return `got ${JSON.stringify(each)}`;
  const { ids, targets, logProbs, weights, versions } = each;
  const nameless = (['rolloutId', 'groupId', 'role'] as const).find((name) => typeof each[name] !== 'string');
  if (nameless !== undefined) return `${nameless} must be a string, got ${JSON.stringify(each[nameless])}`;
  if (!Number.isInteger(each.index)) return `index must be a whole number, got ${JSON.stringify(each.index)}`;
  if (!(ids instanceof Int32Array) || !(targets instanceof Int32Array)) return 'ids and targets must be an Int32Array each';
  const outside = targets.findIndex((target, i) => target < 1 || target >= ids.length || (i > 0 && target <= targets[i - 1]!));
  if (outside >= 0)
    return `targets must be ascending positions from 1 to ${ids.length - 1}, the last of its ids; targets[${outside}] is ${targets[outside]}`;
  for (const [name, values] of Object.entries({ logProbs, weights, versions })) {
    if (values === null || values === undefined || values.length === targets.length) continue;
    return `${name} must have one value for each of its ${targets.length} targets, got ${values.length}`;
  }
  const turns = each.turnTokens?.reduce((sum, tokens) => sum + tokens, 0) ?? targets.length;
  if (turns !== targets.length) return `turnTokens must sum to its ${targets.length} targets, got ${turns}`;
  return null;
}
