import { ConfigError } from '../../core/errors.ts';
import { redactUrl } from '../../transport/redact.ts';
import type { SettingNames } from '../setting-names.ts';
import type { EndpointTarget } from './policy-target.ts';

/** Throws ConfigError for a setting that has no effect on requests by token ids. */
export function assertTakesTokens({ stream, baseUrls }: EndpointTarget, names: SettingNames): void {
  if (stream !== true) return;
  const chat = names.given({ clientType: 'chat' });
  throw new ConfigError(`${redactUrl(baseUrls[0]!)} is asked by token ids, never for a stream. Leave ${names.name('stream')} out, or add ${chat}.`);
}
