import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { isObject } from '../../schemas/is-object.ts';

/** Whether the config.json of a model directory describes a vision tower. False for a hub id, or if the file cannot be read. */
export function hasVisionTower(modelPath: string): boolean {
  try {
    const config: unknown = JSON.parse(readFileSync(join(modelPath, 'config.json'), 'utf8'));
    return isObject(config) && isObject(config['vision_config']);
  } catch {
    return false;
  }
}
