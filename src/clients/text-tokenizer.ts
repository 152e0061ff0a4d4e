/** Tokenizers without a vocabulary file, for the built-in baseline, scripted policies and tests. */
import { createHash } from 'node:crypto';

/** The sample that a sampler would have returned for this text. */
export interface TokenizedText {
  /** Without control tokens. */
  readonly text: string;
  readonly ids: Int32Array;
  /** UTF-16 offset in `text` after token i, counting complete characters only. [T] */
  readonly textEnds: Int32Array;
}

export interface TextTokenizer {
  /** Identifies the mapping between text and ids. */
  readonly hash: string;
  /** Approximate number of tokens per BPE token. */
  readonly lengthScale: number;
  /** For environment text: spelled control tokens stay text. */
  encode(text: string): Int32Array;
  /** For a rendered prompt: spelled control tokens become control tokens. */
  encodePrompt(text: string): Int32Array;
  /** For text of a policy: spelled control tokens become control tokens, which have no text. */
  encodeSampled(text: string): TokenizedText;
  /** Leaves control tokens out; invalid UTF-8 becomes U+FFFD. */
  decode(ids: Int32Array): string;
}

const sha256 = (text: string) => createHash('sha256').update(text).digest('hex');

/** Ids 0 to 255 are the bytes of UTF-8. There are no control tokens. Lone surrogates become U+FFFD. */
export const byteTokenizer: TextTokenizer = {
  hash: sha256('utf-8 bytes'),
  lengthScale: 5,
  encode: bytesOf,
  encodePrompt: bytesOf,
  encodeSampled(sampled) {
    const text = sampled.toWellFormed();
    const ids = bytesOf(text);
    const textEnds = new Int32Array(ids.length);
    if (ids.length === text.length) for (let i = 0; i < ids.length; i++) textEnds[i] = i + 1;
    else fillByteEnds(ids, textEnds);
    return { text, ids, textEnds };
  },
  decode(ids) {
    const bytes = Buffer.allocUnsafe(ids.length);
    bytes.set(ids);
    return bytes.toString('utf8');
  },
};

function bytesOf(text: string): Int32Array {
  return new Int32Array(Buffer.from(text, 'utf8'));
}

function fillByteEnds(bytes: Int32Array, textEnds: Int32Array): void {
  let end = 0;
  for (let i = 0; i < bytes.length;) {
    const lead = bytes[i]!;
    const length = lead < 0x80 ? 1 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
    // A character is complete at its last byte.
    textEnds.fill(end, i, i + length - 1);
    end += length === 4 ? 2 : 1;
    i += length;
    textEnds[i - 1] = end;
  }
}

const CONTROL_TOKENS = ['<|endoftext|>', '<|im_start|>', '<|im_end|>'] as const;
const CONTROL_PATTERN = /<\|(?:endoftext|im_start|im_end)\|>/g;
const FIRST_CONTROL_ID = 0x110000;

/** One token per Unicode code point; `<|endoftext|>`, `<|im_start|>` and `<|im_end|>` are one token each. Lone surrogates become U+FFFD. */
export const codePointTokenizer: TextTokenizer = {
  hash: sha256('unicode code points, three ChatML control tokens'),
  lengthScale: 1,
  encode: (text) => splitCodePoints(text.toWellFormed()).ids,
  encodePrompt: (text) => encodeCodePoints(text).ids,
  encodeSampled: encodeCodePoints,
  decode(ids) {
    let text = '';
    for (const id of ids) if (id < FIRST_CONTROL_ID) text += String.fromCodePoint(id);
    return text;
  },
};

function encodeCodePoints(written: string): TokenizedText {
  const text = written.toWellFormed();
  const controls = [...text.matchAll(CONTROL_PATTERN)];
  if (controls.length === 0) return splitCodePoints(text);
  const ids: number[] = [];
  const textEnds: number[] = [];
  let plain = '';
  const add = (piece: string) => {
    const split = splitCodePoints(piece);
    for (const id of split.ids) ids.push(id);
    for (const end of split.textEnds) textEnds.push(plain.length + end);
    plain += piece;
  };
  let start = 0;
  for (const { 0: control, index } of controls) {
    add(text.slice(start, index));
    ids.push(FIRST_CONTROL_ID + CONTROL_TOKENS.indexOf(control as (typeof CONTROL_TOKENS)[number]));
    textEnds.push(plain.length);
    start = index + control.length;
  }
  add(text.slice(start));
  return { text: plain, ids: Int32Array.from(ids), textEnds: Int32Array.from(textEnds) };
}

function splitCodePoints(text: string): TokenizedText {
  const ids = new Int32Array(text.length);
  const textEnds = new Int32Array(text.length);
  let count = 0;
  for (let end = 0; end < text.length; count++) {
    const id = text.codePointAt(end)!;
    end += id > 0xffff ? 2 : 1;
    ids[count] = id;
    textEnds[count] = end;
  }
  return { text, ids: ids.subarray(0, count), textEnds: textEnds.subarray(0, count) };
}
