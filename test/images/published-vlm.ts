/** What a publish to a small vision-language model (scripts/random-vlm) needs: the description of its adapters, and a prompt that shows two pictures. */
import type { ImageStore, PlacedImage } from '../../src/core/message.ts';
import type { AdapterDescription } from '../../src/trainer/gradient-backend.ts';
import { NANO_ADAPTER } from '../trainer/publisher/adapter-files.ts';
import { paintedStore } from './painted-store.ts';
import { rulesOf, type VlmForm } from './vlm-client.ts';

/** Its language model has two layers in the shapes of models/nano-base. */
export function vlmAdapter(form: VlmForm): AdapterDescription {
  const modules = NANO_ADAPTER.modules.filter(({ path }) => /^model\.layers\.[01]\./.test(path));
  return {
    ...NANO_ADAPTER,
    baseModel: form,
    modules: modules.map((module) => ({ ...module, path: module.path.replace('model.', 'model.language_model.') })),
    vocabularySize: 1602,
  };
}

export interface PicturedPrompt {
  readonly store: ImageStore;
  readonly pad: number;
  readonly prompt: { readonly ids: Int32Array; readonly images: readonly PlacedImage[] };
}

export async function picturedPrompt(form: VlmForm): Promise<PicturedPrompt> {
  const { unit, start, pad, end } = rulesOf(form);
  const { store, images } = await paintedStore(2, 4 * unit, 3 * unit);
  const words = (count: number, from: number) => Array.from({ length: count }, (_, i) => 300 + (((from + i) * 37) % 900));
  const ids = [...words(5, 0)];
  const placed = images.map((image, i) => {
    ids.push(start, ...Array.from({ length: 12 }, () => pad), end, ...words(i === 0 ? 4 : 28, 10 * i));
    return { ...image, offset: ids.lastIndexOf(start) + 1, length: 12 };
  });
  return { store, pad, prompt: { ids: Int32Array.from(ids), images: placed } };
}
