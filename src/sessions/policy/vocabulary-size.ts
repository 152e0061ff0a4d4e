import { readFileSync } from 'node:fs';
import { join } from 'node:path';

/** `vocab_size` in the config.json of a model directory; every token id is below it. Null for a hub id, or if the file does not have it. */
export function vocabularySize(modelPath: string): number | null {
  try {
    const config = JSON.parse(readFileSync(join(modelPath, 'config.json'), 'utf8')) as Record<string, unknown>;
    // Vision-language models keep the language model's settings in a separate table.
    const size = config['vocab_size'] ?? (config['text_config'] as Record<string, unknown> | undefined)?.['vocab_size'];
    return typeof size === 'number' && Number.isSafeInteger(size) && size > 0 ? size : null;
  } catch {
    return null;
  }
}
