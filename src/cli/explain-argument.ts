/** The error for a flag that the command does not have, but that the environment on the command line takes as an argument. */
import { environmentArgumentNames } from '../registry/argument-names.ts';
import { environmentIfFound } from '../registry/find-environment.ts';
import { jsonOrText } from '../core/read-json.ts';
import { isSecretName } from '../transport/redact.ts';
import type { UnknownFlag } from './options/define-command.ts';

/** Null if it is not an argument, or if the environment does not declare its arguments. Never rejects. */
export async function explainArgument({ flag, value, positionals }: UnknownFlag): Promise<string | null> {
  if (!flag.startsWith('--')) return null;
  const name = flag.slice(2).replaceAll('-', '_');
  const id = positionals.find((word) => !word.endsWith('.toml') && environmentIfFound(word) !== null);
  if (id === undefined || !(await environmentArgumentNames(id, process.env)).includes(name)) return null;
  const shown = isSecretName(name) ? '"***"' : JSON.stringify(valueOf(value));
  const json = `{"${name}": ${shown}}`.replaceAll("'", String.raw`'\''`);
  return `Unknown flag ${flag}. It is an argument of ${id}: -a '${json}'`;
}

function valueOf(word: string | null): unknown {
  return word === null ? true : jsonOrText(word);
}
