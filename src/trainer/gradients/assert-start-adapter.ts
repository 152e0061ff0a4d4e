/** Refuses an adapter that training cannot start from, before a Python, a server or an engine is started. */
import { resolve } from 'node:path';
import { ConfigError } from '../../core/errors.ts';
import { assertStarts, type StartWish } from '../../engine/adapters/start-adapter.ts';
import { EngineInputError } from '../../engine/engine-errors.ts';
import { modelFacts } from '../../files/model-facts.ts';
import { Folder } from '../../files/folder.ts';

/** Rejects with ConfigError unless the PEFT directory is plain LoRA of this rank, scale and targets, in every layer of the base. @param base its folder, if it is on this machine */
export async function assertStartAdapter(directory: string, wish: Omit<StartWish, 'layers'>, base: string): Promise<void> {
  const { layers } = modelFacts(base);
  await assertStarts(new Folder(resolve(directory)), layers === null ? wish : { ...wish, layers }).catch((error: unknown) => {
    throw error instanceof EngineInputError ? new ConfigError(error.message, { cause: error }) : error;
  });
}
