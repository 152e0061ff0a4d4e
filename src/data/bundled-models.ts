/** The bundled models, by name: `nano-base` instead of a directory. models/MANIFEST.json lists them. */
import { existsSync, readFileSync, realpathSync } from 'node:fs';
import { join } from 'node:path';
import { entryFolder, missingPackageError, type PackagedEntry } from './models-package.ts';
import { packageRoot } from './package-root.ts';

/** The default model. */
export const SMALLEST_MODEL = 'nano-base';

/**
 * The directory of the bundled model of that name. Returns the text unchanged if it names something in the current folder or no bundled model. Throws ConfigError, with
 * the command that installs it, for a model of a package that is not installed.
 */
export function modelPath(text: string): string {
  if (existsSync(text)) return text;
  const path = bundledPaths().get(text);
  if (path === null) throw missingPackageError(`The model ${text}`);
  return path ?? text;
}

/** Every bundled name, whether its package is installed or not. */
export function bundledModels(): string[] {
  return [...bundledPaths().keys()];
}

/** The directories of the bundled models that are installed, by name. */
export function installedModels(): ReadonlyMap<string, string> {
  return new Map([...bundledPaths()].flatMap(([name, path]) => (path === null ? [] : [[name, path]])));
}

/** The name of the bundled model in that directory; null for any other directory. */
export function bundledName(directory: string): string | null {
  if (!existsSync(directory)) return null;
  const real = realpathSync(directory);
  return (
    installedModels()
      .entries()
      .find(([, path]) => realpathSync(path) === real)?.[0] ?? null
  );
}

/** Null if the model's package is not installed. */
function bundledPaths(): Map<string, string | null> {
  const { models } = JSON.parse(readFileSync(join(packageRoot(), 'models/MANIFEST.json'), 'utf8')) as {
    readonly models: Readonly<Record<string, PackagedEntry>>;
  };
  return new Map(
    Object.entries(models).map(([name, entry]) => {
      const folder = entryFolder(entry, 'models');
      return [name, folder === null ? null : join(folder, name)];
    }),
  );
}
