/** The defaults that a folder of the user's gives a built-in server: `servers/NAME/parameter.yaml`, which UltraRAG's `build` reads. */
import { join } from 'node:path';
import { isObject } from '../schemas/is-object.ts';
import { kindOrNumber } from '../schemas/kind-of.ts';
import { parseYaml } from './parse-yaml.ts';
import type { Pipeline } from './pipeline.ts';
import { PipelineFileError } from './pipeline-error.ts';
import { readTextOfPipeline } from './pipeline-files.ts';
import type { PipelineServer, Values } from './pipeline-server.ts';
import { parseServerSource } from './server-source.ts';

export interface ServerDefaults {
  /** The file, as messages name it. */
  readonly where: string;
  readonly values: Values;
}

/** By server; a built-in server whose folder has no such file is not in the map. Rejects with PipelineFileError for a file that is not a table. */
export async function readServerDefaults({ servers }: Pipeline, resolve: (path: string) => string): Promise<ReadonlyMap<string, ServerDefaults>> {
  const found = new Map<string, ServerDefaults>();
  for (const [name, value] of Object.entries(servers)) {
    if (parseServerSource(name, value).kind !== 'builtin') continue;
    const where = resolve(join(typeof value === 'string' ? value : `servers/${name}`, 'parameter.yaml'));
    const text = await readTextOfPipeline(where);
    if (text === null) continue;
    const values = parseYaml(text, where) ?? {};
    if (!isObject(values))
      throw new PipelineFileError(`${where} must have a value for each parameter, got ${kindOrNumber(values)}`, { fault: 'parameter' });
    found.set(name, { where, values });
  }
  return found;
}

/** The server with these values as the defaults of its parameters. A key that it does not have is left: UltraRAG's own files name further backends. */
export function withDefaults(server: PipelineServer, values: Values): PipelineServer {
  if (server.parameters === 'any') return server;
  const known = Object.entries(server.parameters).filter(([key]) => Object.hasOwn(values, key));
  return {
    ...server,
    parameters: { ...server.parameters, ...Object.fromEntries(known.map(([key, schema]) => [key, { ...schema, default: values[key] }])) },
  };
}
