import { once } from 'node:events';
import { Disposers } from '../../core/disposers.ts';
import { packageVersion } from '../../data/package-root.ts';
import { startVerifiersServer } from '../../server/verifiers/start-verifiers-server.ts';
import { loadWireLibraries } from '../../server/verifiers/wire-libraries.ts';
import { type CommandContext, EXIT } from '../command-line.ts';
import { plural } from '../../reports/text/number-text.ts';
import { escapeControls } from '../../reports/text/terminal-text.ts';
import { endWithStdin } from './end-with-stdin.ts';
import { failedRolloutNotes, failureNotes } from './failure-notes.ts';
import { policiesOf } from './open-served-policy.ts';
import { openServed } from './serve-environment.ts';
import type { VerifiersOptions } from './verifiers-command.ts';

/** Serves until the process is asked to stop. The first line on stdout is the address, printed once the server answers. */
export async function serveVerifiers(id: string, options: VerifiersOptions, context: CommandContext): Promise<number> {
  const { bind, allowNetwork = false, maxSessions, split } = options;
  // Loaded before the environment, which may take long.
  await loadWireLibraries();
  await using opened = new Disposers();
  const stopped = options.exitWithStdin === true ? endWithStdin(context.signal) : context.signal;
  const { environment, roles } = await openServed(id, options, context, opened);
  const server = await startVerifiersServer({
    environment,
    split,
    policies: {
      ...policiesOf({ environment, roles, maxConcurrent: maxSessions, field: 'client' }, context),
      allowedHosts: options.allowPolicyHost ?? [],
      allowedKeyVariables: options.allowPolicyKeyVar ?? [],
    },
    redact: context.redact,
    address: bind,
    allowsNetwork: allowNetwork,
    maxSessions,
    variables: process.env,
    version: packageVersion(),
    onFailedRollout: failedRolloutNotes(context),
    onFailure: failureNotes(context),
  });
  // Set before the address is printed, because a script that reads it may stop the server at once.
  context.onInterrupt = () => context.note('vf-serve: cancelling runs; press Ctrl-C again to stop at once');
  process.stdout.write(`${server.address}\n`);
  const rows = environment[split];
  context.note(
    `vf-serve: serving ${escapeControls(environment.id)}, ${plural(rows.length, 'row')} of ${escapeControls(rows.name)} (${split}), over the wire of verifiers 0.4.0; Ctrl-C stops`,
  );
  if (allowNetwork) context.note('vf-serve: this protocol has no password: anyone who reaches the port can start rollouts');
  if (environment.rubric.hasGroupRewards) {
    context.note('vf-serve: each run of this wire is scored alone, so group rewards see groups of one, as with vf-eval -i');
  }
  if (!stopped.aborted) await once(stopped, 'abort');
  await server.close();
  return EXIT.done;
}
