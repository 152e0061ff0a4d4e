/** `vf-pipeline build`: writes the parameters that the steps of a pipeline use, and keeps those that are set. */
import { copyFileSync, existsSync, statSync } from 'node:fs';
import { dirname, join, relative, sep } from 'node:path';
import { isMap, stringify } from 'yaml';
import { packageRoot } from '../../data/package-root.ts';
import { replaceFile } from '../../files/json-lines.ts';
import { makeFolder } from '../../files/make-folder.ts';
import type { OpenPipeline } from '../../pipelines/open-pipeline.ts';
import { defaultsOf, type Parameters } from '../../pipelines/parameters.ts';
import { parseYaml, parseYamlDocument } from '../../pipelines/parse-yaml.ts';
import { parameterPath, readParameterFile } from '../../pipelines/pipeline-files.ts';
import { fieldsOf } from '../../schemas/is-object.ts';
import { type CommandContext, EXIT } from '../command-line.ts';
import { ownCommand } from '../../reports/text/own-command.ts';
import { placeError } from '../../files/place-error.ts';
import { findPipeline } from '../../registry/find-pipeline.ts';
import { openNamedPipeline } from './open-named-pipeline.ts';
import type { PipelineOptions } from '../commands/vf-pipeline.ts';

export async function buildParameters(named: string, flags: PipelineOptions, context: CommandContext): Promise<number> {
  const { path, isBundled } = findPipeline(named);
  const target = parameterPath(named);
  let written: boolean;
  let copied: readonly string[];
  await using pipeline = await openNamedPipeline(path, flags, context);
  try {
    copied = isBundled ? copyExample(pipeline, named) : copyMissing(pipeline, named);
    written = await writeParameters(pipeline, named);
  } catch (error) {
    throw placeError(error, { flag: named, path: dirname(target) });
  }
  if (isBundled) context.note(`vf-pipeline: copied ${named} and the files that it names from the package`);
  else if (copied.length > 0) context.note(`vf-pipeline: copied ${copied.join(', ')} from the package: ${named} names it, and it was not here`);
  const outcome = written ? `wrote ${target}` : `${target} has everything that ${named} needs`;
  context.note(`vf-pipeline: ${outcome}; edit it, then run ${ownCommand('vf-pipeline', ['run', named])}`);
  for (const [server, key] of unset(pipeline)) context.note(`vf-pipeline: ${server}.${key} has no default; set it in ${target}`);
  return EXIT.done;
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
  return new Map(
    [...servers].map(([name, { parameters }]) => {
      const defaults = parameters === 'any' ? {} : defaultsOf(parameters);
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
function copyMissing(pipeline: OpenPipeline, named: string): readonly string[] {
  const from = join(packageRoot(), 'examples');
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

function textsIn(value: unknown): readonly string[] {
  if (typeof value === 'string') return [value];
  return typeof value === 'object' && value !== null ? Object.values(value).flatMap(textsIn) : [];
}

async function writeText(path: string, text: string): Promise<void> {
  makeFolder(dirname(path));
  await replaceFile(path, (write) => write(Buffer.from(text, 'utf8')));
}
