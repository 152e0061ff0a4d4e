/**
 * The files of a stage: its outputs, and with them a manifest with the SHA-256 of everything that it read and wrote. A kill leaves each file old or new; until the
 * manifest is new, the stage counts as not done. A stage only replaces files that a stage of its kind has written.
 */
import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { dirname, join, relative, resolve } from 'node:path';
import { ifThere, namesIn } from '../files/if-there.ts';
import { ConfigError, ResultsError } from '../core/errors.ts';
import { isDiskFull } from '../files/disk-full.ts';
import { chunkedLines, replaceFile } from '../files/json-lines.ts';
import { folderProblem, makeFolder } from '../files/make-folder.ts';
import { readRegularFile, streamRegularFile, statIfThere } from '../files/regular-file.ts';
import { isObject } from '../schemas/is-object.ts';
import { parseWire } from '../schemas/results.ts';
import { RoundManifestSchema, type WireRoundManifest } from '../schemas/round-manifest.ts';
import { compareTexts } from './compare-texts.ts';
import { isFilledIn, STAGE_VERSIONS, type StageName, type StageResult } from './stage.ts';
import { systemText } from '../files/system-text.ts';

export interface StageInput {
  /** Its use in the stage: `trace`, `rows`, `exclusions`. */
  readonly role: string;
  readonly path: string;
}

export interface HashedInput extends StageInput {
  readonly sha256: string;
}

export interface StageTarget {
  readonly stage: StageName;
  readonly folder: string;
  /** Name of the manifest, without `.manifest.json`. */
  readonly name: string;
  /** Names of the files that the stage will write. */
  readonly outputs: readonly string[];
}

const SUFFIX = '.manifest.json';

/** Rejects with ConfigError if the file cannot be read. `remedy`: what to do if it does not exist. */
export async function sha256Of(path: string, remedy = 'name a file that does'): Promise<string> {
  const hash = createHash('sha256');
  try {
    for await (const piece of await streamRegularFile(path, { pieceBytes: 1 << 18 })) hash.update(piece as Buffer);
  } catch (cause) {
    if (cause instanceof ConfigError) throw cause;
    const { code } = cause as NodeJS.ErrnoException;
    const what =
      code === 'ENOENT'
        ? `The file ${path} does not exist; ${remedy}`
        : code === 'EISDIR'
          ? `${path} is a folder; name a file in it`
          : `Could not read ${path}: ${systemText(cause)}`;
    throw new ConfigError(what, { cause });
  }
  return hash.digest('hex');
}

/**
 * In the order of roles and contents, so that the order in which files are named does not matter. Rejects with ConfigError for a file that is named twice, or is
 * missing; `remedies`, by role, say what to do then.
 */
export async function hashInputs(inputs: readonly StageInput[], remedies: Readonly<Record<string, string>> = {}): Promise<HashedInput[]> {
  const hashed: HashedInput[] = [];
  for (const input of inputs) hashed.push({ ...input, sha256: await sha256Of(input.path, remedies[input.role]) });
  const sorted = hashed.toSorted((a, b) => compareTexts(a.role, b.role) || compareTexts(a.sha256, b.sha256) || compareTexts(a.path, b.path));
  const twice = sorted.find(({ role, path }, i) => sorted.some((other, j) => j < i && other.role === role && resolve(other.path) === resolve(path)));
  if (twice !== undefined) throw new ConfigError(`${twice.path} is named twice as ${twice.role}; name it once`);
  return sorted;
}

/**
 * Checks, before a stage works, that it may write its outputs. Rejects with ConfigError for a file of another program, a list that was edited, or a folder that
 * cannot be written.
 */
export async function assertWritable({ stage, folder, name, outputs }: StageTarget, inputs: readonly StageInput[]): Promise<void> {
  const problem = folderProblem(folder);
  if (problem !== null) throw new ConfigError(`The output of ${stage} cannot be written: ${problem}. Name another place with -o.`);
  const manifest = manifestPath(folder, name);
  const own = await readManifest(manifest);
  if (own !== null && own.stage !== stage) throw new ConfigError(`${manifest} belongs to the stage ${own.stage}; choose another output for ${stage}`);
  const known = new Set(own?.outputs.map(({ path }) => path));
  for (const output of outputs) {
    const path = join(folder, output);
    const read = inputs.find((input) => resolve(input.path) === resolve(path));
    if (read !== undefined) throw new ConfigError(`${path} is read as ${read.role}, so it cannot be the output; name another file`);
    if (existsSync(path) && !known.has(output))
      throw new ConfigError(`${path} exists and is not an output of ${stage}; name another file, or remove it`);
  }
  if (own !== null) await assertNotEdited(own, folder);
}

/** After an interrupted stage it is unknown which of its files are new, so it replaces all of them. */
async function assertNotEdited({ stage, complete, outputs }: WireRoundManifest, folder: string): Promise<void> {
  if (!complete) return;
  for (const { path: output, sha256 } of outputs) {
    const path = join(folder, output);
    if (!isFilledIn(stage, output) || !existsSync(path) || (await sha256Of(path)) === sha256) continue;
    throw new ConfigError(
      `${path} was edited after ${stage} wrote it, and ${stage} would replace it. Name another output with -o, or delete the file.`,
    );
  }
}

/** Writes the outputs, then the manifest, and returns it. */
export async function writeStage(
  { stage, folder, name }: StageTarget,
  inputs: readonly HashedInput[],
  result: StageResult,
): Promise<WireRoundManifest> {
  const path = manifestPath(folder, name);
  const outputs: WireRoundManifest['outputs'] = [];
  makeFolder(folder);
  // Names the outputs as its own, so that the stage can be run again after a kill.
  const named = result.outputs.map(({ name: file }) => ({ path: file, sha256: '', rows: 0 }));
  await writeManifest(path, { ...aboutStage(stage), complete: false, rule: {}, counts: {}, inputs: [], outputs: named });
  for (const { name: file, lines } of result.outputs) {
    const hash = createHash('sha256');
    await replaceStageFile(join(folder, file), async (write) => {
      for (const bytes of chunkedLines(lines)) {
        hash.update(bytes);
        await write(bytes);
      }
    });
    outputs.push({ path: file, sha256: hash.digest('hex'), rows: lines.length });
  }
  const manifest = wholeManifest({ stage, folder }, inputs, { ...result, outputs });
  await writeManifest(path, manifest);
  return manifest;
}

/** Writes the manifest of another command's results: files below the folder, with their contents. */
export async function recordStage(
  { stage, folder, name, outputs }: StageTarget,
  inputs: readonly HashedInput[],
  {
    rule,
    counts,
    rows,
  }: { readonly rule: StageResult['rule']; readonly counts: StageResult['counts']; readonly rows: Readonly<Record<string, number>> },
): Promise<void> {
  const made: WireRoundManifest['outputs'] = [];
  for (const path of outputs) made.push({ path, sha256: await sha256Of(join(folder, path)), rows: rows[path] ?? 0 });
  await writeManifest(manifestPath(folder, name), wholeManifest({ stage, folder }, inputs, { rule, counts, outputs: made }));
}

function wholeManifest(
  { stage, folder }: Pick<StageTarget, 'stage' | 'folder'>,
  inputs: readonly HashedInput[],
  { rule, counts, outputs }: Pick<StageResult, 'rule' | 'counts'> & Pick<WireRoundManifest, 'outputs'>,
): WireRoundManifest {
  return {
    ...aboutStage(stage),
    complete: true,
    rule: { ...rule },
    counts: { ...counts },
    inputs: inputs.map(({ role, path, sha256 }) => ({ role, path: relative(resolve(folder), resolve(path)), sha256 })),
    outputs,
  };
}

function aboutStage(stage: StageName) {
  return { schema_version: 1, stage, stage_version: STAGE_VERSIONS[stage] } as const;
}

/** As `replaceFile`, but a stage has no run to resume. */
async function replaceStageFile(path: string, fill: Parameters<typeof replaceFile>[1]): Promise<void> {
  try {
    await replaceFile(path, fill);
  } catch (error) {
    if (!(error instanceof ResultsError)) throw error;
    const { message } = error.cause as Error;
    const remedy = isDiskFull(error.cause) ? 'the disk is full. Free some space' : `${message}. Fix this`;
    throw new ResultsError(`Could not write ${path}: ${remedy}, then run the command again.`, { cause: error });
  }
}

function manifestPath(folder: string, name: string): string {
  return join(folder, `${name}${SUFFIX}`);
}

/** Null if there is no such file. Rejects with ConfigError for one that is not a manifest. */
export async function readManifest(path: string): Promise<WireRoundManifest | null> {
  if (!existsSync(path)) return null;
  const parsed = parseWire(RoundManifestSchema, await readRegularFile(path));
  if ('problem' in parsed)
    throw new ConfigError(
      `${path} is not the manifest of a stage: ${parsed.problem}. Restore it, or delete it with the files of its stage and run the stage again.`,
    );
  return parsed.value;
}

/**
 * Null for a file of another program, or a folder, that has such a name. Rejects with ConfigError for a manifest of a stage that is damaged, or of another version, and
 * for a file that is too damaged to show which program wrote it. A chain must not lose a stage silently.
 */
export async function readOwnManifest(path: string): Promise<WireRoundManifest | null> {
  if (statIfThere(path)?.isDirectory() === true) return null;
  const text = await ifThere(path, readRegularFile);
  if (text === null) throw new ConfigError(`${path} leads to a file that does not exist. Restore it, or delete the link.`);
  return isOfAnother(text) ? null : readManifest(path);
}

/** True for JSON that is not of a stage, also if its end is lost: a manifest begins with its version. */
function isOfAnother(text: string): boolean {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return /^\s*(?:\[|\{\s*"(?!schema_version")[^"]*")/.test(text);
  }
  return !isObject(value) || !('schema_version' in value) || !('stage' in value);
}

/** Number of folders above a file that may hold its manifest: the manifest of a training run names the adapter of a checkpoint. */
const MOST_FOLDERS = 4;

/** The manifest that names the file among its outputs, in its folder or one above; null if none does. */
export async function manifestOf(output: string): Promise<{ readonly path: string; readonly manifest: WireRoundManifest } | null> {
  const file = resolve(output);
  let folder = dirname(file);
  for (let up = 0; up < MOST_FOLDERS; up++, folder = dirname(folder)) {
    const names = (await namesIn(folder)).filter((name) => name.endsWith(SUFFIX)).toSorted();
    for (const name of names) {
      const path = nearPath(join(folder, name));
      const manifest = await readOwnManifest(path);
      if (manifest?.outputs.some(({ path: own }) => join(folder, own) === file)) return { path, manifest };
    }
  }
  return null;
}

/** The path relative to the working folder, if it is inside it; else unchanged. */
export function nearPath(path: string): string {
  const near = relative('', path);
  return near === '' || near.startsWith('..') ? path : near;
}

function writeManifest(path: string, manifest: WireRoundManifest): Promise<void> {
  return replaceStageFile(path, (write) => write(Buffer.from(`${JSON.stringify(manifest, null, 2)}\n`, 'utf8')));
}
