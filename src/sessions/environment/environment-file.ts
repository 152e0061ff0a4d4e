/**
 * `./.env`: environment variables in a file. Variables that the process already has take precedence. The folder may be a stranger's, and the variables go to child
 * processes too, so the file sets only what this package reads: of NODE_OPTIONS, PYTHONPATH, LD_PRELOAD and PATH any would make a child run code of the folder.
 */
import { parseEnv } from 'node:util';
import { ConfigError } from '../../core/errors.ts';
import { readSmallFileSync } from '../../files/small-file.ts';
import { systemText } from '../../files/system-text.ts';
import { isSecretName } from '../../transport/redact.ts';
import { decodeText } from '../../files/user-text.ts';

const MOST_BYTES = 2 ** 20;
/** Variables that the file may set, besides keys under a name such as `OPENAI_API_KEY`. Nothing that a child process finds code or commands by. */
const SETTINGS =
  /^(?:VF_\w+|HF_(?:ENDPOINT|HOME|HUB_CACHE|HUB_OFFLINE|TOKEN_PATH)|HUGGINGFACE_HUB_CACHE|(?:EMBEDDINGS|QDRANT|OPENSEARCH|SEARXNG)_URL|(?:SERPER|GOOGLE_CSE)_BASE_URL|GOOGLE_CSE_ID|CUDA_VISIBLE_DEVICES|(?:https?|all|no)_proxy|(?:HTTPS?|ALL|NO)_PROXY)$/;
/** Password managers serve the file as a pipe, after a question to the user. */
const PIPE_MS = 30_000;

/** True for a variable that `.env` may set. The others of the file, which may be those of other programs, are ignored. */
export function maySetInFile(name: string): boolean {
  return SETTINGS.test(name) || isSecretName(name);
}

/** What to do about a variable that is not set. */
export function settingRemedy(name: string): string {
  return maySetInFile(name) ? `export it or put it in ./.env` : `export it (./.env sets only names such as ${name}_KEY)`;
}

/** Adds the file's variables that `environment` lacks and that the file may set, and returns their names. Empty values are ignored; a missing file adds none. */
export function loadEnvironmentFile(path: string, environment: NodeJS.ProcessEnv): readonly string[] {
  let text: string;
  try {
    // Old editors of macOS end lines with CR alone.
    text = decodeText(readSmallFileSync(path, { mostBytes: MOST_BYTES, pipeMs: PIPE_MS }), path).replace(/\r\n?/g, '\n');
  } catch (cause) {
    if (cause instanceof ConfigError) throw cause;
    if ((cause as NodeJS.ErrnoException).code === 'ENOENT') return [];
    throw new ConfigError(`Cannot read ${path}: ${systemText(cause)}; it must be a readable file of NAME=value lines`, { cause });
  }
  const added: string[] = [];
  const parsed = parseEnv(text);
  assertNoneLost(text, parsed, path);
  for (const [name, value] of Object.entries(parsed)) {
    const strange = /[^\x21-\x7e]/u.exec(name)?.[0];
    if (strange !== undefined)
      throw new ConfigError(`A name in ${path} has the character ${codePoint(strange)}, so no variable would be set. Remove it`);
    if (!maySetInFile(name) || environment[name] !== undefined || value === undefined || value === '') continue;
    environment[name] = value;
    added.push(name);
  }
  return added;
}

/** Throws ConfigError for a line of another language that sets one of our variables or a key, such as `$env:VF_MODEL="x"` and `VF_MODEL: x`: it would be lost without a word. */
function assertNoneLost(text: string, parsed: Readonly<Record<string, unknown>>, path: string): void {
  for (const [i, line] of text.split('\n').entries()) {
    const name = /^\s*(?:\$env:|set(?:x|env)? +)?["']?((?:VF_\w+|\w+_(?:API_KEY|TOKEN)))["']? *(?:[:= ]|$)/i.exec(line)?.[1];
    if (name !== undefined && !Object.hasOwn(parsed, name))
      throw new ConfigError(`Line ${i + 1} of ${path} does not set ${name}. Write ${name}=value`);
  }
}

/** `U+00A0`. */
function codePoint(character: string): string {
  return `U+${character.codePointAt(0)!.toString(16).toUpperCase().padStart(4, '0')}`;
}
