/**
 * The package `vf-search-models`: models and data sets that only proofs and demos need. In a clone it is the workspace `packages/vf-search-models`, elsewhere a package
 * that the user installs. The manifests of this package say which models and data sets are in it.
 */
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { ConfigError } from '../core/errors.ts';
import { IS_PUBLISHED } from '../core/is-published.ts';
import { packageRoot } from './package-root.ts';

const MODELS_PACKAGE = 'vf-search-models';

/** The package's name in an entry of a manifest. */
export interface PackagedEntry {
  /** @default this package */
  readonly package?: typeof MODELS_PACKAGE;
}

/** The folder of `vf-search-models`; null if it is not installed. */
export function modelsPackage(): string | null {
  try {
    return dirname(createRequire(join(packageRoot(), 'package.json')).resolve(`${MODELS_PACKAGE}/package.json`));
  } catch {
    // A missing package is not an error until a user asks for one of its models.
    return null;
  }
}

/** The folder `models` or `datasets` of the package that holds the entry; null if that package is not installed. */
export function entryFolder(entry: PackagedEntry, kind: 'models' | 'datasets'): string | null {
  const root = entry.package === undefined ? packageRoot() : modelsPackage();
  return root === null ? null : join(root, kind);
}

/** `what`: the missing thing, such as `The model nano-copy`. */
export function missingPackageError(what: string): ConfigError {
  const install = IS_PUBLISHED
    ? `Install it: npm install ${MODELS_PACKAGE}`
    : `Install it from a clone: npm install CLONE/packages/${MODELS_PACKAGE}`;
  return new ConfigError(`${what} is in the package ${MODELS_PACKAGE}, which is not installed. ${install}`);
}
