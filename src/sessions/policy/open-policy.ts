/** Opens a client for the chosen policy. A server is asked for its capabilities once, by `askServer`; the description says what it answered. */
import { modelFacts } from '../../files/model-facts.ts';
import type { ImageTokenRules, PolicyClient } from '../../clients/policy-client.ts';
import { PolicyVersions } from '../../clients/policy-versions.ts';
import type { PolicyProbe } from '../../clients/vllm-probe.ts';
import { Disposers } from '../../core/disposers.ts';
import type { Environment } from '../../core/environment.ts';
import { ConfigError } from '../../core/errors.ts';
import type { Sampling } from '../../core/sampling.ts';
import { assertPlayable, showsImages } from '../../rollouts/assert-playable.ts';
import { redactUrl } from '../../transport/redact.ts';
import { countText } from '../../reports/text/number-text.ts';
import { assertTakesTokens } from './assert-takes-tokens.ts';
import { openBaseline } from './open-baseline.ts';
import { openAbsent, openNoPolicy } from './silent-policies.ts';
import { embeddedModel } from './embedded-model.ts';
import type { SettingNames } from '../setting-names.ts';
import { type EmbeddedTarget, type EndpointTarget, keySettingOf, type PolicyTarget } from './policy-target.ts';
import { EMBEDDED } from './providers.ts';
import { openChat, openLanguageModel, where } from './open-chat-policy.ts';

/** A policy that is ready to play. */
export interface OpenedPolicy extends AsyncDisposable {
  readonly client: PolicyClient;
  readonly model: string;
  readonly kind: PolicyTarget['kind'];
  /** Without credentials; null for a policy in this process. */
  readonly baseUrl: string | null;
  /** One line: the policy, its address, and the form of its calls; for a program, its models. Null for a program that uses no model. */
  readonly description: string | null;
  /** Notices for the user before the run. */
  readonly notices: readonly string[];
  /** Checks the fields of further requests as those of the run were. Returns notices. Throws ConfigError for a field without an effect. @default nobody can say */
  readonly assertReads?: (sampling: Pick<Sampling, 'extra'>, names: SettingNames) => Promise<readonly string[]>;
}

export interface OpenPolicyOptions {
  readonly environment: Pick<Environment, 'id' | 'turnFormat' | 'turnFormats' | 'needs' | 'tokens' | 'images' | 'programModels' | 'baseline'>;
  readonly seed: number;
  /** The caller's names for its settings, for errors and notices. */
  readonly names: SettingNames;
  /** The fields of the run's requests, each of which must have an effect. @default none */
  readonly sampling?: Pick<Sampling, 'extra'>;
  /** Retries of a request after a transient failure. */
  readonly maxRetries: number;
  readonly maxConcurrent: number;
  /** The longest wait for a server that limits the rate of requests. @default that of the run */
  readonly maxWaitMs?: number | undefined;
  /** A chat API must say whether a stop string ended its text. @default false */
  readonly strictStops?: boolean;
  /** Version of the server's weights, for the record. @default 0 */
  readonly version?: number;
  /** Sent with requests by token ids, so that weights that change under one name share no prefix cache. @default none */
  readonly cacheSalt?: string;
  /** Environment variables, which determine where models of the hub are kept. */
  readonly variables: Readonly<Record<string, string | undefined>>;
  readonly signal: AbortSignal;
}

export async function openPolicy(target: PolicyTarget, options: OpenPolicyOptions): Promise<OpenedPolicy> {
  switch (target.kind) {
    case 'baseline':
      return openBaseline(target.asked, options);
    case 'embedded':
      return openEmbedded(target, options);
    case 'absent':
      return openAbsent(target.model);
    case 'language-model':
      return openLanguageModel(target, options);
    case 'client': {
      const { client } = target;
      return { client, model: client.name, kind: 'client', baseUrl: null, description: client.name, notices: [], async [Symbol.asyncDispose]() {} };
    }
    case 'program':
      return openNoPolicy(options.environment);
    default:
      return openEndpoint(target, options);
  }
}

/** The engine in this process, called over loopback with the same client as any server. */
async function openEmbedded(target: EmbeddedTarget, options: OpenPolicyOptions): Promise<OpenedPolicy> {
  const { EmbeddedPolicy, loadNamedAdapter } = await import('./embedded-policy.ts');
  const { directory, name, adapter } = embeddedModel(target.model, options);
  const { signal, maxConcurrent } = options;
  await using opened = new Disposers();
  // Reports the model's own log-probs, at every temperature.
  const embedded = opened.use(
    await EmbeddedPolicy.open({
      engine: { modelPath: directory, maxPending: 2 * maxConcurrent + 16 },
      servedName: name,
      logProbsMode: 'raw',
      signal,
    }),
  );
  if (adapter !== null) await loadNamedAdapter(embedded, adapter, signal);
  const model = adapter?.name ?? name;
  const policy = opened.use(
    await openEndpoint(endpointOf(embedded, model, options.names), {
      ...options,
      isEmbedded: true,
      vocabularySize: modelFacts(directory).vocabularySize,
    }),
  );
  const disposer = opened.move();
  return {
    ...policy,
    kind: 'embedded',
    baseUrl: null,
    description: `${model}${adapter === null ? '' : ` on ${name}`} in this process (${embedded.description})`,
    [Symbol.asyncDispose]: () => disposer.disposeAsync(),
  };
}

function endpointOf({ baseUrl, apiKey }: { readonly baseUrl: string; readonly apiKey: string }, model: string, names: SettingNames): EndpointTarget {
  return {
    kind: 'endpoint',
    model,
    baseUrls: [baseUrl],
    apiKey,
    keyVariable: null,
    headers: {},
    // Chat mode would gain nothing: the engine's chat uses the same template.
    clientType: 'tokens',
    alias: null,
    chosenBy: names.given({ provider: EMBEDDED }),
  };
}

/** `isEmbedded`: the engine in this process plays, so that sampling by token ids is a function of the run's seed. */
type EndpointOptions = OpenPolicyOptions & { readonly isEmbedded?: boolean; readonly vocabularySize?: number | null };

/** An endpoint of which every field of the run's requests has an effect. */
async function openEndpoint(target: EndpointTarget, options: EndpointOptions): Promise<OpenedPolicy> {
  await using opened = new Disposers();
  const policy = opened.use(await openAnyEndpoint(target, options));
  const { sampling = {}, names, signal } = options;
  const assertReads: OpenedPolicy['assertReads'] = async (asked, by) => {
    if (asked.extra === undefined) return [];
    const { assertReadFields } = await import('./assert-read-fields.ts');
    return assertReadFields({ sampling: asked, client: policy.client, target, where: where(target), names: by, signal });
  };
  const notices = await assertReads(sampling, names);
  const disposer = opened.move();
  return { ...policy, notices: [...policy.notices, ...notices], assertReads, [Symbol.asyncDispose]: () => disposer.disposeAsync() };
}

async function openAnyEndpoint(target: EndpointTarget, options: EndpointOptions): Promise<OpenedPolicy> {
  const { askServer } = await import('./ask-server.ts');
  const probe = await askServer(target, { images: showsImages(options.environment), names: options.names, signal: options.signal });
  if (target.clientType === 'tokens' && probe.kind !== 'tokens') {
    const remedy =
      target.isOfRequest === true
        ? 'Name a server that returns them, such as vLLM, or ask for chat: kind "chat", or type "eval" of a verifiers client.'
        : `Use ${options.names.given({ clientType: 'chat' })} to play in chat mode.`;
    throw new ConfigError(`${where(target)} does not return token ids: ${probe.chatOnlyBecause}. ${remedy}`);
  }
  if (probe.kind !== 'tokens') return openChat(target, probe, options);
  const because = notByTokensBecause(probe, options.environment);
  if (because === null) assertTakesTokens(target, options.names);
  // Chat mode may support what token ids do not; with an explicit `tokens` the caller's assertPlayable reports the problem.
  return because === null || target.clientType === 'tokens' ? openTokens(target, probe, options) : openChat(target, probe, { ...options, because });
}

/** The reason why this policy cannot play the environment by token ids; null if it can. Throws ConfigError if chat mode could not either. */
function notByTokensBecause(probe: PolicyProbe, environment: OpenPolicyOptions['environment']): string | null {
  try {
    assertPlayable(environment, { name: probe.model, capabilities: probe });
    return null;
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    // The server's chat route uses the same template, which leaves out the tools: the model would never see them.
    if (probe.dropsTools === true && environment.needs?.includes('native_tools') === true) throw error;
    if (probe.chatTemplate === null) return 'the model has no chat template';
    if (showsImages(environment) && probe.images !== true) {
      // The chat route would refuse the first image.
      if (probe.chatsWithImages !== true) throw error;
      return `the environment shows images, and by token ids the server cannot see them: it ${probe.blindBecause}`;
    }
    return 'its chat template writes tool calls in no known format, so the server must parse them';
  }
}

async function openTokens(
  target: EndpointTarget,
  probe: PolicyProbe,
  {
    maxRetries,
    maxConcurrent,
    maxWaitMs,
    environment,
    names,
    version = 0,
    cacheSalt,
    isEmbedded = false,
    vocabularySize: ids = null,
  }: EndpointOptions,
): Promise<OpenedPolicy> {
  const { VllmTokensClient } = await import('../../clients/vllm-tokens.ts');
  const { model, hasChatTemplate, chatOnlyBecause: _, dropsTools: __, chatsWithImages: ___, ...capabilities } = probe;
  const client = new VllmTokensClient({
    baseUrls: target.baseUrls,
    versions: new PolicyVersions({ version, model, ...(cacheSalt === undefined ? {} : { cacheSalt }) }),
    capabilities: { ...capabilities, isEmbedded },
    hasChatTemplate,
    headers: target.headers,
    maxRetries,
    ...(maxWaitMs !== undefined && { maxWaitMs }),
    maxConcurrentRequests: maxConcurrent,
    sendsSeeds: isEmbedded,
    vocabularySize: ids,
    ...(environment.images === undefined ? {} : { images: environment.images }),
    ...(target.apiKey === null ? {} : { apiKey: target.apiKey }),
    ...(target.keyVariable === null ? {} : { apiKeyVariable: target.keyVariable }),
    keySetting: keySettingOf(target, names),
  });
  const facts = [
    'token ids in and out',
    ...(probe.maxModelLen === null ? [] : [`window ${countText(probe.maxModelLen)}`]),
    templateText(probe, environment),
    `log-probs ${probe.logProbsMode}`,
    ...(probe.imageTokens ? [imagesText(probe.imageTokens)] : []),
  ];
  return {
    client,
    model,
    kind: 'endpoint',
    baseUrl: redactUrl(target.baseUrls[0]!),
    description: `${model} at ${where(target)} (${facts.join(', ')})`,
    notices: [],
    [Symbol.asyncDispose]: () => client.close(),
  };
}

/** Describes the form in which the policy sees images. */
function imagesText({ unit, minPixels, maxPixels, maxPerPrompt }: ImageTokenRules): string {
  const most = maxPerPrompt === null ? '' : `, at most ${maxPerPrompt} a prompt`;
  return `images of ${countText(minPixels)} to ${countText(maxPixels)} pixels, ${unit} × ${unit} a token${most}`;
}

/** Describes the way in which prompts are rendered to tokens. */
function templateText({ chatTemplate, beginsWithBos }: PolicyProbe, { turnFormat, tokens }: OpenPolicyOptions['environment']): string {
  if (chatTemplate === 'model') return 'its own chat template';
  if (turnFormat === 'chat') return 'no chat template of its own: ChatML';
  return beginsWithBos === true && tokens?.bos !== 'never' ? 'no chat template: plain text after a BOS token' : 'no chat template: plain text';
}
