/** A client of a small vision-language model (scripts/random-vlm): the real server, a replayed one or a loopback imitation. */
import type { ImageTokenRules } from '../../src/clients/policy-client.ts';
import type { ImageRef } from '../../src/core/message.ts';
import type { RunImages } from '../../src/files/run-images.ts';
import type { PolicyTraits } from '../contracts/policy-client.ts';
import { type OpenedVllm, openVllm, type OpenVllmOptions } from '../loopback/vllm-client.ts';
import { paintedStore } from './painted-store.ts';

export const VLM_FORMS = ['qwen3_vl', 'qwen2_5_vl'] as const;
export type VlmForm = (typeof VLM_FORMS)[number];

/** Its vocabulary is that of models/nano-base with five vision tokens after it. */
const VISION_IDS = { start: 1597, pad: 1600, end: 1598 } as const;
const UNITS: Readonly<Record<VlmForm, number>> = { qwen3_vl: 32, qwen2_5_vl: 28 };
/** Words of the greedy answers to the traits' question. */
export const STOPS: Readonly<Record<VlmForm, string>> = { qwen3_vl: ' Brinbos', qwen2_5_vl: ' Melm' };

/** As the server reports them under the flags of the tests. */
export function rulesOf(form: VlmForm): ImageTokenRules {
  const unit = UNITS[form];
  return { unit, minPixels: 4 * unit * unit, maxPixels: 1024 * unit * unit, maxPerPrompt: 16, ...VISION_IDS };
}

export interface VlmPictures {
  readonly store: RunImages;
  /** Twenty pictures of 4 × 3 units. */
  readonly images: readonly ImageRef[];
}

export function vlmPictures(form: VlmForm): Promise<VlmPictures> {
  const { unit } = rulesOf(form);
  return paintedStore(20, 4 * unit, 3 * unit);
}

export function vlmTraits(form: VlmForm, { store, images }: VlmPictures): PolicyTraits {
  return {
    kind: 'tokens',
    isWindowed: true,
    messages: [{ role: 'user', content: 'Question: who wrote it?\n' }],
    stop: STOPS[form],
    hasTurns: true,
    control: { text: '<|im_end|>', ids: [1586, 1587, 1588, 1597, 1598, 1599, 1600, 1601] },
    isSlow: true,
    pictures: { store, images, rules: rulesOf(form), tokens: 12 },
  };
}

/** As after a probe. */
export function openVlm(
  urls: string | readonly string[],
  form: VlmForm,
  { store }: Pick<VlmPictures, 'store'>,
  more: OpenVllmOptions = {},
): Promise<OpenedVllm> {
  const capabilities = {
    maxModelLen: 4096,
    tokenizerHash: null,
    logProbsMode: 'raw',
    chatTemplate: 'model',
    beginsWithBos: false,
    closingTokenId: 1588,
    images: true,
    imageTokens: rulesOf(form),
  } as const;
  return openVllm(urls, { model: form, capabilities, images: store, ...more });
}
