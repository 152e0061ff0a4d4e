/**
 * Digests of what a run's settings name by path. Under the same path there may be other contents when the run is resumed, or none: a base, an adapter, a module, a
 * corpus. The rows of the data set and supervised rows are compared by what reads them, row by row.
 */
import { existsSync, statSync } from 'node:fs';
import { isAbsolute, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { ConfigError } from '../core/errors.ts';
import { versionText } from '../core/environment-version.ts';
import { firstNames } from '../core/first-names.ts';
import { isInside } from '../files/is-inside.ts';
import { pathDigests } from '../files/input-digests.ts';
import { realPath } from '../files/real-path.ts';

/** The digest of each file, by the setting that names it and the file's name. */
export type NamedInputs = Readonly<Record<string, Readonly<Record<string, string>>>>;

/** The last part of a setting whose file the run itself writes, whose rows are compared one by one, or whose folders hold installed programs. */
const NOT_COMPARED = /^(dataset|show|columns|search_index|(.+_)?(output|save|cache|log)(_path|_file|_dir)?)$/;

/** Of every file and folder that texts in `settings` name, by dotted key from `key` on. */
export async function inputsIn(settings: unknown, key: string): Promise<NamedInputs> {
  const inputs: Record<string, Record<string, string>> = {};
  for (const [name, path] of pathsIn(settings, key)) inputs[name] = { ...inputs[name], ...(await pathDigests(path)) };
  return inputs;
}

function pathsIn(value: unknown, key: string): (readonly [string, string])[] {
  if (typeof value === 'string') return namedPaths(value).map((path) => [key, path]);
  if (typeof value !== 'object' || value === null) return [];
  if (Array.isArray(value)) return value.flatMap((inner) => pathsIn(inner, key));
  return Object.entries(value).flatMap(([name, inner]) => (NOT_COMPARED.test(name) ? [] : pathsIn(inner, `${key}.${name}`)));
}

/** The path that a text is, or that a flag or an assignment in it has (`--chat-template=here.jinja`). */
function namedPaths(text: string): string[] {
  const path = [text, text.slice(text.indexOf('=') + 1)].map(pathOf).find((each) => each !== null);
  return path === undefined ? [] : [path];
}

function pathOf(text: string): string | null {
  if (text === '' || text.length > 4096 || /[\0\n]/.test(text)) return null;
  const path = text.startsWith('file:///') ? fileURLToPath(text) : resolve(text);
  const found = existsSync(path) ? statSync(path) : null;
  if (found?.isFile() === true) return path;
  // A word such as `test` may be a split, and the working directory holds the runs.
  const isMeant = isAbsolute(text) || /[/\\]/.test(text) || existsSync(join(path, 'manifest.json'));
  return found?.isDirectory() === true && isMeant && !isInside(realPath(path), realPath('.')) ? path : null;
}

export interface ChangedInput {
  readonly key: string;
  readonly text: string;
  /** The files with the beginnings of their digests: `a.ts 0cee2717, b.ts 5d41402a`. */
  readonly before: string;
  readonly after: string;
  /** Nothing is left of it. */
  readonly isGone: boolean;
}

/**
 * One line for each setting that now names other contents, or none. A setting that was not recorded, as in a run of an earlier version, has nothing to compare, and one
 * that has another value since is compared elsewhere.
 */
export function changedInputs(before: NamedInputs, now: NamedInputs, isOther: (key: string) => boolean = () => false): readonly ChangedInput[] {
  return Object.entries(before).flatMap(([key, known]) => {
    const files = now[key] ?? {};
    const names = [...new Set([...Object.keys(known), ...Object.keys(files)])].filter((name) => known[name] !== files[name]);
    // A folder in place of a file is not its new contents.
    const isGone = Object.keys(files).every((name) => name.endsWith('/') && !(name in known));
    if (names.length === 0 || (isGone && isOther(key))) return [];
    // Some settings name two kinds of files, of which one has a key of its own.
    const [setting] = key.split(' ');
    const text = isGone
      ? `the files that ${setting} named are gone: ${firstNames(names)}`
      : `${setting} names other contents than before: ${firstNames(names)} changed`;
    return [{ key, text, before: versionText([known]), after: versionText([files]), isGone }];
  });
}

/** A resumed run was refused because files that its settings name have other contents. Recorded as its base class. */
export class OtherInputsError extends ConfigError {
  /** False if nothing allows the new files. */
  readonly isAllowable: boolean;

  /** @param allow what the caller must do to go on with the new files, such as `add --allow-changes`; null if nothing allows it */
  constructor(text: string, allow: string | null) {
    const goOn = allow === null ? '' : ` ${allow} to continue with the new ones,`;
    super(`A resumed run must have the inputs that it began with, but ${text}. Restore the files,${goOn} or start a new run.`);
    this.isAllowable = allow !== null;
  }
}
