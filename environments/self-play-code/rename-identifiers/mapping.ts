/**
 * Renames identifiers in a string, longest name first and with the case that each was written in. A short name counts only as a word of its own or as a word of an
 * identifier (`azr_trainer`, `AZRTrainer`, `runAzr`), not within another word (`hazrat`). Pure.
 */

/** The mapping of the specification: Absolute Zero Reasoner becomes Cognition via Rewarded Self-Play. */
export const IDENTIFIER_MAPPING: Readonly<Record<string, string>> = {
  azr: 'crsp',
  absolute_zero_reasoner: 'rewarded_self_play',
  'absolute zero reasoner': 'Cognition via Rewarded Self-Play',
  AZR: 'CRSP',
  'Absolute Zero Reasoner': 'Cognition via Rewarded Self-Play',
};

export interface Renamed {
  readonly text: string;
  /** Names that were replaced. */
  readonly count: number;
}

export class IdentifierRenamer {
  readonly #exact: ReadonlyMap<string, string>;
  /** By the name in lower case. */
  readonly #anyCase: ReadonlyMap<string, string>;
  readonly #names: RegExp;
  readonly #remains: RegExp;

  /** @param mapping old names to new ones. @default that of the specification */
  constructor(mapping: Readonly<Record<string, string>> = IDENTIFIER_MAPPING) {
    this.#exact = new Map(Object.entries(mapping));
    // Of two spellings of a name, the one in lower case determines the replacement of any other case.
    const sorted = Object.entries(mapping).toSorted(([a], [b]) => Number(a === a.toLowerCase()) - Number(b === b.toLowerCase()));
    this.#anyCase = new Map(sorted.map(([old, renamed]) => [old.toLowerCase(), renamed]));
    const names = [...this.#anyCase.keys()].toSorted((a, b) => b.length - a.length);
    this.#names = new RegExp(names.map(escaped).join('|'), 'gi');
    // Also with other separators, or with none: `Absolute-Zero-Reasoner`, `AbsoluteZeroReasoner`.
    this.#remains = new RegExp(names.map((name) => name.split(/[ _]/).map(escaped).join('[\\s_-]*')).join('|'), 'i');
  }

  rename(text: string): Renamed {
    let count = 0;
    const renamed = text.replace(this.#names, (found: string, at: number) => {
      if (!isWord(text, at, at + found.length)) return found;
      const name = this.#exact.get(found) ?? inCaseOf(found, this.#anyCase.get(found.toLowerCase())!);
      if (name === null) return found;
      count += 1;
      return name;
    });
    return { text: renamed, count };
  }

  /** The first old name in a string, also with other separators and within other words; null if there is none. */
  remaining(text: string): string | null {
    return this.#remains.exec(text)?.[0] ?? null;
  }
}

function escaped(text: string): string {
  return text.replaceAll(/[.*+?^${}()|[\]\\]/g, '\\$&');
}

const isUpper = (c: string | undefined) => c !== undefined && /\p{Lu}/u.test(c);
const isLower = (c: string | undefined) => c !== undefined && /\p{Ll}/u.test(c);
const isLetter = (c: string | undefined) => c !== undefined && /\p{L}/u.test(c);

/** Tells whether the letters from `start` to `end` are a word: no letter is next to them, or the case changes there as in camelCase. */
function isWord(text: string, start: number, end: number): boolean {
  const [before, first, last, after] = [text[start - 1], text[start], text[end - 1], text[end]];
  const begins = !isLetter(before) || (isLower(before) && isUpper(first));
  const ends = !isLetter(after) || (isUpper(after) && (isLower(last) || isLower(text[end + 1])));
  return begins && ends;
}

/** The new name in the case of the old one: lower case as in the mapping, all capitals, or a capital for each word; null for any other mixture. */
function inCaseOf(found: string, name: string): string | null {
  if (found === found.toUpperCase()) return name.toUpperCase();
  // A sentence may begin with the name.
  if (/[\s]/.test(found)) return isUpper(found[0]) && found.slice(1) === found.slice(1).toLowerCase() ? name : null;
  const capitalised = (text: string) => text.replaceAll(/(?<![a-z])[a-z]/g, (letter) => letter.toUpperCase());
  return found === capitalised(found.toLowerCase()) ? capitalised(name) : null;
}
