/**
 * Imports an environment's module. TypeScript goes through tsx, which is loaded then and not before: Node strips types neither under
 * node_modules nor below 22.18. Whatever an environment imports from `vf-search` is this very copy of it, wherever its folder lies, so that
 * `instanceof` holds between an environment and whoever plays it.
 */
import { existsSync, readFileSync } from 'node:fs';
import module from 'node:module';
import { dirname, join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { ConfigError } from '../core/errors.ts';
import { OWN_EXTENSION } from './find-environment.ts';
import { type OwnModules, resolveOwn } from './own-modules.ts';

/** Sets the environment's modules apart from everything else that tsx might be asked for in this process. */
const NAMESPACE = 'vf-search-environments';

const own: OwnModules = {
  index: new URL(`../index${OWN_EXTENSION}`, import.meta.url).href,
  environments: new URL('../../environments/', import.meta.url).href,
  extension: OWN_EXTENSION,
};

let hooked = false;
let typescript: Promise<(url: string) => Promise<unknown>> | undefined;

/** `isOwn` marks modules of this package: they run as they are. */
export async function importEnvironment(path: string, options: { readonly isOwn: boolean }): Promise<Readonly<Record<string, unknown>>> {
  const { href } = pathToFileURL(path);
  const needsTypeScript = !options.isOwn && /\.[mc]?ts$/.test(path);
  if (needsTypeScript && typeof module.registerHooks !== 'function' && !isModule(path)) {
    throw new ConfigError(
      `Expected a package.json with "type": "module" beside ${path}, found none: Node ${process.versions.node} needs it, from 22.15 on it may be missing`,
    );
  }
  const importModule = needsTypeScript ? await (typescript ??= startTypeScript()) : (url: string) => import(url) as Promise<unknown>;
  // After tsx: the hook that is registered last is asked first.
  if (!hooked) hookOwnModules();
  return (await importModule(href)) as Record<string, unknown>;
}

/** What Node takes a TypeScript file for: the `"type"` of the nearest package.json says. */
function isModule(path: string): boolean {
  if (!path.endsWith('.ts')) return path.endsWith('.mts');
  for (let folder = dirname(path); ; folder = dirname(folder)) {
    const manifest = join(folder, 'package.json');
    if (existsSync(manifest)) return (JSON.parse(readFileSync(manifest, 'utf8')) as { type?: string }).type === 'module';
    if (folder === dirname(folder)) return false;
  }
}

/** With the CommonJS half too: without `"type": "module"` in a package.json above it, a `.ts` file counts as CommonJS. */
async function startTypeScript(): Promise<(url: string) => Promise<unknown>> {
  const [esm, cjs] = await Promise.all([import('tsx/esm/api'), import('tsx/cjs/api')]);
  cjs.register({ namespace: NAMESPACE });
  const scoped = esm.register({ namespace: NAMESPACE, tsconfig: false });
  hooked = false;
  return (url) => scoped.import(url, import.meta.url) as Promise<unknown>;
}

/** On Node before 22.15 the hook runs on a thread of its own and sees `import`, not `require`. */
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
