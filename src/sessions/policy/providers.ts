/**
 * Inference providers for `-p`, with the names and key variables of verifiers v0. A server on the user's own machine needs no key.
 */

export interface Provider {
  readonly name: string;
  readonly baseUrl: string;
  /** Environment variable of the key. */
  readonly keyVariable: string;
  readonly needsKey: boolean;
}

export const PROVIDERS: readonly Provider[] = [
  { name: 'vllm', baseUrl: 'http://localhost:8000/v1', keyVariable: 'VLLM_API_KEY', needsKey: false },
  { name: 'local', baseUrl: 'http://localhost:8000/v1', keyVariable: 'VLLM_API_KEY', needsKey: false },
  { name: 'openai', baseUrl: 'https://api.openai.com/v1', keyVariable: 'OPENAI_API_KEY', needsKey: true },
  { name: 'openrouter', baseUrl: 'https://openrouter.ai/api/v1', keyVariable: 'OPENROUTER_API_KEY', needsKey: true },
  { name: 'prime', baseUrl: 'https://api.pinference.ai/api/v1', keyVariable: 'PRIME_API_KEY', needsKey: true },
  // The OpenAI-compatible layer of the same API; v0 spoke the Messages API instead.
  { name: 'anthropic', baseUrl: 'https://api.anthropic.com/v1', keyVariable: 'ANTHROPIC_API_KEY', needsKey: true },
  { name: 'deepseek', baseUrl: 'https://api.deepseek.com/v1', keyVariable: 'DEEPSEEK_API_KEY', needsKey: true },
  { name: 'glm', baseUrl: 'https://open.bigmodel.cn/api/paas/v4', keyVariable: 'GLM_API_KEY', needsKey: true },
  { name: 'minimax', baseUrl: 'https://api.minimax.chat/v1', keyVariable: 'MINIMAX_API_KEY', needsKey: true },
];

/** Names the built-in policy, even if an endpoint is configured. */
export const BASELINE = 'baseline';

/** Names a model in this process. */
export const EMBEDDED = 'embedded';

export const PROVIDER_NAMES: readonly string[] = [...PROVIDERS.map((p) => p.name), EMBEDDED, BASELINE];
