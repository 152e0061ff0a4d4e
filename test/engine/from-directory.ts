/** What the engine reads through a `ByteSource`, here of directories on disk. */
import { type LoadModelOptions, loadModel as loadFrom } from '../../src/engine/model/load-model.ts';
import { readWeightTypes as typesOf } from '../../src/engine/model/model-files.ts';
import { readModelConfig as configOf } from '../../src/engine/model/read-model-config.ts';
import { readAdapter as adapterOf } from '../../src/engine/adapters/read-adapter.ts';
import { Folder } from '../../src/files/folder.ts';

export const loadModel = (directory: string, options: LoadModelOptions) => loadFrom(new Folder(directory), options);
export const readWeightTypes = (directory: string) => typesOf(new Folder(directory));
export const readModelConfig = (directory: string, options?: Parameters<typeof configOf>[1]) => configOf(new Folder(directory), options);
export const readAdapter = (directory: string, ...rest: Parameters<typeof adapterOf> extends [unknown, ...infer R] ? R : never) =>
  adapterOf(new Folder(directory), ...rest);
