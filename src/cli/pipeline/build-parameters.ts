/** `vf-pipeline build`: writes the parameters that the steps of a pipeline use, and keeps those that are set. */
import { copyFileSync, existsSync, statSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { isMap, stringify } from 'yaml';
import { replaceFile } from '../../files/json-lines.ts';
import { makeFolder } from '../../files/make-folder.ts';
import type { OpenPipeline } from '../../pipelines/open-pipeline.ts';
import { defaultsOf, type Parameters } from '../../pipelines/parameters.ts';
import { parseYaml, parseYamlDocument } from '../../pipelines/parse-yaml.ts';
import { parameterPath, readParameterFile } from '../../pipelines/pipeline-files.ts';
import { fieldsOf } from '../../schemas/is-object.ts';
import { type CommandContext, EXIT } from '../command-line.ts';
import { ownCommand } from '../own-command.ts';
import { placeError } from '../place-error.ts';
import { findPipeline } from './find-pipeline.ts';
import { openNamedPipeline } from './open-named-pipeline.ts';
import type { PipelineFlags } from './pipeline-flags.ts';

export async function buildParameters(named: string, flags: PipelineFlags, context: CommandContext): Promise<number> {
  const { path, isBundled } = findPipeline(named);
  const target = parameterPath(named);
  let written: boolean;
  await using pipeline = await openNamedPipeline(path, flags, context);
  try {
    if (isBundled) copyExample(pipeline, named);
    written = await writeParameters(pipeline, named);
  } catch (error) {
    throw placeError(error, { flag: named, path: dirname(target) });
  }
  if (isBundled) context.note(`vf-pipeline: copied ${named} and the files that it names from the package`);
  const outcome = written ? `wrote ${target}` : `${target} has everything that ${named} needs`;
  context.note(`vf-pipeline: ${outcome}; edit it, then run ${ownCommand('vf-pipeline', ['run', named])}`);
  for (const [server, key] of unset(pipeline)) context.note(`vf-pipeline: ${server}.${key} has no default; set it in ${target}`);
  return EXIT.done;
}

/** Whether the file was written: a file that lacks nothing stays as it is, byte for byte. */
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

/** Everything that is set, and the defaults of what the steps use; an empty table for a server that needs nothing. */
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

/** Copies a bundled pipeline here, with its parameters and the files that they name; a file that is here stays. */
function copyExample(pipeline: OpenPipeline, named: string): void {
  const from = dirname(pipeline.path);
  const beside = textsIn([pipeline.sources, ...pipeline.set.values()]).map((text) => join(from, text));
  for (const path of [pipeline.path, parameterPath(pipeline.path), ...beside]) {
    const target = join(dirname(named), relative(from, path));
    if (existsSync(target) || !statSync(path, { throwIfNoEntry: false })?.isFile()) continue;
    makeFolder(dirname(target));
    copyFileSync(path, target);
  }
}

function textsIn(value: unknown): readonly string[] {
  if (typeof value === 'string') return [value];
  return typeof value === 'object' && value !== null ? Object.values(value).flatMap(textsIn) : [];
}

async function writeText(path: string, text: string): Promise<void> {
  makeFolder(dirname(path));
  await replaceFile(path, (write) => write(Buffer.from(text, 'utf8')));
}
