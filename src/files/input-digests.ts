/** SHA-256 of what a setting names by path: an adapter, a module or a pipeline with the files that it names, a folder, the beginning of a file that may grow. */
import { createHash } from 'node:crypto';
import { readdirSync, statSync } from 'node:fs';
import { readdir } from 'node:fs/promises';
import { basename, dirname, join, relative, resolve } from 'node:path';
import { jsonObjectAt } from './json-file.ts';
import { readingError } from './place-error.ts';
import { openRegularFile, readRegularFile, statIfThere, streamRegularFile } from './regular-file.ts';
import { ADAPTER_FILES } from './written-files.ts';

/** The files that write prompts. */
const PROMPT_FILES = ['tokenizer.json', 'tokenizer_config.json', 'chat_template.jinja', 'chat_template.json'];
/** The name of a module that Node imports. */
const MODULE = /\.[cm]?[jt]sx?$/;
const PIPELINE = /\.ya?ml$/i;
const MOST_MODULES = 200;

/** By the names of an adapter's two files; one that is missing has none. */
export function adapterDigests(directory: string): Promise<Record<string, string>> {
  return digestsOf(directory, ADAPTER_FILES);
}

/** Of a model's tokenizer and chat template. */
export function promptDigests(model: string): Promise<Record<string, string>> {
  return digestsOf(model, PROMPT_FILES);
}

/** Of a base's configuration, whose layout may change, and of its weights. */
export async function baseDigests(model: string): Promise<Record<string, string>> {
  if (!isFolder(model)) return {};
  const weights = await digestsOf(
    model,
    readdirSync(model)
      .filter((name) => name.endsWith('.safetensors'))
      .toSorted(),
  );
  const config = jsonObjectAt(join(model, 'config.json'));
  return config === null ? weights : { 'config.json': createHash('sha256').update(JSON.stringify(config)).digest('hex'), ...weights };
}

async function digestsOf(directory: string, names: readonly string[]): Promise<Record<string, string>> {
  const found = names.filter((name) => isFile(join(directory, name)));
  const digests = await Promise.all(found.map((name) => fileDigest(join(directory, name))));
  return Object.fromEntries(found.map((name, i) => [name, digests[i]!]));
}

/** A larger file is known by its size and by this many evenly spaced pieces: reading a corpus of 60 GB takes longer than loading its index. */
const MOST_READ_BYTES = 2 ** 30;
const PIECES = 256;
const PIECE_BYTES = 2 ** 16;
const MOST_FILES = 20_000;
/** Of vf-index: it holds the digests of all other files of the folder, which are compared when the index is opened. */
const INDEX_MANIFEST = 'manifest.json';

/**
 * By file, of a regular file with the files that its text names if it is a module or a pipeline, or of a folder. In a module these are the texts that
 * `namedInModule` finds; a path from a variable is not seen, and neither is a folder or a package.
 */
export async function pathDigests(path: string): Promise<Record<string, string>> {
  if (statSync(path).isDirectory()) return folderDigests(path);
  return MODULE.test(path) || PIPELINE.test(path) ? moduleDigests(path) : { [basename(path)]: await fileDigest(path) };
}

/** Of a module or a pipeline and of the files that they name, by their paths from its folder. */
export async function moduleDigests(entry: string): Promise<Record<string, string>> {
  const digests: Record<string, string> = {};
  const waiting = [entry];
  for (let path = waiting.pop(); path !== undefined && Object.keys(digests).length < MOST_MODULES; path = waiting.pop()) {
    const name = relative(dirname(entry), path);
    if (name in digests || !isFile(path)) continue;
    digests[name] = await fileDigest(path);
    const isSource = MODULE.test(path) || PIPELINE.test(path);
    if (isSource) waiting.push(...namedBy(path, await readRegularFile(path)));
  }
  return digests;
}

const QUOTED = String.raw`(?:'[^'\n]*'|"[^"\n]*"|${'`[^`\\n]*`'})`;
const HERE = String.raw`(?:import\.meta\.dirname|__dirname)`;
/** What a module names relative to its folder, as one or several quoted parts. */
const NAMED = [
  // Wherever it stands: imported, required, resolved or read.
  /(['"`]\.{1,2}\/[^'"`\n]+['"`])/g,
  new RegExp(String.raw`\bURL\(\s*(${QUOTED})\s*,\s*import\.meta\.url`, 'g'),
  new RegExp(String.raw`\b(?:join|resolve)\(\s*${HERE}((?:\s*,\s*${QUOTED})+)(?:\s*,)?\s*\)`, 'g'),
  new RegExp(String.raw`\b${HERE}\s*\+\s*(${QUOTED})`, 'g'),
  new RegExp(String.raw`\$\{${HERE}\}(\/[^'"${'`'}\n$]+${'`'})`, 'g'),
];
/** TypeScript may name a module by the .js that it becomes, and `require` without its ending. */
const ENDINGS = ['.js', '.cjs', '.json', '.ts', '/index.js'];

function namedInModule(text: string): readonly string[] {
  const parts = (named: string) => named.split(/['"`]\s*,\s*['"`]/).map((part) => part.replace(/^[\s,]*['"`]?/, '').replace(/['"`]\s*$/, ''));
  const names = NAMED.flatMap((pattern) => Array.from(text.matchAll(pattern), ([, named]) => `./${parts(named!).join('/')}`));
  return names.flatMap((name) => {
    // A URL is encoded, and may have a query.
    const path = decoded(name.replace(/[?#].*$/s, ''));
    return [name, path, path.replace(/\.([cm]?)js$/, '.$1ts'), ...ENDINGS.map((ending) => `${path}${ending}`)];
  });
}

function decoded(name: string): string {
  try {
    return decodeURIComponent(name);
  } catch {
    return name;
  }
}

function namedBy(path: string, text: string): readonly string[] {
  const folder = dirname(path);
  if (MODULE.test(path)) return namedInModule(text).map((named) => resolve(folder, named));
  // As pipeline-files.ts resolves them: here, else next to the pipeline; its parameters lie in a folder of their own.
  const stem = basename(path).replace(PIPELINE, '');
  const parameters = [`${stem}.yaml`, `${stem}_parameter.yaml`].map((name) => join(folder, 'parameter', name));
  const texts = Array.from(text.matchAll(/(?<![^\s"'[\]{},])[^\s"'[\]{},]*[./][^\s"'[\]{},]+/g), ([named]) => named);
  const root = basename(folder) === 'parameter' ? dirname(folder) : folder;
  return [...parameters, ...texts.map((named) => (isFile(named) ? resolve(named) : resolve(root, named)))];
}

/** Also of a link to one. */
export function isFile(path: string): boolean {
  return statIfThere(path)?.isFile() === true;
}

function isFolder(path: string): boolean {
  return statIfThere(path)?.isDirectory() === true;
}

/** What is installed can be many gigabytes, and a lock file names it. */
const INSTALLED = ['node_modules', 'site-packages', '__pycache__', '.git'];

/** Of an index its manifest, else one digest over the names, sizes and contents of all files but installed packages; beyond 1 GiB in all, over names and sizes. */
async function folderDigests(folder: string): Promise<Record<string, string>> {
  if (isFile(join(folder, INDEX_MANIFEST))) return { [INDEX_MANIFEST]: await fileDigest(join(folder, INDEX_MANIFEST)) };
  const hash = createHash('sha256');
  let read = 0;
  for (const name of (await filesIn(folder)).toSorted()) {
    const { size } = statSync(join(folder, name));
    hash.update(JSON.stringify([name, size]));
    if ((read += size) <= MOST_READ_BYTES) hash.update(await fileDigest(join(folder, name)));
  }
  return { [`${basename(folder)}/`]: hash.digest('hex') };
}

/** The first ones by name, relative to the folder. */
async function filesIn(folder: string): Promise<string[]> {
  const names: string[] = [];
  const waiting = ['.'];
  for (const inner of waiting) {
    const entries = (await readdir(join(folder, inner), { withFileTypes: true })).toSorted((a, b) => (a.name < b.name ? -1 : 1));
    for (const entry of entries) {
      const name = join(inner, entry.name);
      if (entry.isDirectory() && !INSTALLED.includes(entry.name)) waiting.push(name);
      else if (entry.isFile() && names.push(name) === MOST_FILES) return names;
    }
  }
  return names;
}

async function fileDigest(path: string): Promise<string> {
  await using file = await openRegularFile(path).catch((error: unknown) => {
    throw readingError(error, { what: 'the input', path });
  });
  const { size } = await file.stat();
  if (size <= MOST_READ_BYTES) return (await prefixDigest(path, Infinity)).replace(/^\d+:/, '');
  const hash = createHash('sha256').update(`${size}`);
  const piece = Buffer.alloc(PIECE_BYTES);
  for (let i = 0; i < PIECES; i++) {
    const { bytesRead } = await file.read(piece, 0, PIECE_BYTES, Math.floor(((size - PIECE_BYTES) * i) / (PIECES - 1)));
    hash.update(piece.subarray(0, bytesRead));
  }
  return hash.digest('hex');
}

/** `<bytes>:<digest>` of the first `bytes` of a file, or of all that it has. */
export async function prefixDigest(path: string, bytes: number): Promise<string> {
  const hash = createHash('sha256');
  let read = 0;
  for await (const piece of await streamRegularFile(path, { pieceBytes: 1 << 20 })) {
    const part = (piece as Buffer).subarray(0, bytes - read);
    hash.update(part);
    read += part.length;
    if (read >= bytes) break;
  }
  return `${read}:${hash.digest('hex')}`;
}
