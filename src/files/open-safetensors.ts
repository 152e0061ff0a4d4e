import type { FileHandle } from 'node:fs/promises';
import { openRegularFile } from './regular-file.ts';
import { readSafetensorsHeader, type SafetensorsHeader, type SafetensorsOptions } from './safetensors.ts';

/** Opens a file and reads its header. The caller closes the handle. Throws SafetensorsError, ConfigError for a pipe or a device, or the system's error. */
export async function openSafetensors(
  path: string,
  options: SafetensorsOptions = {},
): Promise<{ readonly file: FileHandle; readonly header: SafetensorsHeader }> {
  const file = await openRegularFile(path);
  try {
    return { file, header: await readSafetensorsHeader(file, options) };
  } catch (error) {
    await file.close();
    throw error;
  }
}
