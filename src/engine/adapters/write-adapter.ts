/** Writes an adapter as a PEFT directory for peft, vLLM and the torch worker. */
import { type AdapterContents, adapterFiles } from './adapter-files.ts';
import { baseName } from './base-name.ts';
import { writeDirectory, type WrittenFile } from './write-directory.ts';

export interface WriteAdapterOptions extends AdapterContents {
  /** The base model's directory or hub id. `adapter_config.json` has its `baseName`. */
  readonly baseModel: string;
}

/** Writes float32. `directory` must not exist; it is complete and durable when this resolves, and absent when it rejects. Rejects like writeDirectory. */
export async function writeAdapter(directory: string, { baseModel, ...adapter }: WriteAdapterOptions): Promise<readonly WrittenFile[]> {
  return await writeDirectory(directory, adapterFiles(adapter, baseName(baseModel)));
}
