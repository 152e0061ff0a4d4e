/** A client of the nano model behind one URL: the real server, a replayed one or a faulty one. */
import { PolicyVersions } from '../../src/clients/policy-versions.ts';
import { VllmTokensClient, type VllmTokensOptions } from '../../src/clients/vllm-tokens.ts';
import type { OpenedPolicy, PolicyTraits } from '../contracts/policy-client.ts';

/** The model of test/models/nano-base, as scripts/vllm-cpu/serve.sh names it. */
export const NANO_MODEL = 'nano-base';

/** Its tokenizer has 1537 to 1539 as special tokens, no chat template but ChatML's tokens, and its greedy answer holds an answer tag. */
export const NANO_TRAITS: PolicyTraits = {
  kind: 'tokens',
  isWindowed: true,
  messages: [{ role: 'user', content: 'Question: who wrote it?\n' }],
  stop: '</answer>',
  hasTurns: true,
  control: { text: '<|im_end|>', ids: [1537, 1538, 1539] },
  isSlow: true,
  pictures: null,
};

export interface OpenedVllm extends OpenedPolicy {
  readonly client: VllmTokensClient;
  readonly versions: PolicyVersions;
}

export type OpenVllmOptions = Partial<Omit<VllmTokensOptions, 'baseUrls' | 'versions'>> & { readonly model?: string };

export async function openVllm(urls: string | readonly string[], { model = NANO_MODEL, ...options }: OpenVllmOptions = {}): Promise<OpenedVllm> {
  const versions = new PolicyVersions({ version: 0, model });
  const capabilities = { maxModelLen: 2048, tokenizerHash: null, logProbsMode: 'raw' } as const;
  const client = new VllmTokensClient({ baseUrls: typeof urls === 'string' ? [urls] : urls, versions, capabilities, ...options });
  return { client, versions, [Symbol.asyncDispose]: () => client.close() };
}
