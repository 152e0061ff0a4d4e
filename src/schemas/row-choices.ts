/** The choices of a question: a list of texts (MMLU), `{text, label}` (ARC), a list of `{label, text}`, or texts by their letters (MedQA). */
import { isObject } from './is-object.ts';

interface Choice {
  /** Null if the data set gives none; letters then follow from the places. */
  readonly label: string | null;
  readonly text: string;
}

interface ChoiceOptions {
  readonly choices: unknown;
  /** The text that the model sees, which may list the choices. @default none */
  readonly question?: string | undefined;
  /** The model sees the choices by their letters, whatever the question holds. @default false */
  readonly isLettered?: boolean | undefined;
  /** Of the answer's column, for the problem. */
  readonly name: string;
}

/** A letter as answer keys write it: `B`, `(B)`, `B.`, `b)`. */
const LETTER = /^\(?([A-Z])[).:]?$/i;
/** The place of a choice; tables that have gaps write it as `1.0`, and data sets that hide the answer as -1. */
const PLACE = /^-?\d+(?:\.0*)?$/;
/** A choice that begins with its letter: `A)21` (AQuA-RAT), `(A) 21`, `A. 21`. */
const LETTERED = /^\(?([A-Z])[).:]\s*(?=\S)/;

/**
 * The text of the choice that an answer names by its label, its letter or its place, from 0 up. Any other text stays the answer, and so does a letter if the model
 * sees the choices with letters, because it then answers with one.
 */
export function choiceOf(
  answer: string | number,
  { choices, question, isLettered = false, name }: ChoiceOptions,
): { readonly text: string } | { readonly problem: string } {
  const given = String(answer).trim();
  const letter = LETTER.exec(given)?.[1]!.toUpperCase();
  const isNumber = typeof answer === 'number' || PLACE.test(given);
  const [start = '', startLetter = null] = LETTERED.exec(given) ?? [];
  if (!isNumber && letter === undefined && startLetter === null) return { text: answer };
  const kinds = `expected "${name}" to be the text of a choice, its label or its place`;
  const listed = choicesIn(choices);
  if (startLetter !== null) {
    const text = given.slice(start.length);
    const place = listed?.findIndex((choice) => choice.text === text) ?? -1;
    const isOne = place >= 0 && startLetter === (listed![place]!.label ?? letterOf(place));
    return { text: !isOne ? String(answer) : isLettered ? startLetter : isShown(listed!, question) ? given : text };
  }
  if (listed === null) return { problem: `${kinds}, got ${given} and choices that are not a list; write the choices as a list of texts` };
  const isText = listed.some(({ text }) => text === given);
  if (!isNumber && (listed.length === 0 || isLettered || isShown(listed, question))) return { text: given };
  if (isText && typeof answer === 'string') return { text: given };
  const label = listed.find((choice) => choice.label === given) ?? listed.find((choice) => choice.label !== null && choice.label === letter);
  const named = label ?? listed[isNumber ? placeOf(given, choices, listed) : letterPlace(letter!, listed)];
  // A number may be the place of one choice and the text of another.
  if (isText && (named === undefined || named.text === given)) return { text: given };
  if (named !== undefined && !isText) return { text: isLettered ? letterOf(listed.indexOf(named)) : named.text };
  return { problem: `${kinds} among the ${listed.length} choices, from 0 up, got ${given}; give the text` };
}

/** -1 where places are not counted from 0: choices with names, or with numbers for labels. */
function placeOf(given: string, choices: unknown, listed: readonly Choice[]): number {
  const isCounted = Array.isArray(choices) || (isObject(choices) && Array.isArray(choices['text']));
  return isCounted && !listed.some(({ label }) => label !== null && /^\d+$/.test(label)) ? Number(given) : -1;
}

function letterPlace(letter: string, listed: readonly Choice[]): number {
  return listed.every(({ label }) => label === null) ? letter.charCodeAt(0) - 'A'.charCodeAt(0) : -1;
}

function letterOf(place: number): string {
  return String.fromCharCode('A'.charCodeAt(0) + place);
}

/** Null for anything but a list of texts. A choice that begins with its letter is listed without it. */
function choicesIn(choices: unknown): readonly Choice[] | null {
  const listed = listIn(choices)?.map(({ label, text }) => ({ label: textOrNull(label), text: textOrNull(text) })) ?? null;
  if (listed === null || !listed.every((choice): choice is Choice => choice.text !== null)) return null;
  const isMarked = listed.every(({ label, text }, i) => LETTERED.exec(text)?.[1] === (label ?? letterOf(i)));
  return isMarked ? listed.map(({ label, text }) => ({ label, text: text.replace(LETTERED, '') })) : listed;
}

function listIn(choices: unknown): readonly { readonly label: unknown; readonly text: unknown }[] | null {
  if (Array.isArray(choices)) {
    return choices.map((choice: unknown) => (isObject(choice) ? { label: choice['label'], text: choice['text'] } : { label: null, text: choice }));
  }
  if (!isObject(choices)) return null;
  const { text, label } = choices;
  if (!Array.isArray(text)) return Object.entries(choices).map(([key, value]) => ({ label: key, text: value }));
  return text.map((each: unknown, i) => ({ label: Array.isArray(label) ? label[i] : null, text: each }));
}

function textOrNull(value: unknown): string | null {
  return typeof value === 'string' || typeof value === 'number' ? String(value) : null;
}

/** Tells whether the question itself lists the choices: `A) Rome`, `(B) Paris`, `C. Lyon`. */
function isShown(choices: readonly Choice[], question: string | undefined): boolean {
  return (
    question !== undefined &&
    choices.every(({ label, text }, i) => {
      const mark = label ?? letterOf(i);
      return question.includes(text) && [')', '.', ':', ']'].some((end) => question.includes(`${mark}${end}`));
    })
  );
}
