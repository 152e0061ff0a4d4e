/** Writes the parameters that the steps of a pipeline use, keeps those that are set, and copies the package's files that it names. */
import { copyFileSync, existsSync, statSync } from 'node:fs';
import { dirname, join, relative, sep } from 'node:path';
import { isMap, stringify } from 'yaml';
import { replaceFile } from '../files/json-lines.ts';
import { makeFolder } from '../files/make-folder.ts';
import { placeError } from '../files/place-error.ts';
import { fieldsOf, textsIn } from '../schemas/is-object.ts';
import type { OpenPipeline } from './open-pipeline.ts';
import { defaultsOf, type Parameters } from './parameters.ts';
import { parseYaml, parseYamlDocument } from './parse-yaml.ts';
import { toolSteps } from './pipeline.ts';
import { parameterPath, readParameterFile } from './pipeline-files.ts';

export interface BuildOptions {
  /** The pipeline's file, as the user named it. */
  readonly named: string;
  /** True for the package's file, which is copied to `named`. */
  readonly isBundled: boolean;
  /** The folder of the package's examples. */
  readonly examples: string;
}

export interface BuiltParameters {
  readonly target: string;
  /** False if the file was complete: it stays as it is, byte for byte. */
  readonly isWritten: boolean;
  readonly copied: readonly string[];
  /** Used parameters without a value. */
  readonly unset: readonly (readonly [server: string, key: string])[];
}

/** Throws ConfigError for a folder that cannot be made. */
export async function buildParameters(pipeline: OpenPipeline, { named, isBundled, examples }: BuildOptions): Promise<BuiltParameters> {
  const target = parameterPath(named);
  try {
    const copied = isBundled ? copyExample(pipeline, named) : copyMissing(pipeline, named, examples);
    return { target, copied, isWritten: await writeParameters(pipeline, named), unset: unset(pipeline) };
  } catch (error) {
    throw placeError(error, { flag: named, path: dirname(target) });
  }
}

/** Tells whether the file was written: a complete file stays as it is, byte for byte. */
async function writeParameters(pipeline: OpenPipeline, named: string): Promise<boolean> {
  const target = parameterPath(named);
  const wanted = wantedParameters(pipeline);
  const existing = await readParameterFile(named);
  if (existing === null || existing.path !== target) {
    await writeText(target, stringify(Object.fromEntries(wanted), { version: '1.1', sortMapEntries: true, lineWidth: 0 }));
    return true;
  }
  const before = fieldsOf(parseYaml(existing.text, existing.path));
  const document = parseYamlDocument(existing.text, existing.path);
  let isChanged = false;
  for (const [server, values] of wanted) {
    for (const [key, value] of Object.entries(values)) {
      if (JSON.stringify(fieldsOf(before[server])[key]) === JSON.stringify(value)) continue;
      if (!isMap(document.get(server))) document.set(server, document.createNode({}));
      document.setIn([server, key], document.createNode(value));
      isChanged = true;
    }
  }
  if (isChanged) await writeText(target, document.toString({ lineWidth: 0 }));
  return isChanged;
}

/** All set values, and the defaults of those that the steps use; an empty table for a server that needs nothing. */
function wantedParameters({ servers, set, plan }: OpenPipeline): Parameters {
  const needsEndOfTurn = toolSteps(plan.steps).some(({ tool }) => tool.needsEndOfTurn === true);
  return new Map(
    [...servers].map(([name, { parameters, showingEndOfTurn }]) => {
      const plain = parameters === 'any' ? {} : defaultsOf(parameters);
      const defaults = needsEndOfTurn && showingEndOfTurn !== undefined ? { ...plain, ...showingEndOfTurn(plain) } : plain;
      const used = [...(plan.used.get(name) ?? [])].filter((key) => Object.hasOwn(defaults, key));
      return [name, { ...Object.fromEntries(used.map((key) => [key, defaults[key]])), ...set.get(name) }] as const;
    }),
  );
}

/** Used parameters without a value. */
function unset({ servers, set, plan }: OpenPipeline): readonly (readonly [string, string])[] {
  return [...servers].flatMap(([name, { parameters }]) => {
    const values = { ...(parameters === 'any' ? {} : defaultsOf(parameters)), ...set.get(name) };
    return [...(plan.used.get(name) ?? [])].filter((key) => !Object.hasOwn(values, key)).map((key) => [name, key] as const);
  });
}

/** Copies a bundled pipeline here, with its parameters and the files that they name; a file that is already here stays. */
function copyExample(pipeline: OpenPipeline, named: string): readonly string[] {
  const from = dirname(pipeline.path);
  const beside = namedTexts(pipeline).map((text) => join(from, text));
  return copyFiles(from, [pipeline.path, parameterPath(pipeline.path), ...beside], dirname(named));
}

/** Copies files that a pipeline of the user's names, that do not exist here, and that belong to the package's examples: a document's sample of questions. */
function copyMissing(pipeline: OpenPipeline, named: string, from: string): readonly string[] {
  const absent = namedTexts(pipeline).filter((text) => !existsSync(text) && !existsSync(join(dirname(named), text)));
  const paths = absent.map((text) => join(from, text)).filter((path) => path.startsWith(from + sep));
  return copyFiles(from, paths, dirname(named));
}

function copyFiles(from: string, paths: readonly string[], to: string): readonly string[] {
  return paths.flatMap((path) => {
    const target = join(to, relative(from, path));
    if (existsSync(target) || !statSync(path, { throwIfNoEntry: false })?.isFile()) return [];
    makeFolder(dirname(target));
    copyFileSync(path, target);
    return [target];
  });
}

/** Every text of the parameters and servers that can be a path. */
function namedTexts({ sources, set }: OpenPipeline): readonly string[] {
  return textsIn([sources, ...set.values()]).filter((text) => text !== '' && !text.includes('\0'));
}

async function writeText(path: string, text: string): Promise<void> {
  makeFolder(dirname(path));
  await replaceFile(path, (write) => write(Buffer.from(text, 'utf8')));
}
