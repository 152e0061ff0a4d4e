/** What a run costs at most at its training service, for `--dry-run`. */
import { countText, plural, usdText } from '../../reports/text/number-text.ts';
import type { TrainingConfig } from '../../schemas/training-config.ts';
import { plusServiceTokens, type ServiceTokens } from '../../tinker/service/token-meter.ts';
import { supervisedSteps, totalSteps } from '../../trainer/config/training-schedule.ts';
import { serviceCost, type ServicePrice, servicePriceText } from './service-price.ts';

/** A rollout's limits, in tokens; infinite without one. */
interface RolloutLengths {
  readonly responseTokens: number;
  readonly contextTokens: number;
  /** The model's window. */
  readonly window: number;
  /** Rollouts of a step; 0 if they are not known before it. */
  readonly members: number;
}

export interface EstimateOptions {
  readonly config: TrainingConfig;
  readonly price: ServicePrice;
  readonly lengths: RolloutLengths;
  /** Number of rows of the evaluation environment. */
  readonly evaluationRows: number;
}

/** Only the environment knows their number; Search-R1 has three by default, and five in the setting of its paper. */
const GENERATIONS = 4;

export function serviceEstimate({ config, price, lengths, evaluationRows }: EstimateOptions): string {
  if (price.usd === null) return `not estimated: ${price.model} has no price. ${price.remedy}`;
  const { members, contextTokens, responseTokens, window } = lengths;
  if (members === 0) return `not estimated: the rollouts of a step are not known before it; ${servicePriceText(price.usd)}`;
  const longest = Math.min(contextTokens + responseTokens, window);
  if (!Number.isFinite(longest)) return `not estimated: nothing limits the length of a rollout; ${servicePriceText(price.usd)}`;
  const step = stepTokens(config, lengths, longest);
  const evaluations = evaluationCount(config);
  const played = times(playedTokens(lengths, longest), evaluatedRollouts(config, evaluationRows));
  const all = plusServiceTokens(times(step, config.steps), times(played, evaluations));
  const supervised = supervisedSteps(config);
  const parts = [plural(config.steps, 'step'), ...(evaluations === 0 ? [] : [plural(evaluations, 'evaluation')])];
  return (
    `at most about ${usdText(serviceCost(step, price.usd))} for a step and ${usdText(serviceCost(all, price.usd))} for ${parts.join(' and ')}` +
    `${supervised === 0 ? '' : `, without the ${plural(supervised, 'supervised step')}`}, if every rollout fills its length in ${GENERATIONS} generations: ` +
    `${countText(all.prefill)} tokens read, ${countText(all.sample)} sampled, ${countText(all.train)} trained on; ${servicePriceText(price.usd)}, ` +
    'forward passes counted as prefill and nothing as cached'
  );
}

function stepTokens({ algorithm }: TrainingConfig, lengths: RolloutLengths, longest: number): ServiceTokens {
  const { epochs, minibatches, kl, oldLogProbs, teacher } = algorithm;
  const scored = [
    kl.coefficient > 0,
    oldLogProbs === 'trainer' && epochs * minibatches > 1,
    teacher?.kind === 'self' || teacher?.kind === 'start',
  ].filter(Boolean).length;
  const passes = { prefill: (epochs + scored) * longest, sample: 0, train: epochs * longest };
  return times(plusServiceTokens(playedTokens(lengths, longest), passes), lengths.members);
}

/** Of one rollout. Every generation reads its context again. */
function playedTokens({ responseTokens, contextTokens, window }: RolloutLengths, longest: number): ServiceTokens {
  return { prefill: GENERATIONS * Math.min(contextTokens, window), sample: Math.min(GENERATIONS * responseTokens, longest), train: 0 };
}

function times({ prefill, sample, train }: ServiceTokens, n: number): ServiceTokens {
  return { prefill: n * prefill, sample: n * sample, train: n * train };
}

/** Before the first step, every so many steps, and after the last. */
function evaluationCount(config: TrainingConfig): number {
  const { every } = config.evaluation;
  return every === 0 ? 0 : 1 + Math.ceil(totalSteps(config) / every);
}

function evaluatedRollouts({ evaluation: { examples, rolloutsPerExample } }: TrainingConfig, rows: number): number {
  return rolloutsPerExample * (examples === -1 ? rows : Math.min(examples, rows));
}
