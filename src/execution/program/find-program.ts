/** Finds a program before the first run needs it, as a shell would, and the files that its arguments name. */
import { accessSync, closeSync, constants, existsSync, readdirSync, readSync } from 'node:fs';
import { basename, delimiter, dirname, resolve } from 'node:path';
import { suggestion } from '../../core/closest-name.ts';
import { ConfigError, ExecutionError } from '../../core/errors.ts';
import { openRegularFileSync, statIfThere } from '../../files/regular-file.ts';

export interface FindProgramOptions {
  /** The variable PATH. */
  readonly path: string;
  /** What relative names begin from. @default the working directory */
  readonly folder?: string;
  /** The script after an interpreter is there before the program starts; false for one that may be written until then. @default true */
  readonly hasScript?: boolean;
}

/** Of the line that names a script's interpreter, as in Linux. */
const FIRST_LINE_BYTES = 256;

/**
 * A command that runs in any folder: the program by its absolute path, and so every argument that names a file, or with a slash in it a folder. Throws ConfigError if there is no such program, or no
 * such script after an interpreter.
 * @example findCommand(['python3', 'agent.py'], { path: '/usr/bin' }) // ['/usr/bin/python3', '/home/me/agent.py']
 */
export function findCommand(command: readonly string[], { path, folder = '.', hasScript = true }: FindProgramOptions): string[] {
  const [name = '', ...words] = command;
  const program = name.includes('/') ? resolve(folder, name) : fromPath(name, path);
  if (program === null) throw new ConfigError(`No program ${JSON.stringify(name)} is in a folder of PATH. Install it, or name it by its path`);
  assertProgram(program, { endsRun: false });
  if (hasScript) assertScript(program, words, folder);
  return [program, ...words.map((word) => namedFile(word, folder))];
}

/** Throws unless a file is there that can be run, and its interpreter too if it is a script: ExecutionError in a run, else ConfigError. */
export function assertProgram(program: string, { endsRun }: { readonly endsRun: boolean }): void {
  const problem = problemOf(program);
  if (problem !== null) throw endsRun ? new ExecutionError(problem, { endsRun }) : new ConfigError(problem);
}

const INTERPRETER = /^(python[\d.]*|node|bun|tsx|sh|bash|dash|zsh|ruby|perl)$/;
const SCRIPT = /\.([cm]?[jt]s|py|sh|rb|pl)$/;

/** An interpreter would say so in every rollout, by the name of a folder that the user has never seen. */
function assertScript(program: string, words: readonly string[], folder: string): void {
  const script = INTERPRETER.test(basename(program)) ? words.find((word) => !word.startsWith('-')) : undefined;
  if (script === undefined || !SCRIPT.test(script) || statIfThere(resolve(folder, script)) !== undefined) return;
  const place = dirname(resolve(folder, script));
  const near = existsSync(place) ? suggestion(basename(script), readdirSync(place)) : '';
  throw new ConfigError(`The script ${script} is not in ${place}${near}. Correct its name`);
}

function problemOf(program: string): string | null {
  const about = statIfThere(program);
  if (about === undefined) return `The program ${program} does not exist. Correct its name`;
  if (!about.isFile()) return `${program} is not a program. Name a file that can be run`;
  try {
    accessSync(program, constants.X_OK);
  } catch {
    return `${program} cannot be run: it is not executable. Put its interpreter before it, as in ["python3", "agent.py"], or run chmod +x on it`;
  }
  const interpreter = interpreterOf(program);
  if (interpreter === null || existsSync(interpreter)) return null;
  return `${program} needs ${interpreter}, which does not exist. Install it, or correct the first line of ${program}`;
}

/** The absolute path after `#!`; null if it is not a script. */
function interpreterOf(program: string): string | null {
  const bytes = Buffer.alloc(FIRST_LINE_BYTES);
  const file = openRegularFileSync(program);
  try {
    const length = readSync(file, bytes, 0, bytes.length, 0);
    return /^#! *(\/\S+)/.exec(bytes.toString('latin1', 0, length))?.[1] ?? null;
  } finally {
    closeSync(file);
  }
}

function fromPath(name: string, path: string): string | null {
  if (name === '') return null;
  const places = path.split(delimiter).filter((place) => place !== '');
  return places.map((place) => resolve(place, name)).find((place) => isRunnable(place)) ?? null;
}

function isRunnable(path: string): boolean {
  return statIfThere(path)?.isFile() === true && problemOf(path) === null;
}

/** A word such as `1` or `src` may be meant as it is, although a folder has this name. */
function namedFile(word: string, folder: string): string {
  const about = word.startsWith('-') || word.includes('\0') ? undefined : statIfThere(resolve(folder, word));
  const isMeant = about !== undefined && (about.isFile() || (about.isDirectory() && word.includes('/')));
  return isMeant ? resolve(folder, word) : word;
}
