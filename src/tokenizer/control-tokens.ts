/**
 * Prevents text of an environment or a data set from becoming control tokens: a spelled control token is tokenised with a private-use character (a
 * sentinel) inside, whose ids are then removed. Added tokens that are not control tokens (`<think>`, `<search>`) stay single tokens.
 */
import { PolicyError } from '../core/errors.ts';
import { AskedOnce } from './asked-once.ts';
import type { TokenizedText, TokenizerSource } from './tokenizer-source.ts';

interface GuardedText {
  /** With a sentinel inside every spelled control token. */
  readonly text: string;
  /** Number of sentinels. */
  readonly breaks: number;
}

/** By original text; texts without a spelled control token are missing. */
export type GuardedTexts = ReadonlyMap<string, GuardedText>;

const PLAIN = { addSpecialTokens: false };
/** In characters; longer text is not a name. */
const LONGEST_NAME = 256;

/** Known facts about a tokenizer's control tokens; shared by all its users. */
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
      // SentencePiece puts a space before the text, and so does byte-level BPE with `add_prefix_space`.
      return ids.filter((_, i) => spellings[i] !== '▁' && spellings[i] !== 'Ġ');
    });
  }

  /** Puts `sentinel` inside every control token that the texts spell. Repeats until a round finds none, usually the second. */
  async guard(texts: Iterable<string>, sentinel: string, source: TokenizerSource): Promise<GuardedTexts> {
    const suspects = new Map([...texts].filter(mayHoldControl).map((text) => [text, { text, breaks: 0 }]));
    const guarded = new Map<string, GuardedText>();
    while (suspects.size > 0) {
      const joined = [...suspects.values()].map(({ text }) => asWritten(text)).join('\n');
      const spelled = await this.#controlsIn(joined, await source.tokenize(joined, PLAIN), source);
      for (const [original, suspect] of suspects) {
        const broken = spelled.reduce((one, spelling) => breakUp(breakUpEnds(one, spelling, sentinel), spelling, sentinel), suspect);
        if (broken.breaks === suspect.breaks) suspects.delete(original);
        else {
          suspects.set(original, broken);
          guarded.set(original, broken);
        }
      }
    }
    return guarded;
  }

  /** The ids of one text without control tokens. They still contain `breaks` sentinels. */
  async encode(text: string, sentinel: string, source: TokenizerSource): Promise<{ readonly ids: readonly number[]; readonly breaks: number }> {
    for (let guarded: GuardedText = { text, breaks: 0 }; ;) {
      const tokenized = await source.tokenize(guarded.text, PLAIN);
      const spelled = await this.#controlsIn(guarded.text, tokenized, source);
      if (spelled.length === 0) return { ids: tokenized.ids, breaks: guarded.breaks };
      guarded = spelled.reduce((one, spelling) => breakUp(one, spelling, sentinel), guarded);
    }
  }

  /**
   * Removes the sentinels from `ids`. Rejects with PolicyError if their number is not `breaks`; with `mayDrop` another number is accepted if none is
   * left, because a template may drop or repeat texts.
   */
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
      `The text spells control tokens, and the tokenizer of ${source.name} cannot encode it without them: it kept ${found.removed} of ` +
        `${breaks} private-use characters separate. Remove the control tokens from the text.`,
    );
  }

  /** Spellings of the control tokens that `text` contains. An "unknown" token, whose spelling is not in the text, does not count. */
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

/** Private-use characters that occur in none of the texts. No vocabulary has a token with one, so their ids never merge with a neighbour's. */
export function privateUseCharacters(texts: Iterable<string>, count: number): readonly string[] {
  const held = new Set<string>();
  for (const text of texts) for (const [character] of text.matchAll(/[\uE0F0-\uF8FF]/g)) held.add(character);
  const free: string[] = [];
  for (let code = 0xe0f0; code <= 0xf8ff && free.length < count; code++) {
    const character = String.fromCharCode(code);
    if (!held.has(character)) free.push(character);
  }
  if (free.length === count) return free;
  throw new PolicyError('The conversation contains every private-use character of Unicode, so none is left as a marker. Remove some of them.');
}

/** All known special tokens look like tags: `<|im_end|>`, `</s>`, `[INST]`, `<｜User｜>`, `<EOT>`, `]~b]`. */
export function looksLikeControl(spelling: string): boolean {
  return /^[<[{(|｜〈«\]](?=.*[\p{L}\p{N}]).*[>\]})|｜〉»[]$/su.test(spelling);
}

/** The indices at which `part` occurs in `ids`. */
export function placesOf(ids: readonly number[], part: readonly number[]): readonly number[] {
  if (part.length === 0) return [];
  return [...ids.keys()].filter((i) => part.every((id, k) => ids[i + k] === id));
}

/** A cheap test without false negatives: could the text contain a tag? */
function mayHoldControl(text: string): boolean {
  const start = text.search(/[<[{(|｜〈«\]]/);
  return start >= 0 && (/[>\]})|｜〉»[]/.test(text.slice(start + 1)) || endsInTag(text));
}

/** The text as templates may write it: followed by `>`, as in `<parameter=NAME>`, or as a tag, `<NAME>`. */
function asWritten(text: string): string {
  const ended = endsInTag(text) ? `${text}>` : text;
  return text.length > LONGEST_NAME || /[<\n]/.test(text) ? ended : `${ended}\n<${text}>`;
}

function endsInTag(text: string): boolean {
  return text.lastIndexOf('<') > text.lastIndexOf('>');
}

function breakUp(guarded: GuardedText, spelling: string, sentinel: string): GuardedText {
  const [first = ''] = spelling;
  const parts = guarded.text.split(spelling);
  return { text: parts.join(`${first}${sentinel}${spelling.slice(first.length)}`), breaks: guarded.breaks + parts.length - 1 };
}

/** For text that is a control token without its `<`, or ends with one without its `>`, which a template may add. */
function breakUpEnds({ text, breaks }: GuardedText, spelling: string, sentinel: string): GuardedText {
  const [inner, start] = [spelling.slice(1), spelling.slice(0, -1)];
  const isBare = spelling.startsWith('<') && (text.startsWith(inner) || text === start.slice(1));
  const at = isBare ? 0 : spelling.endsWith('>') && text.endsWith(start) ? text.length - start.length : -1;
  if (at < 0) return { text, breaks };
  const [first = ''] = text.slice(at);
  return { text: `${text.slice(0, at)}${first}${sentinel}${text.slice(at + first.length)}`, breaks: breaks + 1 };
}

/** True if no sentinel is left in `ids`, and the tokenizer can represent it. */
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
