/** A loss of a user's module, which no compiler has checked. A missing part, a wrong result or an error of its own becomes one line that names the module. */
import { ConfigError, ownCodeText, TrainingError, VfError } from '../../core/errors.ts';
import { isObject } from '../../schemas/is-object.ts';
import type { LossContext, LossFactory } from './registry.ts';
import type { TokenLoss, TokenLossValue } from '../token-loss.ts';

/** @param module the name that the user gave, with its key: `./my-loss.ts (losses.mine.use)` */
export function checkedLoss(createLoss: LossFactory, args: Readonly<Record<string, unknown>>, context: LossContext, module: string): TokenLoss {
  const loss = checkedMethods(created(createLoss, args, context, module), module);
  return {
    needs: loss.needs,
    ...(loss.ignoresZeroAdvantages === undefined ? {} : { ignoresZeroAdvantages: loss.ignoresZeroAdvantages }),
    evaluate(batch, counts) {
      const value = evaluated(() => loss.evaluate(batch, counts), module);
      const problem = isObject(value) ? valueProblem(value, batch.logProbs.length) : 'it must be { loss, gradient, metrics }';
      if (problem !== null) throw new ConfigError(`evaluate of the loss ${module} returned a wrong value: ${problem}`);
      return value;
    },
  };
}

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
  if (typeof loss?.evaluate === 'function' && areNeeds) return loss;
  throw new ConfigError(`createLoss of ${module} must return { needs: { old, reference, sampler }, evaluate(batch, counts) }, the needs as booleans`);
}

function evaluated(evaluate: () => TokenLossValue, module: string): TokenLossValue {
  try {
    return evaluate();
  } catch (cause) {
    if (cause instanceof VfError) throw cause;
    throw new TrainingError(`evaluate of the loss ${module} failed: ${ownCodeText(cause)}`, { cause });
  }
}

/** NaN is allowed: it drops its sequences. */
function valueProblem({ loss, gradient, dEntropy, metrics }: TokenLossValue, tokens: number): string | null {
  if (typeof loss !== 'number') return `loss must be a number, got ${shown(loss)}`;
  for (const [name, values] of Object.entries({ gradient, ...(dEntropy === undefined ? {} : { dEntropy }) })) {
    if (!(values instanceof Float64Array)) return `${name} must be a Float64Array with a number for every token, such as logProbs.map(() => 0)`;
    if (values.length !== tokens) return `${name} must have a number for each of the ${tokens} tokens, got ${values.length}`;
  }
  if (!isObject(metrics)) return 'metrics must be an object; return {} for a loss without metrics';
  const wrong = Object.entries(metrics).find(([, metric]) => !isMetric(metric));
  if (wrong === undefined) return null;
  return `the metric "${wrong[0]}" must be { merge, value } with merge "sum", "min" or "max", or a mean: meanMetric(sum, count); got ${shown(wrong[1])}`;
}

function isMetric(metric: unknown): boolean {
  if (!isObject(metric) || typeof metric['value'] !== 'number') return false;
  const { merge, weight } = metric;
  return merge === 'mean' ? typeof weight === 'number' : merge === 'sum' || merge === 'min' || merge === 'max';
}

function shown(value: unknown): string {
  return JSON.stringify(value) ?? String(value);
}
