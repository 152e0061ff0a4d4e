/** The models that come with this package, by name: `nano-base` in place of a directory. */
import { existsSync, readdirSync, realpathSync } from 'node:fs';
import { join, relative, sep } from 'node:path';
import { packageRoot } from '../data/package-root.ts';

/** What plays and trains where nothing else is named. */
export const SMALLEST_MODEL = 'nano-base';

/** The directory of the bundled model of that name; any other text, and the name of something that is in this folder, as it stands. */
export function modelPath(text: string): string {
  if (!/^[\w.-]+$/.test(text) || existsSync(text)) return text;
  const bundled = join(modelsFolder(), text);
  return existsSync(join(bundled, 'config.json')) ? bundled : text;
}

export function bundledModels(): string[] {
  return readdirSync(modelsFolder(), { withFileTypes: true }).flatMap((entry) => (entry.isDirectory() ? [entry.name] : []));
}

/** The name of the bundled model that lies there; null for any other directory. */
export function bundledName(directory: string): string | null {
  if (!existsSync(directory)) return null;
  const within = relative(realpathSync(modelsFolder()), realpathSync(directory));
  return within !== '' && !within.startsWith('..') && !within.includes(sep) && bundledModels().includes(within) ? within : null;
}

function modelsFolder(): string {
  return join(packageRoot(), 'models');
}
