/** The name of a run: a text for people, next to the run's id, which is its folder. It shows in every list, view, comparison and file of the run. */
import { fieldsOf } from './is-object.ts';

/**
 * Visible text of one line. Refused are control characters, halves of surrogate pairs, unassigned and private characters, line separators, fillers, and all that
 * hides or reorders text; the two joiners stay, because scripts and emoji need them.
 */
const CHARACTER = String.raw`(?:(?![\u115f\u1160\u3164\uffa0])[^\p{C}\p{Zl}\p{Zp}]|[\u200c\u200d])`;

const MOST_CHARACTERS = 80;

/** Of JSON Schema; with the flag `u`. */
export const RUN_NAME_PATTERN = String.raw`^(?=.*[\p{L}\p{N}\p{P}\p{S}])(?!\s)${CHARACTER}{1,${MOST_CHARACTERS}}(?<!\s)$`;

/** The texts that the pattern allows, in words. */
export const RUN_NAME_TITLE = `one line of visible text without spaces at its ends, of at most ${MOST_CHARACTERS} characters`;

const NAME = new RegExp(RUN_NAME_PATTERN, 'u');
const OTHER_CHARACTERS = new RegExp(`(?:(?!${CHARACTER}).)+|\\s+`, 'gsu');

export function isRunName(text: string): boolean {
  return NAME.test(text);
}

/** The text as a name: other characters become spaces, and a long one ends in `…`. Null if nothing is left. */
export function asRunName(text: string): string | null {
  const clean = cleaned(text);
  const name = Array.from(clean).length > MOST_CHARACTERS ? nameEndingIn(clean, '…') : clean;
  return isRunName(name) ? name : null;
}

/** The beginning of the text and this end, as a name. */
export function nameEndingIn(text: string, end: string): string {
  const beginning = Array.from(cleaned(text)).slice(0, MOST_CHARACTERS - end.length);
  return `${beginning.join('').trimEnd()}${end}`;
}

function cleaned(text: string): string {
  return text.replace(OTHER_CHARACTERS, ' ').trim();
}

/** The name as part of a path, of an address and of a model's name: letters, digits, `-` and `_`, at most 64; `run` for a name without any of these. */
export function folderOfName(name: string): string {
  const plain = name.replace(/[^A-Za-z0-9_-]+/g, '-').replace(/^[^A-Za-z0-9]+|(?<!-)-+$/g, '');
  return plain.slice(0, 64) || 'run';
}

/** For example `search-r1-nano-base`: the last path parts of environment and model, limited to the characters of a folder's name. */
export function defaultRunName(environment: string, model: string): string {
  const lastPart = (text: string) =>
    text
      .replace(/[/\\]+$/, '')
      .split(/[/\\]/)
      .at(-1)!;
  return folderOfName(`${lastPart(environment)}-${lastPart(model)}`);
}

/** The name that a training was given; null if it has none or the default one. `environment` and `model` are those of its settings. */
export function givenRunName(name: string | null, environment: string, model: string): string | null {
  return name === defaultRunName(environment, model) ? null : name;
}

/** The same of a recorded training: `record` is its run.json, in which runs of earlier versions have no name, and `settings` its config.toml. */
export function recordedRunName(record: unknown, settings: unknown): string | null {
  const config = fieldsOf(settings);
  const text = (value: unknown) => (typeof value === 'string' ? value : null);
  const name = text(fieldsOf(record)['name']) ?? text(config['name']);
  return givenRunName(name, text(fieldsOf(config['environment'])['id']) ?? '', text(fieldsOf(config['model'])['path']) ?? '');
}
