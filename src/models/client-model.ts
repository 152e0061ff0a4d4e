/**
 * A model behind a policy client: an OpenAI-compatible server, or the run's own policy. Every call takes its own lease, so that it does not belong to
 * a trajectory. A request's `data` never leaves this process.
 */
import type { ChatLease, PolicyCapabilities, PolicyClient, PolicyLease, TextSample } from '../clients/policy-client.ts';
import { untilAborted } from '../core/abort.ts';
import { PolicyError, PromptTooLongError } from '../core/errors.ts';
import type { Message } from '../core/message.ts';
import type { Model, ModelRequest } from '../core/model.ts';
import { type Sampling, templateVariables } from '../core/sampling.ts';
import { isObject, textsIn } from '../schemas/is-object.ts';
import type { CountedReply } from './retried.ts';

/** Greedy, so that the same question gets the same answer; a server that rejects the field goes without it. */
const DEFAULT_SAMPLING: Sampling = { temperature: 0, topP: null };

export interface ClientModelOptions {
  /** Its name in results. */
  readonly name: string;
  /** True for the run's own policy: replies then carry its version. */
  readonly isPolicy: boolean;
}

/**
 * Makes a policy client a model. `client` is called at every request, because a training run opens a new client when it restarts from a checkpoint.
 * @example clientModel(() => client, { name: 'gpt-4.1-mini', isPolicy: false })
 */
export function clientModel(client: () => PolicyClient, { name, isPolicy }: ClientModelOptions): Model {
  const chat = new ChatCalls();
  return {
    name,
    async generate(messages, request): Promise<CountedReply> {
      const { signal, onWait } = request;
      await using lease = await client().lease(signal, onWait && { onWait });
      const { requests, sample } =
        lease.kind === 'chat' ? await chat.generate(lease, messages, request) : await generateTokens(lease, messages, request);
      const { text, usage, finish, reasoning } = sample;
      const thoughts = reasoning === undefined ? {} : { reasoning };
      return { text, usage, finish, version: isPolicy ? lease.policy.version : null, ...thoughts, requests };
    },
  };
}

/** The reason why a policy cannot answer a conversation, as a clause; null if it can. */
export function chatProblem({ kind, chatTemplate = 'model' }: PolicyCapabilities): string | null {
  if (kind === 'chat' || chatTemplate !== null) return null;
  return 'its model has no chat template';
}

type Answer = { readonly sample: TextSample; readonly requests: number };

async function generateTokens(lease: Extract<PolicyLease, { kind: 'tokens' }>, messages: readonly Message[], request: ModelRequest): Promise<Answer> {
  const options = generateOptions(request);
  const rendered = lease.render(messages, { format: 'chat', variables: templateVariables(options.sampling) });
  const { ids: prompt, images } = await untilAborted(rendered, request.signal);
  const sample = await lease.generate({ prompt, ...(images.length === 0 ? {} : { images }), ...options });
  return { sample, requests: 1 };
}

/** Sends chat requests, with the reply's schema until the server rejects that field. */
class ChatCalls {
  #takesSchemas = true;

  async generate(lease: ChatLease, prompt: readonly Message[], request: ModelRequest): Promise<Answer> {
    const options = generateOptions(request);
    const { responseSchema } = request;
    if (responseSchema === undefined || !this.#takesSchemas) return { sample: await lease.generate({ prompt, ...options }), requests: 1 };
    try {
      return { sample: await lease.generate({ prompt, ...options, sampling: withSchema(options.sampling, responseSchema) }), requests: 1 };
    } catch (error) {
      if (!isRefusal(error)) throw error;
      // Error messages differ between servers. If the same request succeeds without the field, the field was the cause.
      const sample = await lease.generate({ prompt, ...options });
      this.#takesSchemas = false;
      return { sample, requests: 2 };
    }
  }
}

function isRefusal(error: unknown): boolean {
  return error instanceof PolicyError && !(error instanceof PromptTooLongError) && (error.status === 400 || error.status === 422);
}

function withSchema(sampling: Sampling, schema: Readonly<Record<string, unknown>>): Sampling {
  const format = { type: 'json_schema', json_schema: { name: 'reply', schema, strict: isClosed(schema) } };
  return { ...sampling, extra: { response_format: format, ...sampling.extra } };
}

/** True if every object in the schema names all its fields and requires them: OpenAI refuses any other schema as a strict one, and takes it as one that is not. */
function isClosed(schema: unknown): boolean {
  if (Array.isArray(schema)) return schema.every(isClosed);
  if (!isObject(schema)) return true;
  const { properties, required, additionalProperties } = schema;
  const isOpen =
    isObject(properties) && (additionalProperties !== false || Object.keys(properties).some((name) => !textsIn(required).includes(name)));
  return !isOpen && Object.values(schema).every(isClosed);
}

function generateOptions({ maxTokens, stop = [], sampling, signal }: ModelRequest) {
  return { sampling: { ...DEFAULT_SAMPLING, ...sampling }, maxNewTokens: maxTokens, stop, signal };
}
