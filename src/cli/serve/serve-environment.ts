import { startEnvironmentServer } from '../../server/environment/start-environment-server.ts';
import type { CommandContext } from '../command-line.ts';
import { plural } from '../../reports/text/number-text.ts';
import type { EnvironmentOptions } from './environment-command.ts';
import { serveParts } from './serve-parts.ts';
import { readKey, serveUntilStopped } from './serving.ts';
import { callerModels } from '../../serving/served-roles.ts';

/** Time for pending requests to finish after Ctrl-C; a second Ctrl-C ends them. */
const GRACE_MS = 5_000;

/** Serves until the process is asked to stop. The first line on stdout is the URL, printed once the server answers. */
export async function serveEnvironment(id: string, options: EnvironmentOptions, context: CommandContext): Promise<void> {
  const { host, port, maxSessions, idleTimeout, stepTimeout, split } = options;
  const apiKey = readKey(options.apiKeyVar, context);
  await using served = await serveParts(id, options, { maxConcurrent: maxSessions }, context);
  const { environment, tokenizer, roles, opened, surroundings, stopped } = served;
  const server = await startEnvironmentServer({
    ...served.common,
    split,
    tokenizer,
    callerModels: await callerModels(roles, environment, surroundings, opened),
    host,
    port,
    apiKey,
    maxSessions,
    idleTimeoutMs: idleTimeout * 1000,
    stepTimeoutMs: stepTimeout * 1000,
  });
  const rows = environment[split];
  const ids = tokenizer === null ? 'by messages; --tokenizer DIR adds token ids' : `by token ids of ${options.tokenizer!} or by messages`;
  const about = `serving ${environment.id}, ${plural(rows.length, 'row')} of ${rows.name} (${split}), ${ids}`;
  await serveUntilStopped({ address: server.url, about, ending: 'ending episodes', stopped }, context);
  await server.close({ graceMs: context.signal.aborted ? GRACE_MS : 0 });
}
