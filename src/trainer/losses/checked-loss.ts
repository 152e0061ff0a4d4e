/** A loss of a user's module, which no compiler has checked. A missing part, a wrong result or an error of its own becomes one line that names the module. */
import { suggestion } from '../../core/closest-name.ts';
import { unknownKeyProblem } from '../../core/option-spelling.ts';
import { ConfigError, VfError } from '../../core/errors.ts';
import { ownCodeText } from '../../core/thrown-place.ts';
import { isObject } from '../../schemas/is-object.ts';
import type { LossContext, LossFactory } from './registry.ts';
import { assertNotAsync, moduleFault } from '../../core/module-fault.ts';
import type { LossMetric, LossNeeds, TokenLoss, TokenLossBatch, TokenLossValue } from '../token-loss.ts';

/** @param module the name that the user gave, with its key: `./my-loss.ts (losses.mine.use)` */
export function checkedLoss(createLoss: LossFactory, args: Readonly<Record<string, unknown>>, context: LossContext, module: string): TokenLoss {
  const loss = checkedMethods(created(createLoss, args, context, module), module);
  return {
    needs: loss.needs,
    ...(loss.ignoresZeroAdvantages === undefined ? {} : { ignoresZeroAdvantages: loss.ignoresZeroAdvantages }),
    evaluate(batch, counts) {
      const value: unknown = evaluated(() => loss.evaluate(copied(batch), { ...counts }), module);
      assertNotAsync(value, { method: 'evaluate of the loss', module, shape: SHAPE });
      if (!isObject(value)) throw moduleFault(`evaluate of the loss ${module} returned a wrong value: it must be ${SHAPE}`, module);
      const found = value as unknown as TokenLossValue;
      const problem = valueProblem(found, batch.logProbs.length) ?? numberProblem(found, batch);
      if (problem !== null) throw moduleFault(`evaluate of the loss ${module} returned a wrong value: ${problem}`, module);
      // A module may use its objects again for the next part of the step.
      return { ...found, metrics: Object.fromEntries(Object.entries(found.metrics).map(([name, metric]) => [name, { ...metric }])) };
    },
  };
}

/** A module may write into what it gets; the trainer reads its own log-probs again, for the metrics of the step. */
function copied(batch: TokenLossBatch): TokenLossBatch {
  return Object.fromEntries(
    Object.entries(batch as unknown as Readonly<Record<string, readonly unknown[]>>).map(([name, column]) => [name, column.slice()]),
  ) as unknown as TokenLossBatch;
}

const SHAPE = '{ loss, gradient, metrics }';

function created(createLoss: LossFactory, args: Readonly<Record<string, unknown>>, context: LossContext, module: string): TokenLoss {
  try {
    return createLoss(args, context);
  } catch (cause) {
    if (cause instanceof VfError) throw cause;
    throw new ConfigError(`createLoss of ${module} failed: ${ownCodeText(cause)}`, { cause });
  }
}

function checkedMethods(loss: TokenLoss | null | undefined, module: string): TokenLoss {
  if (loss instanceof Promise) throw new ConfigError(`createLoss of ${module} must not be async: it must return the loss itself`);
  const needs = loss?.needs;
  const areNeeds = [needs?.old, needs?.reference, needs?.sampler].every((need) => typeof need === 'boolean');
  if (typeof loss?.evaluate !== 'function' || !areNeeds)
    throw new ConfigError(
      `createLoss of ${module} must return { needs: { old, reference, sampler }, evaluate(batch, counts) }, the needs as booleans`,
    );
  const unknown = Object.entries(loss.needs).find(([name, need]) => !NEEDS.some((known) => known === name) || typeof need !== 'boolean')?.[0];
  if (unknown === undefined) return loss;
  throw new ConfigError(`needs of the loss ${module} may have ${NEEDS.join(', ')}, each true or false; got ${unknown}${suggestion(unknown, NEEDS)}`);
}

const NEEDS = ['old', 'reference', 'sampler', 'entropy', 'turns', 'positions', 'kinds'] as const satisfies readonly (keyof LossNeeds)[];
const VALUE = ['loss', 'gradient', 'dEntropy', 'metrics'] as const satisfies readonly (keyof TokenLossValue)[];

function evaluated(evaluate: () => TokenLossValue, module: string): TokenLossValue {
  try {
    return evaluate();
  } catch (cause) {
    if (cause instanceof VfError) throw cause;
    throw moduleFault(`evaluate of the loss ${module} failed: ${ownCodeText(cause)}`, module, cause);
  }
}

function valueProblem(found: TokenLossValue, tokens: number): string | null {
  const { loss, gradient, dEntropy, metrics } = found;
  const unknown = unknownKeyProblem(found, VALUE);
  if (unknown !== null) return `it has ${unknown}`;
  if (typeof loss !== 'number') return `loss must be a number, got ${shown(loss)}`;
  for (const [name, values] of Object.entries({ gradient, ...(dEntropy === undefined ? {} : { dEntropy }) })) {
    if (!(values instanceof Float64Array)) return `${name} must be a Float64Array with a number for every token, such as logProbs.map(() => 0)`;
    if (values.length !== tokens) return `${name} must have a number for each of the ${tokens} tokens, got ${values.length}`;
  }
  if (!isObject(metrics)) return 'metrics must be an object; return {} for a loss without metrics';
  const wrong = Object.entries(metrics).find(([, metric]) => !isMetric(metric));
  // Its share of the step's loss has this name.
  if (Object.hasOwn(metrics, 'loss')) return 'a metric must not be called "loss", which is the share of the step\'s loss; choose another name';
  if (wrong === undefined) return null;
  return `the metric "${wrong[0]}" must be { merge, value } with merge "sum", "min" or "max", or a mean: meanMetric(sum, count); got ${shown(wrong[1])}`;
}

/** The numbers of a batch, all of which a loss may read. */
const COLUMNS = ['logProbs', 'advantages', 'oldLogProbs', 'referenceLogProbs', 'samplerLogProbs', 'entropy'] as const;

/** Numbers that no backend can go on with. Not the module's fault if it was given such a number itself. */
function numberProblem({ loss, gradient, dEntropy, metrics }: TokenLossValue, batch: TokenLossBatch): string | null {
  if (COLUMNS.some((name) => batch[name]?.every(Number.isFinite) === false)) return null;
  for (const [name, values] of Object.entries({ gradient, ...(dEntropy === undefined ? {} : { dEntropy }) })) {
    // A backend computes in single precision.
    const token = values.findIndex((value) => !Number.isFinite(Math.fround(value)));
    if (token === -1) continue;
    const given = COLUMNS.flatMap((column) => (batch[column] === undefined ? [] : [`${column} ${batch[column][token]}`]));
    return `${name} must be finite in single precision, got ${values[token]} at ${placeOf(token, batch)} (${given.join(', ')})`;
  }
  const wrong = Object.entries(metrics).find(([, metric]) => !isMeasured(metric));
  if (wrong !== undefined)
    return `the metric "${wrong[0]}" must be finite, got ${wrong[1].value} for ${rolloutsOf(batch)}, whose numbers are all finite`;
  return Number.isFinite(loss) ? null : `loss must be finite, got ${loss} for ${rolloutsOf(batch)}, whose numbers are all finite`;
}

function placeOf(token: number, { offsets, rolloutIds }: TokenLossBatch): string {
  const sequence = offsets.findLastIndex((start) => start <= token);
  const rollout = rolloutIds?.[sequence];
  return `token ${token - offsets[sequence]!} of ${rollout === undefined ? `sequence ${sequence}` : `the rollout ${rollout}`}`;
}

/** Names a few of them. */
function rolloutsOf({ offsets, rolloutIds }: TokenLossBatch): string {
  const count = offsets.length - 1;
  const named = rolloutIds?.slice(0, 3).join(', ');
  if (named === undefined) return `a batch of ${count} sequences`;
  return count === 1 ? `the rollout ${named}` : `the ${count} rollouts ${named}${count > 3 ? ', …' : ''}`;
}

function isMetric(metric: unknown): boolean {
  if (!isObject(metric) || typeof metric['value'] !== 'number') return false;
  const { merge, weight } = metric;
  return merge === 'mean' ? typeof weight === 'number' : merge === 'sum' || merge === 'min' || merge === 'max';
}

/** True for a finite value, for a mean of nothing, and for the start of a minimum or maximum. */
function isMeasured(metric: LossMetric): boolean {
  if (metric.merge === 'mean' && metric.weight === 0) return true;
  return (
    Number.isFinite(metric.value) || (metric.merge === 'min' && metric.value === Infinity) || (metric.merge === 'max' && metric.value === -Infinity)
  );
}

function shown(value: unknown): string {
  return JSON.stringify(value) ?? String(value);
}
