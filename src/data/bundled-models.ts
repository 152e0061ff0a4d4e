/** The bundled models, by name: `nano-base` instead of a directory. */
import { existsSync, readdirSync, realpathSync } from 'node:fs';
import { join, relative, sep } from 'node:path';
import { packageRoot } from './package-root.ts';

/** The default model. */
export const SMALLEST_MODEL = 'nano-base';

/** The directory of the bundled model of that name. Returns the text unchanged if it names something in the current folder or no bundled model. */
export function modelPath(text: string): string {
  if (!/^[\w.-]+$/.test(text) || existsSync(text)) return text;
  const bundled = join(modelsFolder(), text);
  return existsSync(join(bundled, 'config.json')) ? bundled : text;
}

export function bundledModels(): string[] {
  return readdirSync(modelsFolder(), { withFileTypes: true }).flatMap((entry) => (entry.isDirectory() ? [entry.name] : []));
}

/** The name of the bundled model in that directory; null for any other directory. */
export function bundledName(directory: string): string | null {
  if (!existsSync(directory)) return null;
  const within = relative(realpathSync(modelsFolder()), realpathSync(directory));
  return within !== '' && !within.startsWith('..') && !within.includes(sep) && bundledModels().includes(within) ? within : null;
}

function modelsFolder(): string {
  return join(packageRoot(), 'models');
}
