/**
 * A policy behind any OpenAI-compatible chat API. It gives no tokens and no log-probs, so it cannot be trained. Streams are read by the `openai` package, imported at the first
 * one; its client would take as long again as everything else that a request costs here.
 */
import { ConfigError } from '../core/errors.ts';
import { ChatClient, type ChatClientOptions } from './chat-client.ts';
import { ChatReplica } from './openai-chat-replica.ts';
import type { StreamSetting } from './policy-client.ts';

export interface OpenAIChatOptions extends ChatClientOptions {
  /** With the version in the path: `https://api.openai.com/v1`. Several URLs are replicas of one model; a trajectory stays on one. */
  readonly baseUrls: readonly string[];
  /** Sent as a bearer token. @default none */
  readonly apiKey?: string;
  /** The environment variable that contains the key, for error messages. @default none */
  readonly apiKeyVariable?: string;
  /** Sent with every request; they override the default headers. */
  readonly headers?: Readonly<Record<string, string>>;
  /** Whether completions are asked for as streams. @default 'auto' */
  readonly stream?: StreamSetting;
}

/**
 * A chat policy for evaluation. The constructor throws ConfigError if `baseUrls` is empty or has a malformed URL.
 * @example
 * new OpenAIChatClient({ baseUrls: ['https://api.openai.com/v1'], versions: new PolicyVersions({ version: 0, model: 'gpt-4.1-mini' }), apiKey })
 */
export class OpenAIChatClient extends ChatClient {
  constructor(options: OpenAIChatOptions) {
    const { baseUrls } = options;
    if (baseUrls.length === 0) throw new ConfigError('baseUrls is empty. Pass the base URL of at least one OpenAI-compatible API.');
    super(options, ({ rejected }) => baseUrls.map((baseUrl) => new ChatReplica(baseUrl, options, rejected)));
  }
}
