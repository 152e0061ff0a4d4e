/** What `vf-serve environment` and `vf-serve verifiers` open and hand to their servers in the same way. */
import { Disposers } from '../../core/disposers.ts';
import { packageVersion } from '../../data/package-root.ts';
import { openServed } from '../../serving/open-served.ts';
import { policiesOf, type ServedPolicyParts } from '../../serving/open-served-policy.ts';
import { loadEnvironmentFile } from '../../sessions/environment/environment-file.ts';
import type { CommandContext } from '../command-line.ts';
import type { ServedOptions } from './served-options.ts';
import { endWithStdin, failedRolloutNotes, failureNotes } from './serving.ts';

export async function serveParts(
  id: string,
  options: ServedOptions,
  policy: Omit<ServedPolicyParts, 'environment' | 'roles'>,
  context: CommandContext,
) {
  const { variables, secrets, signal } = context;
  const surroundings = { variables, secrets, signal, warn: (line: string) => context.note(`vf-serve: ${line}`) };
  const stopped = options.exitWithStdin === true ? endWithStdin(signal) : signal;
  loadEnvironmentFile('.env', variables);
  await using opening = new Disposers();
  const { environment, tokenizer, roles } = await openServed(id, options, surroundings, opening);
  const opened = opening.move();
  const common = {
    environment,
    policies: {
      ...policiesOf({ ...policy, environment, roles }, surroundings),
      allowedHosts: options.allowPolicyHost ?? [],
      allowedKeyVariables: options.allowPolicyKeyVar ?? [],
    },
    redact: context.redact,
    version: packageVersion(),
    onFailedRollout: failedRolloutNotes(context),
    onFailure: failureNotes(context),
  };
  return { environment, tokenizer, roles, common, surroundings, stopped, opened, [Symbol.asyncDispose]: () => opened.disposeAsync() };
}
