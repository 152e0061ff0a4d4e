/**
 * Imports an environment's module. TypeScript goes through tsx, loaded only when needed, because Node strips no types under node_modules or before
 * 22.18. An environment's imports of `vf-search` resolve to this copy of the package, wherever its folder is, so that `instanceof` works between the
 * environment and the code that plays it.
 */
import { closeSync, existsSync } from 'node:fs';
import module from 'node:module';
import { dirname, join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { jsonFieldsAt } from '../files/json-file.ts';
import { openRegularFileSync } from '../files/regular-file.ts';
import { ConfigError } from '../core/errors.ts';
import { OWN_EXTENSION } from './find-environment.ts';
import { type OwnModules, resolveOwn } from './own-modules.ts';

/** Separates environments from other uses of tsx in this process. */
const NAMESPACE = 'vf-search-environments';

const own: OwnModules = {
  index: new URL(`../index${OWN_EXTENSION}`, import.meta.url).href,
  environments: new URL('../../environments/', import.meta.url).href,
  extension: OWN_EXTENSION,
};

let hooked = false;
let typescript: Promise<(url: string) => Promise<unknown>> | undefined;

/** `isOwn`: the module belongs to this package and runs without tsx. */
export async function importEnvironment(path: string, options: { readonly isOwn: boolean }): Promise<Readonly<Record<string, unknown>>> {
  // The loaders of Node and tsx would wait for a pipe without end.
  if (existsSync(path)) closeSync(openRegularFileSync(path));
  const { href } = pathToFileURL(path);
  const needsTypeScript = !options.isOwn && /\.[mc]?ts$/.test(path);
  if (needsTypeScript && typeof module.registerHooks !== 'function' && !isModule(path)) {
    throw new ConfigError(
      `${path} needs a package.json with "type": "module" next to it under Node ${process.versions.node}. Add one, or use Node 22.15 or later.`,
    );
  }
  const importModule = needsTypeScript ? await (typescript ??= startTypeScript()) : (url: string) => import(url) as Promise<unknown>;
  // After tsx, because the hook that is registered last runs first.
  if (!hooked) hookOwnModules();
  try {
    return (await importModule(href)) as Record<string, unknown>;
  } catch (cause) {
    if (!(cause instanceof Error && TOP_LEVEL_AWAIT.test(cause.message))) throw cause;
    throw new ConfigError(
      `${path} could not be imported: it, or a file that it imports, has an await outside of functions. Add a package.json with "type": "module" next to it, or name the file .mts.`,
      { cause },
    );
  }
}

/** esbuild's refusal in a file that counts as CommonJS. */
const TOP_LEVEL_AWAIT = /^Transform failed[^]*Top-level await[^]*"cjs"/;

/** Tells whether Node treats a TypeScript file as an ES module, which depends on its extension or on `"type"` in the nearest package.json. */
function isModule(path: string): boolean {
  if (!path.endsWith('.ts')) return path.endsWith('.mts');
  for (let folder = dirname(path); ; folder = dirname(folder)) {
    const manifest = join(folder, 'package.json');
    if (existsSync(manifest)) return jsonFieldsAt(manifest)['type'] === 'module';
    if (folder === dirname(folder)) return false;
  }
}

/** Registers the CommonJS half too: without `"type": "module"` in a package.json above it, a `.ts` file counts as CommonJS. */
async function startTypeScript(): Promise<(url: string) => Promise<unknown>> {
  const [esm, cjs] = await Promise.all([import('tsx/esm/api'), import('tsx/cjs/api')]);
  cjs.register({ namespace: NAMESPACE });
  const scoped = esm.register({ namespace: NAMESPACE, tsconfig: false });
  hooked = false;
  return (url) => scoped.import(url, import.meta.url) as Promise<unknown>;
}

/** Before Node 22.15, the hook runs on its own thread and handles `import` but not `require`. */
function hookOwnModules(): void {
  hooked = true;
  if (typeof module.registerHooks === 'function') {
    module.registerHooks({
      resolve: (specifier, context, next) => {
        const url = resolveOwn(specifier, own);
        return url === null ? next(specifier, context) : { url, format: formatOf(url), shortCircuit: true };
      },
    });
  } else {
    module.register(new URL(`./own-modules${OWN_EXTENSION}`, import.meta.url), { data: own });
  }
}

function formatOf(url: string): string {
  return url.endsWith('.ts') ? 'module-typescript' : 'module';
}
