/** Reads the answer of an agent's program: what it prints last, a JSON line, or a file that it leaves in its folder. */
import { constants } from 'node:fs';
import { open, realpath } from 'node:fs/promises';
import { isAbsolute, join, normalize } from 'node:path';
import { isInside, withoutColours } from 'vf-search/environment-kit';

/** `line`: the last line that is not blank. `json`: the last line that is an object with the key `answer`. */
export type AnswerSource = 'line' | 'json' | { readonly file: string };

export interface FoundAnswer {
  readonly answer: string;
  /** The other keys of a JSON line. */
  readonly output: Readonly<Record<string, unknown>>;
}

export interface Printed {
  readonly stdout: string;
  /** The program's folder, after its end. */
  readonly home: string;
  /** Largest size of a file. */
  readonly mostBytes: number;
}

/** Why a file of this name cannot hold an answer; null if it can. */
export function answerFileProblem(file: string): string | null {
  const path = normalize(file);
  const isWithin = file !== '' && !file.includes('\0') && !isAbsolute(path) && path !== '.' && !path.split('/').includes('..') && !path.endsWith('/');
  return isWithin ? null : `The file of the answer must lie in the agent's folder, such as "answer.txt", got ${JSON.stringify(file)}`;
}

/** The answer, or the reason why there is none. */
export async function readAnswer(source: AnswerSource, printed: Printed): Promise<FoundAnswer | string> {
  if (source === 'line') return lastLine(printed.stdout);
  if (source === 'json') return lastObject(printed.stdout);
  return await fileAnswer(source.file, printed);
}

function lastLine(stdout: string): FoundAnswer | string {
  const line = withoutColours(stdout).trimEnd().split('\n').at(-1)!.trim();
  return line === '' ? 'It printed nothing on stdout.' : { answer: line, output: {} };
}

function lastObject(stdout: string): FoundAnswer | string {
  const lines = stdout.split('\n');
  for (const line of lines.toReversed()) {
    const object = line.trimStart().startsWith('{') ? parsed(line) : null;
    if (object === null || !Object.hasOwn(object, 'answer')) continue;
    const { answer, ...output } = object;
    const text = typeof answer === 'string' ? answer.trim() : answer === null ? '' : JSON.stringify(answer);
    return text === '' ? 'The answer of its last JSON line is empty.' : { answer: text, output };
  }
  return 'It printed no line such as {"answer": "Paris"} on stdout.';
}

/** Null for what is not JSON, or nested too deeply to read. */
function parsed(line: string): Record<string, unknown> | null {
  try {
    return JSON.parse(line) as Record<string, unknown>;
  } catch {
    return null;
  }
}

/** The program may have put a link, a pipe or an endless file in its place. */
async function fileAnswer(name: string, { home, mostBytes }: Printed): Promise<FoundAnswer | string> {
  let path: string;
  try {
    path = await realpath(join(home, name));
  } catch {
    return `It wrote no file ${name}.`;
  }
  if (!isInside(await realpath(home), path)) return `Its file ${name} is a link to a place outside its folder.`;
  await using file = await open(path, constants.O_RDONLY | constants.O_NONBLOCK | constants.O_NOFOLLOW).catch(() => null);
  const about = await file?.stat();
  if (file === null || about?.isFile() !== true) return `Its file ${name} is not a regular file that can be read.`;
  if (about.size > mostBytes) return `Its file ${name} has ${about.size} bytes, more than the limit of ${mostBytes}.`;
  const answer = (await file.readFile('utf8')).trim();
  return answer === '' ? `Its file ${name} is empty.` : { answer, output: {} };
}
