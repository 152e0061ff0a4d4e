/** The parameters of a pipeline's servers: defaults, those of a `servers/NAME/parameter.yaml` before the package's, then the parameter file, then `--set`. */
import { suggestion } from '../core/closest-name.ts';
import { isObject } from '../schemas/is-object.ts';
import { kindOrNumber } from '../schemas/kind-of.ts';
import { allowedText } from '../schemas/config-keys.ts';
import { schemaCheck, schemaProblem } from '../schemas/schema-check.ts';
import { parseYaml } from './parse-yaml.ts';
import { PipelineFileError } from './pipeline-error.ts';
import type { PipelineServer, Values } from './pipeline-server.ts';
import type { ServerDefaults } from './server-defaults.ts';

export type Parameters = ReadonlyMap<string, Values>;

export interface ParameterSources {
  readonly servers: ReadonlyMap<string, PipelineServer>;
  /** Defaults of the user's, by server. */
  readonly defaults: ReadonlyMap<string, ServerDefaults>;
  /** The parsed parameter file; null if there is none. */
  readonly file: unknown;
  /** Names it in messages. */
  readonly where: string;
  /** `server.key=value`, the value in YAML; further keys lead into a table: `benchmark.benchmark.limit=5`. */
  readonly set: readonly string[];
}

/** The values that were set, without defaults. Throws PipelineFileError for an unknown server or key. */
export function setParameters({ servers, defaults, file, where, set }: ParameterSources): Parameters {
  if (file !== null && !isObject(file)) throw wrong('parameter', `${where} must have a table for each server, got ${kindOrNumber(file)}`);
  const values = new Map<string, Record<string, unknown>>([...servers.keys()].map((name) => [name, {}]));
  for (const [name, table] of Object.entries(file ?? {})) {
    const own = values.get(name);
    if (own === undefined) throw unknownServer(where, name, servers);
    if (table !== null && !isObject(table)) throw wrong('parameter', `${where}: ${name} must be a table, got ${kindOrNumber(table)}`);
    Object.assign(own, table);
  }
  const assertAllKnown = (source: string) => servers.forEach((server, name) => assertKnown(name, server, values.get(name)!, source));
  assertAllKnown(where);
  for (const text of set) assign(text, { values, defaults, servers });
  assertAllKnown('--set');
  return values;
}

/** The parameters, with defaults for those that are not set. Throws PipelineFileError for a used parameter without a value, or one of the wrong kind. */
export function completeParameters(
  set: Parameters,
  {
    servers,
    used,
    where,
  }: { readonly servers: ReadonlyMap<string, PipelineServer>; readonly used: ReadonlyMap<string, ReadonlySet<string>>; readonly where: string },
): Parameters {
  const complete = new Map<string, Values>();
  for (const [name, { parameters }] of servers) {
    const given = set.get(name) ?? {};
    const values = parameters === 'any' ? given : { ...defaultsOf(parameters), ...given };
    const missing = [...(used.get(name) ?? [])].find((key) => !Object.hasOwn(values, key));
    if (missing !== undefined) {
      throw wrong('parameter', `The parameter ${name}.${missing} is not set; set it in ${where}, or with --set ${name}.${missing}=VALUE`);
    }
    // The user's defaults count where they are used: UltraRAG's own files may have values of other backends.
    const counted = Object.entries(values).filter(([key]) => Object.hasOwn(given, key) || used.get(name)?.has(key) === true);
    if (parameters !== 'any') assertKinds(name, parameters, Object.fromEntries(counted));
    complete.set(name, values);
  }
  return complete;
}

type Schemas = Exclude<PipelineServer['parameters'], 'any'>;

export function defaultsOf(parameters: Schemas): Values {
  const withDefault = Object.entries(parameters).filter(([, schema]) => schema.default !== undefined);
  return Object.fromEntries(withDefault.map(([name, schema]) => [name, structuredClone(schema.default)]));
}

function assertKinds(server: string, parameters: Schemas, values: Values): void {
  for (const [name, schema] of Object.entries(parameters)) {
    if (!Object.hasOwn(values, name)) continue;
    const check = schemaCheck({ type: 'object', properties: { [name]: schema } });
    if (check({ [name]: values[name] })) continue;
    const isNumber = schema.type === 'integer' || schema.type === 'number';
    const problem = isNumber ? `${name} must be ${allowedText(schema)}, got ${kindOrNumber(values[name])}` : schemaProblem(check, name);
    throw wrong('parameter', `The parameter ${server}.${problem}`);
  }
}

interface Assigned extends Pick<ParameterSources, 'servers' | 'defaults'> {
  readonly values: ReadonlyMap<string, Record<string, unknown>>;
}

function assign(text: string, { values, defaults, servers }: Assigned): void {
  const [, path, value] = /^([^=]+)=(.*)$/s.exec(text) ?? [];
  const [server, ...keys] = path?.split('.') ?? [];
  if (path === undefined || server === undefined || keys.length === 0 || keys.includes('')) {
    throw wrong('parameter', `--set must be server.key=value, got ${JSON.stringify(text)}`);
  }
  const own = values.get(server);
  if (own === undefined) throw unknownServer('--set', server, servers);
  let table = own;
  const { parameters = {} } = servers.get(server) ?? {};
  // A key in a table leaves the defaults of the other keys.
  const fallback = { ...(parameters === 'any' ? {} : defaultsOf(parameters)), ...defaults.get(server)?.values };
  for (const [i, key] of keys.slice(0, -1).entries()) {
    const inner = Object.hasOwn(table, key) ? table[key] : ((i === 0 ? fallback[key] : null) ?? {});
    if (!isObject(inner)) throw wrong('parameter', `--set ${path}: ${key} is ${kindOrNumber(inner)}, not a table`);
    // A copy: the table may be a part of the parsed file.
    table = table[key] = { ...inner };
  }
  table[keys.at(-1)!] = parseYaml(value!, `--set ${path}`);
}

function assertKnown(name: string, { parameters }: PipelineServer, values: Values, where: string): void {
  if (parameters === 'any') return;
  const known = Object.keys(parameters);
  const stranger = Object.keys(values).find((key) => !known.includes(key));
  if (stranger === undefined) return;
  throw wrong('key', `${where}: the server ${name} has no parameter ${stranger}${suggestion(stranger, known)}; it has ${known.join(', ') || 'none'}`);
}

function unknownServer(where: string, name: string, servers: ReadonlyMap<string, PipelineServer>): PipelineFileError {
  const known = [...servers.keys()];
  return wrong(
    'server',
    `${where} has values for ${name}, which is not a server of the pipeline${suggestion(name, known)}; its servers are ${known.join(', ')}`,
  );
}

function wrong(fault: 'parameter' | 'key' | 'server', message: string): PipelineFileError {
  return new PipelineFileError(message, { fault });
}
