/** Refuses an adapter that training cannot start from, before a Python, a server or an engine is started. */
import { readdirSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { ConfigError } from '../../core/errors.ts';
import { assertStarts, type StartWish } from '../../engine/adapters/start-adapter.ts';
import { EngineInputError } from '../../engine/engine-errors.ts';
import { Folder } from '../../files/folder.ts';
import { modelFacts } from '../../files/model-facts.ts';
import { openSafetensors } from '../../files/open-safetensors.ts';

/**
 * Rejects with ConfigError unless the PEFT directory is plain LoRA of this rank, scale and targets, in every layer of the base and of its sizes.
 * Returns whether its sizes could be compared.
 *
 * @param base its folder, if it is on this machine
 */
export async function assertStartAdapter(directory: string, wish: Omit<StartWish, 'layers' | 'sizesOf'>, base: string): Promise<boolean> {
  const { layers } = modelFacts(base);
  const known = layers === null ? {} : { layers };
  const sizes = await sizesIn(base);
  const names = new Set([...sizes.keys()].map(lastName));
  const sizesOf: StartWish['sizesOf'] = (path) => {
    const [key] = IN_LAYER.exec(path) ?? [];
    // Projections that the base fuses have no sizes of their own.
    return key === undefined || !names.has(lastName(key)) ? null : (sizes.get(key) ?? []);
  };
  await assertStarts(new Folder(resolve(directory)), { ...wish, ...known, sizesOf }).catch((error: unknown) => {
    throw error instanceof EngineInputError ? new ConfigError(error.message, { cause: error }) : error;
  });
  return sizes.size > 0;
}

/** From the layer's number on: what lies before it differs between releases of transformers, for a vision-language model. */
const IN_LAYER = /\blayers\.\d+\..+$/;

/** The sizes of the base's linear layers, as its files have them for every architecture. A vision tower may have a layer of the same name. */
async function sizesIn(base: string): Promise<ReadonlyMap<string, readonly Size[]>> {
  const sizes = new Map<string, Size[]>();
  for (const { name, shape } of await weightsOf(base)) {
    const [key] = IN_LAYER.exec(name.replace(/\.weight$/, '')) ?? [];
    if (key !== undefined && name.endsWith('.weight') && shape.length === 2) sizes.set(key, [...(sizes.get(key) ?? []), [shape[1]!, shape[0]!]]);
  }
  return sizes;
}

type Size = readonly [inputs: number, outputs: number];

function lastName(path: string): string {
  return path.slice(path.lastIndexOf('.') + 1);
}

/** None if the base is elsewhere, or is damaged, which what loads it reports. */
async function weightsOf(base: string) {
  try {
    const names = readdirSync(base).filter((name) => name.endsWith('.safetensors'));
    const opened = await Promise.all(names.map((name) => openSafetensors(join(base, name), { otherTypes: 'list' })));
    await Promise.all(opened.map(({ file }) => file.close()));
    return opened.flatMap(({ header }) => header.tensors);
  } catch {
    return [];
  }
}
