/** The losses of a run: which loss is taken on which trajectories, with which weight. */
import { suggestion } from '../../core/closest-name.ts';
import { ConfigError } from '../../core/errors.ts';
import type { TrainingConfig } from '../../schemas/training-config.ts';
import { checkedLoss } from './checked-loss.ts';
import { aggregationOf, type LossContext, type LossFactory, LOSSES } from './registry.ts';
import { withPlayedRoles } from './loss-roles.ts';
import { nllLoss } from './nll-loss.ts';
import type { LossTerm, PlayedRoles } from '../token-loss.ts';

/** Name of the loss of `[algorithm.loss]`. */
const MAIN = 'policy';

/** Name of the supervised loss of `[sft]`. */
const SUPERVISED = 'sft';

/**
 * The terms of a configuration: the one of `[algorithm.loss]`, those of `[losses.*]`, and the supervised loss of `[sft]`. Throws ConfigError for an unknown loss or
 * wrong settings.
 * @param modules the factories of the losses that are modules, keyed by `use`
 * @param played the roles that the run's source plays; null if it does not say
 */
export function lossTerms(
  given: TrainingConfig,
  context: LossContext,
  modules: ReadonlyMap<string, LossFactory> = new Map(),
  played: PlayedRoles | null = null,
): LossTerm[] {
  const config = played === null ? given : withPlayedRoles(given, played);
  const { loss } = config.algorithm;
  const make = (use: string, args: Readonly<Record<string, unknown>>, key: string) => {
    const module = modules.get(use);
    if (module !== undefined) return checkedLoss(module, args, context, `${use} (${key})`);
    const factory = Object.hasOwn(LOSSES, use) ? LOSSES[use] : undefined;
    if (factory === undefined)
      throw new ConfigError(
        `${key} = "${use}" is not a loss${suggestion(use, Object.keys(LOSSES))}; it is one of ${Object.keys(LOSSES).join(', ')} or a module (./my-loss.ts)`,
      );
    return factory(args, context);
  };
  const main = {
    name: MAIN,
    isMain: true,
    loss: make(loss.use, loss.args, 'algorithm.loss.use'),
    weight: 1,
    on: 'rollouts',
    roles: null,
  } as const;
  const further = Object.entries(config.losses).map(([name, { use, weight = 1, on = 'rollouts', roles = null, args = {} }]): LossTerm => {
    if (use === undefined)
      throw new ConfigError(`losses.${name}.use is not set; it is one of ${Object.keys(LOSSES).join(', ')} or a module (./my-loss.ts)`);
    const taken = { [SUPERVISED]: '[sft]', [MAIN]: '[algorithm.loss]' }[name];
    if (taken !== undefined) throw new ConfigError(`losses.${name} is the name of the loss of ${taken}; choose another name`);
    return { name, isMain: false, loss: make(use, args, `losses.${name}.use`), weight, on, roles };
  });
  return [main, ...further, ...supervisedTerm(config, further)];
}

/** The loss of `[sft]`, unless a configured one is taken on demonstrations. */
function supervisedTerm({ sft }: TrainingConfig, further: readonly LossTerm[]): LossTerm[] {
  if ((sft.data === null && sft.problems === null) || further.some(({ on }) => on === 'demonstrations')) return [];
  return [{ name: SUPERVISED, isMain: false, loss: nllLoss(aggregationOf(sft.aggregation)), weight: 1, on: 'demonstrations', roles: null }];
}
