/** The built-in credits by id, each with the function that makes it from its settings. A user's module or an environment exports `createCredit`, a CreditFactory. */
import { suggestion } from '../../core/closest-name.ts';
import { ConfigError } from '../../core/errors.ts';
import { ENVIRONMENT_CREDIT } from '../config/own-credit.ts';
import type { Credit, OwnCredit } from '../credit.ts';
import { checkedCredit } from './checked-credit.ts';
import { groupCredit } from './group-credit.ts';
import { ScopeCredit } from './scope-credit.ts';
import { TURN_CREDIT, turnCredit } from './turn-credit.ts';
import type { TrainingConfig } from '../../schemas/training-config.ts';

const CREDITS: Readonly<Record<string, (config: Pick<TrainingConfig, 'algorithm' | 'rollouts'>) => Credit>> = {
  outcome: (config) => (config.algorithm.advantage.scope === 'group' ? groupCredit(config) : new ScopeCredit(config)),
  [TURN_CREDIT]: turnCredit,
};

/** The built-in credit that `[algorithm.advantage]` describes. Throws ConfigError for an unknown one. */
export function builtInCredit(config: Pick<TrainingConfig, 'algorithm' | 'rollouts'>): Credit {
  const { use } = config.algorithm.advantage;
  const make = Object.hasOwn(CREDITS, use) ? CREDITS[use] : undefined;
  if (make !== undefined) return make(config);
  const known = [...Object.keys(CREDITS), ENVIRONMENT_CREDIT];
  throw new ConfigError(
    `algorithm.advantage.use = "${use}" is not a credit${suggestion(use, known)}; it is one of ${known.join(', ')} or a module (./my-credit.ts)`,
  );
}

/**
 * Opens the credit of a run, at each start of it.
 * @param own the factory of the environment or the module, with its name for messages; null for a built-in credit
 */
export function openCredit(config: TrainingConfig, own: OwnCredit | null): Credit {
  return own === null ? builtInCredit(config) : checkedCredit(own.createCredit, config, own.module);
}
