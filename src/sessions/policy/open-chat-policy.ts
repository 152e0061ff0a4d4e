/** Opens the policies that are asked by messages: a chat API, or a model of the AI SDK. */
import type { PolicyClient } from '../../clients/policy-client.ts';
import { PolicyVersions } from '../../clients/policy-versions.ts';
import type { PolicyProbe } from '../../clients/vllm-probe.ts';
import { Disposers } from '../../core/disposers.ts';
import { ConfigError } from '../../core/errors.ts';
import type { ImageStore } from '../../core/message.ts';
import { showsImages } from '../../rollouts/assert-playable.ts';
import { redactUrl } from '../../transport/redact.ts';
import { openChatApi } from '../../registry/open-chat-api.ts';
import type { OpenedPolicy, OpenPolicyOptions } from './open-policy.ts';
import type { EndpointTarget, LanguageModelTarget } from './policy-target.ts';

/** `because`: the reason for chat mode although the server supports token ids. @default it does not, or chat was requested */
type ChatOptions = OpenPolicyOptions & { readonly because?: string };

export async function openChat(target: EndpointTarget, probe: PolicyProbe, options: ChatOptions): Promise<OpenedPolicy> {
  const { apiKey, keyVariable, baseUrls, headers } = target;
  const settings = {
    model: probe.model,
    version: options.version,
    apiKey,
    keyVariable,
    headers,
    maxModelLen: probe.maxModelLen,
    // Only vLLM reports its context window, and only vLLM continues a final assistant message.
    ...(target.stream !== undefined && { stream: target.stream }),
    takesPrefill: probe.maxModelLen !== null,
    maxConcurrentRequests: options.maxConcurrent,
    ...(options.maxWaitMs !== undefined && { maxWaitMs: options.maxWaitMs }),
  };
  if (options.environment.needs?.includes('native_tools') === true) {
    const { assertTakesTools } = await import('../environment/assert-takes-tools.ts');
    for (const baseUrl of baseUrls) {
      await using opened = new Disposers();
      const asking = await openChatApi({ ...settings, baseUrls: [baseUrl], maxRetries: 0 });
      opened.defer(() => asking.close());
      await assertTakesTools(asking, {
        environmentId: options.environment.id,
        where: redactUrl(baseUrl),
        isVllm: probe.maxModelLen !== null,
        signal: options.signal,
      });
    }
  }
  const images = imagesOf(options.environment);
  const client = await openChatApi({ ...settings, baseUrls, maxRetries: options.maxRetries, strictStops: options.strictStops ?? false, images });
  const because = probe.chatOnlyBecause === null ? '' : ` (${probe.chatOnlyBecause})`;
  return openedChat(client, options, {
    model: probe.model,
    kind: 'endpoint',
    baseUrl: redactUrl(baseUrls[0]!),
    who: `${probe.model} at ${where(target)}`,
    because: options.because ? [`because ${options.because}`] : [],
    approximation: `${where(target)} accepts only messages${because}`,
  });
}

/** Nothing is asked before the first rollout: a model of the AI SDK says nothing of itself. */
export async function openLanguageModel({ model, stream }: LanguageModelTarget, options: OpenPolicyOptions): Promise<OpenedPolicy> {
  const [{ policyFromLanguageModel }, { callOptions }] = await Promise.all([
    import('../../clients/language-model-policy.ts'),
    import('../../clients/language-model-prompt.ts'),
  ]);
  const { version = 0, maxRetries, maxConcurrent, maxWaitMs, strictStops = false, sampling = {} } = options;
  // A field that the AI SDK does not have is refused now.
  callOptions({ model: model.modelId, messages: [], ...sampling.extra }, model.specificationVersion);
  const images = imagesOf(options.environment);
  const client = policyFromLanguageModel(model, {
    versions: new PolicyVersions({ version, model: model.modelId }),
    maxRetries,
    maxConcurrentRequests: maxConcurrent,
    strictStops,
    ...(maxWaitMs !== undefined && { maxWaitMs }),
    ...(stream !== undefined && { stream }),
    ...(images !== undefined && { images }),
  });
  const who = `${model.modelId} of ${model.provider}`;
  const approximation = `${who} is a model of the AI SDK, which accepts only messages`;
  return openedChat(client, options, {
    model: model.modelId,
    kind: 'language-model',
    baseUrl: null,
    who: `${who} (AI SDK)`,
    because: [],
    approximation,
  });
}

/** Throws ConfigError for an environment that shows images and keeps none. */
function imagesOf(environment: OpenPolicyOptions['environment']): ImageStore | undefined {
  const { id, images } = environment;
  if (!showsImages(environment) || images !== undefined) return images;
  throw new ConfigError(`${id} shows images, but has no ImageStore with their bytes. Pass one to the environment as \`images\`.`);
}

interface ChatFacts extends Pick<OpenedPolicy, 'model' | 'kind' | 'baseUrl'> {
  readonly who: string;
  readonly because: readonly string[];
  /** The reason why a continuation is only approximated, as a clause. */
  readonly approximation: string;
}

function openedChat(client: PolicyClient, { environment }: OpenPolicyOptions, facts: ChatFacts): OpenedPolicy {
  const { model, kind, baseUrl, who, because, approximation } = facts;
  const isApproximate = (environment.turnFormats ?? [environment.turnFormat]).includes('continuation');
  const form = ['chat messages', ...(isApproximate ? ['an approximation'] : []), ...because];
  const notice =
    `Chat mode is an approximation here: the environment writes into the model's own turn, but ${approximation}. ` +
    'Observations are sent as user messages. The scored text is the same, but the rollouts cannot be exported for training.';
  return {
    client,
    model,
    kind,
    baseUrl,
    description: `${who} (${form.join(', ')})`,
    notices: isApproximate ? [notice] : [],
    [Symbol.asyncDispose]: () => client.close(),
  };
}

export function where({ baseUrls }: EndpointTarget): string {
  const [first, ...others] = baseUrls.map(redactUrl);
  return others.length === 0 ? first! : `${first} and ${others.length} more`;
}
