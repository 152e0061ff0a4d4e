/** Opens a client of an OpenAI-compatible chat API, for policies, roles and pipelines: no other code makes one. */
import type { OpenAIChatClient, OpenAIChatOptions } from '../clients/openai-chat.ts';
import { PolicyVersions } from '../clients/policy-versions.ts';

/** A chat API: its addresses, key, headers, deadlines and retries. */
export interface ChatApi extends Omit<OpenAIChatOptions, 'versions' | 'apiKey' | 'apiKeyVariable' | 'images'> {
  readonly model: string;
  /** Version of the model's weights, for the record. @default 0 */
  readonly version?: number | undefined;
  /** Null sends no key. */
  readonly apiKey: string | null;
  /** The environment variable of the key, for error messages; null if it has none. */
  readonly keyVariable: string | null;
  /** @default none: then messages may contain text only */
  readonly images?: OpenAIChatOptions['images'] | undefined;
}

/**
 * Contacts no server, and loads the client's code at the first call. Rejects with ConfigError for a malformed URL. Close the client at the end.
 * @example const client = await openChatApi({ baseUrls: ['http://localhost:8000/v1'], model: 'qwen', apiKey: null, keyVariable: null });
 */
export async function openChatApi({ model, version = 0, apiKey, keyVariable, images, ...options }: ChatApi): Promise<OpenAIChatClient> {
  const { OpenAIChatClient } = await import('../clients/openai-chat.ts');
  return new OpenAIChatClient({
    ...options,
    versions: new PolicyVersions({ version, model }),
    ...(apiKey !== null && { apiKey }),
    ...(keyVariable !== null && { apiKeyVariable: keyVariable }),
    ...(images !== undefined && { images }),
  });
}
