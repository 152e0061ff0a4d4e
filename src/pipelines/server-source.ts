/** Reads the entries of a pipeline's table `servers`. */
import type { McpSource } from '../mcp/mcp-connection.ts';
import { isObject } from '../schemas/is-object.ts';
import { kindOrNumber } from '../schemas/kind-of.ts';
import { PipelineFileError } from './pipeline-error.ts';
import { BUILTIN_SERVERS, type BuiltinServer, isBuiltinServer } from './servers/builtin-servers.ts';
import { withoutTrailingSlashes } from '../core/server-url.ts';

export type ServerSource =
  | { readonly kind: 'builtin'; readonly name: BuiltinServer }
  /** A TypeScript or JavaScript file that exports tools. */
  | { readonly kind: 'module'; readonly path: string }
  | McpSource;

/**
 * Reads one entry: `servers/generation` or nothing, the built-in server of that name; a path ending in .ts, .mts, .js or .mjs; a URL; `{command, args, env}`;
 * `{url, headers}`. Throws PipelineFileError.
 */
export function parseServerSource(name: string, value: unknown): ServerSource {
  if (value === null) return builtin(name, name);
  if (typeof value === 'string') {
    if (/\.[mc]?[jt]s$/.test(value)) return { kind: 'module', path: value };
    if (/^https?:\/\//i.test(value)) return { kind: 'url', url: value, headers: {} };
    return builtin(name, withoutTrailingSlashes(value).split('/').at(-1)!);
  }
  if (!isObject(value)) throw wrong(name, `must be a path, a URL or a table, got ${kindOrNumber(value)}`);
  if ('url' in value) {
    assertKeys(name, value, ['url', 'headers']);
    const { url, headers = {} } = value;
    if (typeof url !== 'string' || !/^https?:\/\//i.test(url))
      throw wrong(name, `needs a url that begins with http:// or https://, got ${kindOrNumber(url)}`);
    return { kind: 'url', url, headers: textTable(name, 'headers', headers) };
  }
  assertKeys(name, value, ['command', 'args', 'env']);
  const { command, args = [], env = {} } = value;
  if (typeof command !== 'string' || command === '') throw wrong(name, 'needs a command, or a url');
  if (!Array.isArray(args) || !args.every((arg) => typeof arg === 'string'))
    throw wrong(name, 'has args that are not a list of texts; write numbers in quotes');
  return { kind: 'command', command, args, env: textTable(name, 'env', env) };
}

function builtin(name: string, wanted: string): ServerSource {
  if (isBuiltinServer(wanted)) return { kind: 'builtin', name: wanted };
  throw wrong(
    name,
    `is ${JSON.stringify(wanted)}, which is not built in; there are ${BUILTIN_SERVERS.join(', ')}. For a server of your own, name a .ts file, {command, args} or {url}`,
  );
}

function textTable(name: string, key: string, value: unknown): Readonly<Record<string, string>> {
  if (isObject(value) && Object.values(value).every((each) => typeof each === 'string')) return value as Record<string, string>;
  throw wrong(name, `has ${key} that are not a table of texts; write numbers in quotes`);
}

function assertKeys(name: string, value: Readonly<Record<string, unknown>>, known: readonly string[]): void {
  const stranger = Object.keys(value).find((key) => !known.includes(key));
  if (stranger !== undefined) throw wrong(name, `has the unknown key ${JSON.stringify(stranger)}; known are ${known.join(', ')}`);
}

function wrong(name: string, message: string): PipelineFileError {
  return new PipelineFileError(`The server ${name} ${message}`, { fault: 'server' });
}
