/** Resolves `vf-search` and its environments for environments that import them by name. Also runs on Node's hook thread, so it imports nothing. */

/** URLs of the running copy of the package. Plain data, because it crosses threads. */
export interface OwnModules {
  readonly index: string;
  /** Ends in `/`. */
  readonly environments: string;
  readonly extension: string;
}

/** The entries other than the main one, and the source folders whose files package.json exports one by one. */
const BARREL = /^vf-search\/(engine|execution)$/;
const TOP = /^vf-search\/(environment-kit|rollouts|trainer)$/;
const EXPORTED = /^vf-search\/((?:clients|metrics|tokenizer)\/[\w-]+)$/;

/** The URL of a specifier that names this package, or null for any other. */
export function resolveOwn(specifier: string, own: OwnModules): string | null {
  const [name] = specifier.split('?');
  if (name === 'vf-search') return own.index;
  if (name === 'vf-search/pipelines') return new URL(`registry/open-pipeline${own.extension}`, own.index).href;
  const [, barrel] = BARREL.exec(name!) ?? [];
  if (barrel !== undefined) return new URL(`${barrel}/index${own.extension}`, own.index).href;
  const [, file] = TOP.exec(name!) ?? EXPORTED.exec(name!) ?? [];
  if (file !== undefined) return new URL(`${file}${own.extension}`, own.index).href;
  const [, id] = /^vf-search\/environments\/([\w-]+)$/.exec(name!) ?? [];
  return id === undefined ? null : `${own.environments}${id}/environment${own.extension}`;
}

let own: OwnModules | undefined;

/** Node calls it on the hook thread after `module.register`. @public */
export function initialize(data: OwnModules): void {
  own = data;
}

interface Resolved {
  readonly url: string;
  readonly format?: string;
  readonly shortCircuit?: boolean;
}

/** The resolve hook on its own thread. @public */
export async function resolve(
  specifier: string,
  context: unknown,
  next: (specifier: string, context: unknown) => Promise<Resolved>,
): Promise<Resolved> {
  const url = own === undefined ? null : resolveOwn(specifier, own);
  return url === null ? next(specifier, context) : { url, format: 'module', shortCircuit: true };
}
