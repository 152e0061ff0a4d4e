import type { LanguageModel } from '../../clients/language-model.ts';
import type { Price } from '../../core/price.ts';

/** A caller's description of a policy. Everything is optional: without a server or a model, the environment's built-in baseline plays. */
export interface PolicySpec {
  /** A model of the AI SDK, such as `openai('gpt-5')`, in place of a server: it is evaluated, and not trained. @default none */
  readonly languageModel?: LanguageModel;
  /**
   * A server by name (`vllm`, `openai`, ...), `embedded` for a model in this process, `baseline`, or a module of yours that exports a model of the AI SDK as `policy`
   * (`./my-policy.ts`). @default the server at `baseUrl`
   */
  readonly provider?: string;
  /** Any OpenAI-compatible server, up to and including `/v1`. @default that of `provider`, else the environment variable VF_BASE_URL */
  readonly baseUrl?: string;
  /**
   * The name of the model at its server, an alias of `endpoints.toml`, or, with `provider: 'embedded'`, a directory, a bundled model or an adapter.
   * @default the environment variable VF_MODEL, else the server's only model; embedded: the environment's own small model
   */
  readonly model?: string;
  /** The key itself. @default the value of `apiKeyVar` */
  readonly apiKey?: string;
  /** Environment variable that holds the key. @default that of `provider`, else VF_API_KEY */
  readonly apiKeyVar?: string;
  /** `tokens`, `chat`, or `auto`: the mode that the server supports. @default 'auto' */
  readonly clientType?: string;
  /**
   * Whether a chat API is asked for streams: true, false, or `auto`, once it has refused a plain request or a gateway has cut a silent connection.
   * @default 'auto'
   */
  readonly stream?: 'auto' | boolean;
  /** HTTP headers sent to the server. @default none */
  readonly headers?: Readonly<Record<string, string>>;
  /** TOML file with aliases, replicas and prices. @default ./configs/endpoints.toml, else the package's own */
  readonly endpointsPath?: string;
  /** US dollars per million tokens. @default that of `endpoints.toml` */
  readonly price?: Price;
}
