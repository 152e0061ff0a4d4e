import { ConfigError } from '../../core/errors.ts';
import { type TransportSettings, transportSettings } from '../../transport/transport-settings.ts';
import { WaitMeter } from '../../transport/wait-meter.ts';
import type { SettingNames } from '../setting-names.ts';
import type { Surroundings } from '../surroundings.ts';
import type { EvaluationRequest } from './evaluation-request.ts';

/** The settings of all requests of an evaluation, which measures its own waits. Throws ConfigError for a wait that is not a number of at least 0. */
export function evaluationTransport(
  { maxWaitMs = transportSettings().maxWaitMs }: Pick<EvaluationRequest, 'maxWaitMs'>,
  { variables, names }: Pick<Surroundings, 'variables'> & { readonly names: SettingNames },
): Partial<TransportSettings> {
  if (!(maxWaitMs >= 0)) throw new ConfigError(`${names.name('maxWaitMs')} must be at least 0, got ${maxWaitMs}`);
  return { variables, maxWaitMs, waits: new WaitMeter(), names: { maxWait: names.name('maxWaitMs'), maxConcurrent: names.name('maxConcurrent') } };
}
