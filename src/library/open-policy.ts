/** `openPolicy` of the library: the policies that `vf-eval` opens, for loops of your own. */
import { assertLanguageModel, isLanguageModel, type LanguageModel } from '../clients/language-model.ts';
import { checkOptions, type OptionKinds } from '../core/check-options.ts';
import { Disposers } from '../core/disposers.ts';
import type { Row } from '../core/dataset.ts';
import type { Environment } from '../core/environment.ts';
import { ConfigError } from '../core/errors.ts';
import type { Price } from '../core/price.ts';
import { Callbacks } from './callbacks.ts';
import { assertEnvironment, loadEnvironment } from '../registry/load-environment.ts';
import type { OpenedPolicy } from '../sessions/policy/open-policy.ts';
import type { PolicySpec } from '../sessions/policy/policy-spec.ts';
import { redactSecrets, redactUrl } from '../transport/redact.ts';
import { withTransport } from '../transport/transport-settings.ts';

export interface OpenPolicyFor<R extends Row = Row> {
  /** The environment that the policy will play, loaded or by name; it decides how the policy is called. @default any conversation */
  readonly environment?: string | Environment<R>;
  /** Seeds the baseline and a model in this process. @default 0 */
  readonly seed?: number;
  /** Retries of a request after a transient failure. @default 3 */
  readonly maxRetries?: number;
  /** Requests in flight at once. @default 32 */
  readonly maxConcurrent?: number;
  /** The longest wait for a server that limits the rate of requests, in milliseconds; 0 fails at once. @default that of `evaluate` if it plays, else 3600000 */
  readonly maxWaitMs?: number;
  /** Environment variables, for API keys and such; those of `./.env` are added. @default those of this process */
  readonly variables?: Readonly<Record<string, string | undefined>>;
  /** Cancels the opening. @default never */
  readonly signal?: AbortSignal;
  /** A line for the user, such as the progress of a download. */
  readonly onNotice?: (line: string) => void;
}

const SPEC: OptionKinds<PolicySpec> = {
  languageModel: 'any',
  provider: 'text',
  baseUrl: 'text',
  model: 'text',
  apiKey: 'text',
  apiKeyVar: 'text',
  clientType: 'text',
  stream: 'any',
  headers: 'textTable',
  endpointsPath: 'text',
  price: 'table',
};

const OPTIONS: OptionKinds<OpenPolicyFor> = {
  environment: 'any',
  seed: 'count',
  maxRetries: 'count',
  maxConcurrent: 'count',
  maxWaitMs: 'amount',
  variables: 'table',
  signal: 'signal',
  onNotice: 'function',
};

const PRICE: OptionKinds<Price> = { input: 'amount', cached: 'amount', output: 'amount' };

/** A spec, also of a model of the AI SDK alone. Throws ConfigError for a misspelled property, or one of another kind. */
export function policySpecOf(given: PolicySpec | LanguageModel): PolicySpec {
  // `provider/model`, as functions of the AI SDK take it.
  if (typeof given === 'string' && (given as string).includes('/')) assertLanguageModel(given, 'policy');
  const spec = isLanguageModel(given) ? { languageModel: given } : given;
  checkOptions('policy', spec, SPEC);
  if (spec.languageModel !== undefined) assertLanguageModel(spec.languageModel, 'policy');
  if (spec.price === undefined) return spec;
  checkOptions('price', spec.price, PRICE);
  const missing = (Object.keys(PRICE) as (keyof Price)[]).find((key) => spec.price![key] === undefined);
  if (missing !== undefined) throw new ConfigError(`price has no ${missing}. Give input, cached and output, in US dollars per million tokens.`);
  return spec;
}

/**
 * Opens a policy: a server, a model of the AI SDK, a model in this process, or the environment's baseline. An empty spec opens the server of the environment variable VF_BASE_URL,
 * else the baseline. A program has models of its own: for it the spec must be empty. A server is asked once which model it serves and whether it supports
 * token ids. Dispose of the policy after use.
 *
 * Rejects with ConfigError for a spec or an environment that cannot be used, PolicyError or TimeoutError for a server that does not answer.
 * @example
 * await using policy = await openPolicy({ provider: 'embedded', model: 'nano-base' });
 * console.log(policy.model, policy.client.capabilities.kind);
 */
export async function openPolicy<R extends Row = Row>(given: PolicySpec | LanguageModel, options: OpenPolicyFor<R> = {}): Promise<OpenedPolicy> {
  const spec = policySpecOf(given);
  checkOptions('openPolicy', options, OPTIONS);
  const [{ openNamedPolicy }, { loadEnvironmentFile }] = await Promise.all([
    import('../sessions/policy/open-named-policy.ts'),
    import('../sessions/environment/environment-file.ts'),
  ]);
  await using parts = new Disposers();
  const callbacks = new Callbacks(options);
  const { environment: played, variables: found = process.env, signal, onNotice, ...others } = callbacks.options;
  const variables: NodeJS.ProcessEnv = { ...found };
  loadEnvironmentFile('.env', variables);
  const loaded = typeof played === 'string' ? await loadEnvironment(played, {}, { env: variables, signal }) : null;
  if (loaded !== null) parts.defer(() => loaded.close());
  const environment = loaded ?? (played as unknown as Environment | undefined) ?? null;
  if (environment !== null) assertEnvironment('openPolicy', environment);
  const secrets = new Set<string>();
  const warn = (line: string) => onNotice?.(redactSecrets(redactUrl(line), [...secrets]));
  const surroundings = { variables, signal, secrets, warn };
  const policy = parts.use(
    await callbacks.through(() =>
      withTransport({ variables, ...(options.maxWaitMs !== undefined && { maxWaitMs: options.maxWaitMs }) }, () =>
        openNamedPolicy(spec, { ...others, environment, surroundings }),
      ),
    ),
  );
  const disposer = parts.move();
  return { ...policy, [Symbol.asyncDispose]: () => callbacks.through(() => disposer.disposeAsync()) };
}
