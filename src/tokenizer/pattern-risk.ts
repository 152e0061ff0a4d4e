/**
 * Tells which patterns of a tokenizer can take more than the cube of a text's length to match. The patterns of models are written by strangers, and JavaScript matches
 * by trying: `((\S|\s)+)+x` takes years on 60 characters.
 */
import { isObject } from '../schemas/is-object.ts';

/** In one alternative: `[A-Z]*[a-z]+` has 2. The patterns of Qwen, Llama, DeepSeek and gpt-oss have no more. */
const MOST_REPEATS = 2;

/** In characters; no model has more than 1,000. */
const LONGEST_PATTERN = 10_000;

interface Group {
  /** Something in it matches a varying number of characters, or has alternatives. */
  isVarying: boolean;
  repeats: number;
  mostRepeats: number;
}

/** Every `Regex` in tokenizer.json or a part of it, at any depth. */
export function patternsIn(value: unknown): readonly string[] {
  if (Array.isArray(value)) return value.flatMap(patternsIn);
  if (!isObject(value)) return [];
  return Object.entries(value).flatMap(([key, inner]) => (key === 'Regex' && typeof inner === 'string' ? [inner] : patternsIn(inner)));
}

/**
 * True if a repeated group can match the same text in several ways, or if many repetitions follow one another. False positives are only slower.
 * @param mostRepeats in one alternative. @default 2
 */
export function isRiskyPattern(pattern: string, mostRepeats = MOST_REPEATS): boolean {
  if (pattern.length > LONGEST_PATTERN) return true;
  const groups: Group[] = [emptyGroup()];
  /** The group that ends where the next piece begins. */
  let before: Group | null = null;
  const pieces = pattern.matchAll(/\\[\s\S]|\[(?:\\[\s\S]|[^\]\\])*\]|\((?:\?(?:[:=!>]|<[=!]|<\w+>|[a-z-]+:))?|\)|\||[*+?]|\{\d+(?:,\d*)?\}|[\s\S]/g);
  for (const [piece] of pieces) {
    const group = groups.at(-1)!;
    const repeated: Group | null = before;
    before = piece === ')' ? closed(groups) : null;
    if (piece[0] === '(') groups.push(emptyGroup());
    else if (piece === '|') nextAlternative(group);
    else if (/^(?:[*+?]|\{\d)/.test(piece)) {
      if (repeated?.isVarying === true && mostTimes(piece) > 1) return true;
      if (/^\{\d+\}$/.test(piece)) continue;
      group.isVarying = true;
      if (mostTimes(piece) === Infinity && ++group.repeats > mostRepeats) return true;
    }
  }
  return false;
}

function emptyGroup(): Group {
  return { isVarying: false, repeats: 0, mostRepeats: 0 };
}

function nextAlternative(group: Group): void {
  group.isVarying = true;
  group.mostRepeats = Math.max(group.mostRepeats, group.repeats);
  group.repeats = 0;
}

/** Leaves the innermost group. What it repeats counts in the alternative around it. */
function closed(groups: Group[]): Group | null {
  const group = groups.length > 1 ? groups.pop()! : null;
  if (group === null) return null;
  const around = groups.at(-1)!;
  around.isVarying ||= group.isVarying;
  around.repeats += Math.max(group.mostRepeats, group.repeats);
  return group;
}

function mostTimes(quantifier: string): number {
  if (quantifier === '*' || quantifier === '+') return Infinity;
  if (quantifier === '?') return 1;
  const [, least, comma, most] = /^\{(\d+)(,?)(\d*)\}$/.exec(quantifier)!;
  return comma === '' ? Number(least) : most === '' ? Infinity : Number(most);
}
