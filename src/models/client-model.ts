/**
 * A model behind a policy client: an OpenAI-compatible server, or the run's own policy. Every call takes a lease of its own, so that it is
 * part of no trajectory. `data` of a request never leaves this process.
 */
import type { ChatLease, PolicyCapabilities, PolicyClient, PolicyLease, TextSample } from '../clients/policy-client.ts';
import { PolicyError, PromptTooLongError } from '../core/errors.ts';
import type { Message } from '../core/message.ts';
import type { Model, ModelRequest } from '../core/model.ts';
import type { Sampling } from '../core/sampling.ts';
import type { CountedReply } from './retried.ts';

/** Greedy: the same question gets the same answer. */
const DEFAULT_SAMPLING: Sampling = { temperature: 0, topP: 1 };

export interface ClientModelOptions {
  /** What to call it in results. */
  readonly name: string;
  /** The run's own policy, whose versions are recorded. */
  readonly isPolicy: boolean;
}

/** `client` is asked for with every call: a training run opens another one when it begins again from a checkpoint. */
export function clientModel(client: () => PolicyClient, { name, isPolicy }: ClientModelOptions): Model {
  const chat = new ChatCalls();
  return {
    name,
    async generate(messages, request): Promise<CountedReply> {
      await using lease = await client().lease(request.signal);
      const { requests, sample } =
        lease.kind === 'chat' ? await chat.generate(lease, messages, request) : await generateTokens(lease, messages, request);
      const { text, usage, finish } = sample;
      return { text, usage, finish, version: isPolicy ? lease.policy.version : null, requests };
    },
  };
}

/** Why a policy cannot answer a conversation; null where it can. */
export function chatProblem({ kind, chatTemplate = 'model' }: PolicyCapabilities): string | null {
  if (kind === 'chat' || chatTemplate !== null) return null;
  return 'its model has no chat template';
}

type Answer = { readonly sample: TextSample; readonly requests: number };

async function generateTokens(lease: Extract<PolicyLease, { kind: 'tokens' }>, messages: readonly Message[], request: ModelRequest): Promise<Answer> {
  const prompt = await lease.render(messages, { format: 'chat' });
  const sample = await lease.generate({ prompt, ...generateOptions(request) });
  return { sample, requests: 1 };
}

/** Chat requests, with the reply's schema until the server refuses that field. */
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
      // Servers word it in many ways. Whether it was the field shows when the same request passes without it.
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
  const format = { type: 'json_schema', json_schema: { name: 'reply', schema, strict: true } };
  return { ...sampling, extra: { response_format: format, ...sampling.extra } };
}

function generateOptions({ maxTokens, stop = [], sampling, signal }: ModelRequest) {
  return { sampling: { ...DEFAULT_SAMPLING, ...sampling }, maxNewTokens: maxTokens, stop, signal };
}
