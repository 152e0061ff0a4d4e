import { ConfigError } from '../../core/errors.ts';
import { packageVersion } from '../../data/package-root.ts';
import { startSessionServer } from '../../server/gateway/start-session-server.ts';
import { servedSampling } from '../../serving/open-served-policy.ts';
import { loadEnvironmentFile } from '../../sessions/environment/environment-file.ts';
import { openNamedPolicy } from '../../sessions/policy/open-named-policy.ts';
import { PROPERTY_NAMES } from '../../sessions/setting-names.ts';
import type { CommandContext } from '../command-line.ts';
import { FLAG_NAMES } from '../eval/evaluation-request.ts';
import type { GatewayCommandOptions } from './gateway-command.ts';
import { failureNotes, readKey, serveUntilStopped } from './serving.ts';

/** Requests in flight to the policy; it queues the others itself. */
const MOST_REQUESTS = 1024;

/** Serves until the process is asked to stop. The first line on stdout is the URL, printed once the server answers. */
export async function serveGateway(options: GatewayCommandOptions, context: CommandContext): Promise<void> {
  const { host, port, publicUrl, maxSessions, sessionTimeout, seed } = options;
  const { variables, secrets, signal } = context;
  const apiKey = readKey(options.apiKeyVar, context);
  loadEnvironmentFile('.env', variables);
  const readSampling = (fields: Readonly<Record<string, unknown>>) => servedSampling({ ...samplingOf(options), ...fields });
  // A setting that cannot be used is told before anything is opened.
  const { sampling } = readSampling({});
  const surroundings = { variables, secrets, signal, warn: (line: string) => context.note(`vf-serve: ${line}`) };
  await using policy = await openNamedPolicy(policyOf(options), {
    environment: null,
    surroundings,
    names: FLAG_NAMES,
    seed,
    maxConcurrent: MOST_REQUESTS,
  });
  if (policy.kind === 'baseline')
    throw new ConfigError(
      'No policy is named, and agents cannot ask the built-in baseline. Add -p embedded (a small model in this process), -p vllm -m NAME, or -b URL -m NAME.',
    );
  let known = JSON.stringify(sampling.extra);
  const notices = (await policy.assertReads?.(sampling, FLAG_NAMES)) ?? [];
  for (const notice of [...policy.notices, ...notices]) context.note(`vf-serve: ${notice}`);
  const server = await startSessionServer({
    client: policy.client,
    readSampling: async (fields) => {
      const read = readSampling(fields);
      // Most sessions of a trainer have the same settings, and the server is asked which of them it reads.
      const written = JSON.stringify(read.sampling.extra);
      if (written !== known) await policy.assertReads?.(read.sampling, PROPERTY_NAMES);
      known = written;
      return read;
    },
    maxSessions,
    timeoutMs: sessionTimeout * 1000,
    seed,
    host,
    port,
    ...(publicUrl === undefined ? {} : { publicUrl }),
    apiKey,
    version: packageVersion(),
    redact: context.redact,
    onFailure: failureNotes(context),
  });
  try {
    const about = `serving ${policy.description ?? policy.model} to agents; POST ${server.url}/sessions opens a session`;
    await serveUntilStopped({ address: server.url, about, ending: 'ending sessions' }, context);
  } finally {
    await server.close();
  }
}

function policyOf(options: GatewayCommandOptions) {
  const {
    provider,
    apiBaseUrl: baseUrl,
    model,
    policyKeyVar: apiKeyVar,
    apiClientType: clientType,
    header: headers,
    endpointsPath,
    stream,
  } = options;
  const given = { provider, baseUrl, model, apiKeyVar, clientType, headers, endpointsPath };
  return { ...withValues(given), ...(stream === undefined ? {} : { stream: stream === 'auto' ? stream : stream === 'true' }) };
}

function samplingOf({ maxTokens: max_tokens, temperature, topP: top_p, samplingArgs }: GatewayCommandOptions): Readonly<Record<string, unknown>> {
  return { ...withValues({ max_tokens, temperature, top_p }), ...samplingArgs };
}

type WithValues<T> = { readonly [K in keyof T]?: NonNullable<T[K]> };

function withValues<T extends object>(given: T): WithValues<T> {
  return Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined)) as WithValues<T>;
}
