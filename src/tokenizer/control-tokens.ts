/**
 * Text of an environment or a data set never becomes a control token, whatever it spells: a spelled one is tokenised with a private-use character (a
 * sentinel) inside, whose ids are then removed. Added tokens that are no control tokens (`<think>`, `<search>`) stay single tokens.
 */
import { PolicyError } from '../core/errors.ts';
import { AskedOnce } from './asked-once.ts';
import type { TokenizedText, TokenizerSource } from './tokenizer-source.ts';

interface GuardedText {
  /** With a sentinel inside every spelled control token. */
  readonly text: string;
  readonly breaks: number;
}

/** By the text as it was; those without a spelled control token are missing. */
export type GuardedTexts = ReadonlyMap<string, GuardedText>;

const PLAIN = { addSpecialTokens: false };

/** What is known of a tokenizer's control tokens, shared by everyone who uses it. */
export class ControlTokens {
  readonly #isControl = new Map<number, AskedOnce<boolean>>();
  readonly #markIds = new Map<string, AskedOnce<readonly number[]>>();

  isControl(id: number, spelling: string, source: TokenizerSource): Promise<boolean> {
    return of(this.#isControl, id).get(() => source.isControl(id, spelling));
  }

  /** The ids of a private-use character. */
  markIds(mark: string, source: TokenizerSource): Promise<readonly number[]> {
    return of(this.#markIds, mark).get(async () => {
      const { ids, spellings } = await source.tokenize(mark, PLAIN);
      // SentencePiece begins every text with a space.
      return ids.filter((_, i) => spellings[i] !== '▁');
    });
  }

  /** Puts `sentinel` inside every control token that the texts spell, until none is left. One round finds them, one more shows that they are gone. */
  async guard(texts: Iterable<string>, sentinel: string, source: TokenizerSource): Promise<GuardedTexts> {
    const suspects = new Map([...texts].filter(mayHoldControl).map((text) => [text, { text, breaks: 0 }]));
    const guarded = new Map<string, GuardedText>();
    while (suspects.size > 0) {
      const joined = [...suspects.values()].map(({ text }) => (endsInTag(text) ? `${text}>` : text)).join('\n');
      const spelled = await this.#controlsIn(joined, await source.tokenize(joined, PLAIN), source);
      for (const [original, suspect] of suspects) {
        const broken = spelled.reduce((one, spelling) => breakUp(breakUpEnd(one, spelling, sentinel), spelling, sentinel), suspect);
        if (broken.breaks === suspect.breaks) suspects.delete(original);
        else {
          suspects.set(original, broken);
          guarded.set(original, broken);
        }
      }
    }
    return guarded;
  }

  /** One text as ids, without the control tokens that it spells: `breaks` of them hold a sentinel yet. */
  async encode(text: string, sentinel: string, source: TokenizerSource): Promise<{ readonly ids: readonly number[]; readonly breaks: number }> {
    for (let guarded: GuardedText = { text, breaks: 0 }; ;) {
      const tokenized = await source.tokenize(guarded.text, PLAIN);
      const spelled = await this.#controlsIn(guarded.text, tokenized, source);
      if (spelled.length === 0) return { ids: tokenized.ids, breaks: guarded.breaks };
      guarded = spelled.reduce((one, spelling) => breakUp(one, spelling, sentinel), guarded);
    }
  }

  /** `ids` without the sentinel's. Rejects with PolicyError where `breaks` of them cannot be told apart. `mayDrop`: a template may leave texts out, or repeat them. */
  async removeSentinels(
    ids: readonly number[],
    {
      breaks,
      sentinel,
      mayDrop,
      source,
    }: { readonly breaks: number; readonly sentinel: string; readonly mayDrop: boolean; readonly source: TokenizerSource },
  ): Promise<{ readonly ids: readonly number[]; readonly removed: number }> {
    if (breaks === 0) return { ids, removed: 0 };
    const mark = await this.markIds(sentinel, source);
    const found = removeAll(ids, mark);
    if (found.removed === breaks || (mayDrop && (await isWhole(found.ids, { mark, sentinel, source })))) return found;
    throw new PolicyError(
      `The tokenizer of ${source.name} did not keep ${breaks} private-use characters apart, but ${found.removed}. ` +
        'This text spells control tokens and cannot be encoded without them. Take them out of the text.',
    );
  }

  /** Spellings of the control tokens in `text`, as far as it spells them itself: an "unknown" token is the tokenizer's own word. */
  async #controlsIn(text: string, { ids, spellings }: TokenizedText, source: TokenizerSource): Promise<string[]> {
    const found: string[] = [];
    const seen = new Set<number>();
    for (const [i, id] of ids.entries()) {
      const spelling = spellings[i]?.replace(/^[\s▁Ġ]+/, '') ?? '';
      if (seen.has(id) || !looksLikeControl(spelling)) continue;
      seen.add(id);
      if (text.includes(spelling) && (await this.isControl(id, spelling, source))) found.push(spelling);
    }
    return found;
  }
}

/** Private-use characters that none of the texts holds: no vocabulary has a token with one, so that their ids never merge with a neighbour's. */
export function privateUseCharacters(texts: Iterable<string>, count: number): readonly string[] {
  const held = new Set<string>();
  for (const text of texts) for (const [character] of text.matchAll(/[\uE0F0-\uF8FF]/g)) held.add(character);
  const free: string[] = [];
  for (let code = 0xe0f0; code <= 0xf8ff && free.length < count; code++) {
    const character = String.fromCharCode(code);
    if (!held.has(character)) free.push(character);
  }
  if (free.length === count) return free;
  throw new PolicyError('The conversation holds every private-use character of Unicode, which leaves none to mark places with. Take some out.');
}

/** Every special token known is a tag of some kind: `<|im_end|>`, `</s>`, `[INST]`, `<｜User｜>`, `<EOT>`, `]~b]`. */
export function looksLikeControl(spelling: string): boolean {
  return /^[<[{(|｜〈«\]].*[\p{L}\p{N}].*[>\]})|｜〉»[]$/su.test(spelling);
}

/** Where `part` stands in `ids`, each time. */
export function placesOf(ids: readonly number[], part: readonly number[]): readonly number[] {
  if (part.length === 0) return [];
  return [...ids.keys()].filter((i) => part.every((id, k) => ids[i + k] === id));
}

/** Cheap, and true wherever a tag may begin and end. */
function mayHoldControl(text: string): boolean {
  const start = text.search(/[<[{(|｜〈«\]]/);
  return start >= 0 && (/[>\]})|｜〉»[]/.test(text.slice(start + 1)) || endsInTag(text));
}

/** A template may write the `>` behind it: names of parameters stand in tags, `<parameter=NAME>`. */
function endsInTag(text: string): boolean {
  return text.lastIndexOf('<') > text.lastIndexOf('>');
}

function breakUp(guarded: GuardedText, spelling: string, sentinel: string): GuardedText {
  const [first = ''] = spelling;
  const parts = guarded.text.split(spelling);
  return { text: parts.join(`${first}${sentinel}${spelling.slice(first.length)}`), breaks: guarded.breaks + parts.length - 1 };
}

/** For a text that spells a control token but for its last `>`. */
function breakUpEnd({ text, breaks }: GuardedText, spelling: string, sentinel: string): GuardedText {
  const start = spelling.slice(0, -1);
  if (!spelling.endsWith('>') || !text.endsWith(start)) return { text, breaks };
  const [first = ''] = start;
  return { text: `${text.slice(0, text.length - start.length)}${first}${sentinel}${start.slice(first.length)}`, breaks: breaks + 1 };
}

/** No part of a sentinel is left, and the tokenizer writes the character at all. */
async function isWhole(
  ids: readonly number[],
  { mark, sentinel, source }: { readonly mark: readonly number[]; readonly sentinel: string; readonly source: TokenizerSource },
): Promise<boolean> {
  if (mark.length === 0 || (await source.detokenize(mark)) !== sentinel) return false;
  return !(await source.detokenize(ids)).includes(sentinel);
}

function removeAll(ids: readonly number[], mark: readonly number[]): { ids: readonly number[]; removed: number } {
  const kept: number[] = [];
  let removed = 0;
  for (let i = 0; i < ids.length;) {
    if (mark.length > 0 && mark.every((id, k) => ids[i + k] === id)) {
      removed += 1;
      i += mark.length;
    } else kept.push(ids[i++]!);
  }
  return { ids: kept, removed };
}

function of<K, V>(memory: Map<K, AskedOnce<V>>, key: K): AskedOnce<V> {
  let asked = memory.get(key);
  if (asked === undefined) memory.set(key, (asked = new AskedOnce()));
  return asked;
}
