/**
 * A credit of an environment or a user's module, which no compiler has checked. A missing part, a wrong result or an error of its own becomes one line that names the
 * module, the rollout and the shape that is wanted: an advantage at the wrong rollout would train without an error.
 */
import { namesIn } from '../../files/if-there.ts';
import { ConfigError, RewardError, VfError } from '../../core/errors.ts';
import { ownCodeText } from '../../core/thrown-place.ts';
import { unknownKeyProblem } from '../../core/option-spelling.ts';
import { isObject } from '../../schemas/is-object.ts';
import type { TrainingConfig } from '../../schemas/training-config.ts';
import { assertNotAsync, moduleFault } from '../../core/module-fault.ts';
import {
  type Advantage,
  type CheckedAssignment,
  type Credit,
  type CreditAssignment,
  type CreditBatch,
  type CreditFactory,
  CREDIT_PREFIX,
  MEASURED_CREDIT,
  type CreditRollout,
} from '../credit.ts';
import { checkedState } from './checked-state.ts';
import { valuesOf, withConstantGroups } from './constant-groups.ts';

/** @param module the name that the user gave, with its key: `./my-credit.ts (algorithm.advantage.use)` */
export function checkedCredit(createCredit: CreditFactory, config: TrainingConfig, module: string): Credit {
  const { kl, advantage, constantGroups } = config.algorithm;
  const credit = checkedMethods(created(createCredit, config, module), module);
  if (kl.coefficient > 0 && kl.placement === 'reward' && credit.needs?.penalties !== true)
    throw new ConfigError(
      `algorithm.kl.placement must be "loss" with the credit ${module}, which does not subtract a penalty from the reward (needs: { penalties: true }); got "reward"`,
    );
  return {
    ...(credit.needs === undefined ? {} : { needs: credit.needs }),
    assign(batch) {
      if (batch.groups.length === 0) return { advantages: [] };
      const given = frozen(batch);
      const assigned = ownCode(() => credit.assign(given), module);
      assertNotAsync(assigned, { method: 'assign of the credit', module, shape: '{ advantages }' });
      const problem = isObject(assigned) ? assignmentProblem(assigned, batch) : 'it must be { advantages }';
      if (problem !== null) throw moduleFault(`assign of the credit ${module} returned a wrong value in step ${batch.step}: ${problem}`, module);
      const { constantReason = `the credit ${advantage.use} gave every rollout 0, or left it out` } = assigned;
      const isOwnReason = assigned.constantReason !== undefined;
      const checked: CheckedAssignment = { ...withConstantGroups({ ...assigned, constantReason }, batch, constantGroups), isOwnReason };
      return checked;
    },
    ...(credit.saveState === undefined || credit.loadState === undefined
      ? {}
      : stateOf(credit as StatefulCredit, { module, limits: config.rollouts })),
  };
}

type StatefulCredit = Required<Pick<Credit, 'saveState' | 'loadState'>>;

function stateOf(credit: StatefulCredit, own: { readonly module: string; readonly limits: TrainingConfig['rollouts'] }): StatefulCredit {
  const state = checkedState(credit, { owner: 'credit', ...own });
  return {
    saveState: (directory) => state.saveState(directory),
    async loadState(directory) {
      // A checkpoint of a run that had another credit then has no files of this one.
      if ((await namesIn(directory)).length > 0) await state.loadState(directory);
    },
  };
}

function created(createCredit: CreditFactory, config: TrainingConfig, module: string): Credit {
  try {
    return createCredit(config.algorithm.advantage.args, { config });
  } catch (cause) {
    if (cause instanceof VfError) throw cause;
    throw new ConfigError(`createCredit of ${module} failed: ${ownCodeText(cause)}`, { cause });
  }
}

const METHODS = ['assign', 'saveState', 'loadState'] as const;
const NEEDS: readonly string[] = ['penalties', 'kinds'] satisfies readonly (keyof NonNullable<Credit['needs']>)[];
const SHAPE = '{ assign(batch) }, and saveState(directory) and loadState(directory) if it has a state';

function checkedMethods(credit: Credit | null | undefined, module: string): Credit {
  if (credit instanceof Promise) throw new ConfigError(`createCredit of ${module} must not be async: it must return ${SHAPE}`);
  const has = (method: 'assign' | 'saveState' | 'loadState') => credit?.[method] !== undefined;
  if (!credit || !has('assign') || METHODS.some((method) => has(method) && typeof credit[method] !== 'function'))
    throw new ConfigError(`createCredit of ${module} must return ${SHAPE}`);
  if (has('saveState') !== has('loadState'))
    throw new ConfigError(
      `createCredit of ${module} returns ${has('saveState') ? 'saveState without loadState' : 'loadState without saveState'}. A credit with a state needs both, so that a resumed run continues with it`,
    );
  const { needs } = credit;
  if (needs !== undefined && (!isObject(needs) || Object.entries(needs).some(([name, need]) => !NEEDS.includes(name) || typeof need !== 'boolean')))
    throw new ConfigError(`needs of the credit ${module} may have penalties and kinds, each true or false; got ${shown(needs)}`);
  return credit;
}

/** What V8 says of a change to a frozen list or object. */
const FROZEN = /read only|not extensible|Cannot (?:add|delete) property/;

/** The same batch; lists and objects that others read too cannot be changed: advantages are given back by place, and rewards are on file as they were. */
function frozen(batch: CreditBatch): CreditBatch {
  for (const { trajectory, turns, branches } of batch.groups.flat()) {
    Object.freeze(trajectory);
    Object.freeze(trajectory.metrics);
    Object.freeze(turns);
    turns.forEach(Object.freeze);
    Object.freeze(branches);
    branches.forEach(Object.freeze);
  }
  for (const group of batch.groups) Object.freeze(group).forEach(Object.freeze);
  Object.freeze(batch.groups);
  return Object.freeze(batch);
}

function ownCode<T>(run: () => T, module: string): T {
  try {
    return run();
  } catch (cause) {
    throw ownFault(cause, module);
  }
}

function ownFault(cause: unknown, module: string): VfError {
  const what = `assign of the credit ${module}`;
  // `groupAdvantages` was given a value that is not a number: an error of the credit, too.
  if (cause instanceof RewardError) return moduleFault(`${what} failed: ${cause.message}`, module, cause);
  if (cause instanceof VfError) return cause;
  const advice =
    cause instanceof TypeError && FROZEN.test(cause.message)
      ? '. A batch must stay as it is: change a copy, such as [...group] or group.toSorted()'
      : '';
  return moduleFault(`${what} failed: ${ownCodeText(cause)}${advice}`, module, cause);
}

const ASSIGNED = ['advantages', 'values', 'constantReason'] as const satisfies readonly (keyof CreditAssignment)[];

function assignmentProblem(assigned: CreditAssignment, { groups }: CreditBatch): string | null {
  const { advantages, values = {}, constantReason = '' } = assigned;
  const unknown = unknownKeyProblem(assigned, ASSIGNED);
  if (unknown !== null) return `it has ${unknown}`;
  if (!Array.isArray(advantages)) return `advantages must be a list with a list for each of the ${groups.length} groups, got ${shown(advantages)}`;
  if (advantages.length !== groups.length) return `advantages must have a list for each of the ${groups.length} groups, got ${advantages.length}`;
  for (const [g, members] of groups.entries()) {
    const given: unknown = advantages[g];
    const place = `advantages[${g}], of the row ${members[0]!.trajectory.groupId},`;
    if (!Array.isArray(given)) return `${place} must be a list with one entry for each of its ${members.length} rollouts, got ${shown(given)}`;
    if (given.length !== members.length) return `${place} must have one entry for each of its ${members.length} rollouts, got ${given.length}`;
    for (const [i, member] of members.entries()) {
      const problem = advantageProblem(given[i], member);
      if (problem !== null) return `advantages[${g}][${i}], of the rollout ${member.trajectory.rolloutId}, ${problem}`;
    }
  }
  if (!isObject(values)) return 'values must be an object of metrics';
  for (const [name, value] of Object.entries(values)) {
    if (!name.startsWith(CREDIT_PREFIX)) return `the value "${name}" must be called "${CREDIT_PREFIX}${name}"`;
    if (MEASURED_CREDIT.some((measured) => measured === name)) return `the value "${name}" is a metric of the run itself; choose another name`;
    if (value !== null && (typeof value !== 'number' || !Number.isFinite(value)))
      return `the value "${name}" must be a finite number, or null if it was not measured; got ${shown(value)}`;
  }
  return typeof constantReason === 'string' ? null : `constantReason must be text, got ${shown(constantReason)}`;
}

const FORMS = 'must be a number, a list with a number for each turn, a Float64Array with a number for each token, or null to leave it out';

/** Describes why it is not an advantage of the rollout; null if it is one. */
export function advantageProblem(advantage: unknown, { turns, tokens }: CreditRollout): string | null {
  if (advantage instanceof Promise) return 'is a promise; it must be the value itself';
  const isPerToken = advantage instanceof Float64Array;
  if (advantage !== null && typeof advantage !== 'number' && !Array.isArray(advantage) && !isPerToken) return `${FORMS}; got ${shown(advantage)}`;
  if (isPerToken && advantage.length !== tokens) return `must have a number for each of its ${tokens} tokens, got ${advantage.length}`;
  if (Array.isArray(advantage) && advantage.length !== turns.length)
    return `must have a number for each of its ${turns.length} turns, got ${advantage.length}${advantage.length === tokens ? '; give one for each token as a Float64Array' : ''}`;
  const values = valuesOf(advantage as Advantage);
  const at = values.findIndex((value) => value !== null && !Number.isFinite(Math.fround(value)));
  if (at === -1) return null;
  const where = typeof advantage === 'number' ? '' : isPerToken ? ` at token ${at}` : ` at turn ${at}`;
  return `must be finite${Number.isFinite(values[at]) ? ' in single precision' : ''}, got ${shown(values[at])}${where}`;
}

function shown(value: unknown): string {
  if (typeof value === 'number') return String(value);
  return ArrayBuffer.isView(value) ? `a ${value.constructor.name}` : (JSON.stringify(value) ?? String(value));
}
