import { startVerifiersServer } from '../../server/verifiers/start-verifiers-server.ts';
import { loadWireLibraries } from '../../server/verifiers/wire-libraries.ts';
import type { CommandContext } from '../command-line.ts';
import { plural } from '../../reports/text/number-text.ts';
import { serveParts } from './serve-parts.ts';
import { serveUntilStopped } from './serving.ts';
import type { VerifiersOptions } from './verifiers-command.ts';

/** Serves until the process is asked to stop. The first line on stdout is the address, printed once the server answers. */
export async function serveVerifiers(id: string, options: VerifiersOptions, context: CommandContext): Promise<void> {
  const { bind, allowNetwork = false, maxSessions, split } = options;
  // Loaded before the environment, which may take long.
  await loadWireLibraries();
  await using served = await serveParts(id, options, { maxConcurrent: maxSessions, field: 'client' }, context);
  const { environment, stopped } = served;
  const server = await startVerifiersServer({
    ...served.common,
    split,
    address: bind,
    allowsNetwork: allowNetwork,
    maxSessions,
    variables: process.env,
  });
  if (allowNetwork) context.note('vf-serve: this protocol has no password: anyone who reaches the port can start rollouts');
  if (environment.rubric.hasGroupRewards) {
    context.note('vf-serve: each run of this wire is scored alone, so group rewards see groups of one, as with vf-eval -i');
  }
  const rows = environment[split];
  const about = `serving ${environment.id}, ${plural(rows.length, 'row')} of ${rows.name} (${split}), over the wire of verifiers 0.4.0`;
  await serveUntilStopped({ address: server.address, about, ending: 'cancelling runs', stopped }, context);
  await server.close();
}
