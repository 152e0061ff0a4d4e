/**
 * The byte-level BPE of the nano test model, changed as a Qwen tokenizer is: tags are ordinary text, and `>` merges with what follows it. So
 * tags end inside tokens, which single-token tags would never show.
 */
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { Tokenizer } from '@huggingface/tokenizers';
import type { TextTokenizer } from '../../../src/clients/text-tokenizer.ts';

interface TokenizerJson {
  added_tokens: { id: number; content: string; special: boolean }[];
  model: { vocab: Record<string, number>; merges: [string, string][] };
}

const folder = path.join(import.meta.dirname, '../../models/nano-base');
const read = (file: string) => JSON.parse(readFileSync(path.join(folder, file), 'utf8')) as Record<string, unknown>;
const json = read('tokenizer.json') as unknown as TokenizerJson;
const config = read('tokenizer_config.json');

const CONTROL = json.added_tokens.filter((token) => token.special);
export const CONTROL_IDS: ReadonlySet<number> = new Set(CONTROL.map((token) => token.id));
export const EOS_ID = CONTROL.find((token) => token.content === '<|im_end|>')!.id;

/** Ids of the merged tokens `>\n`, `>\n\n` and `>.`. */
export const MERGED = { newline: 2000, blankLine: 2001, period: 2002 };

function tokenizerWith(control: typeof CONTROL): Tokenizer {
  const { vocab, merges } = json.model;
  const merged = { '>Ċ': MERGED.newline, '>ĊĊ': MERGED.blankLine, '>.': MERGED.period };
  const more: [string, string][] = [
    ['>', 'Ċ'],
    ['>', 'ĊĊ'],
    ['>', '.'],
  ];
  const model = { ...json.model, vocab: { ...vocab, ...merged }, merges: [...merges, ...more] };
  return new Tokenizer({ ...json, added_tokens: control, model }, config);
}

const full = tokenizerWith(CONTROL);
const textOnly = tokenizerWith([]);
const idsOf = (tokenizer: Tokenizer, text: string) => Int32Array.from(tokenizer.encode(text, { add_special_tokens: false }).ids);

export const bpeTokenizer: TextTokenizer = {
  hash: 'nano-base with tags as text',
  lengthScale: 1,
  encode: (text) => idsOf(textOnly, text),
  encodePrompt: (text) => idsOf(full, text),
  encodeSampled(sampled) {
    const ids = idsOf(full, sampled);
    const bytes: number[] = [];
    const textEnds = ids.map((id) => {
      bytes.push(...bytesOf(id));
      return completeText(bytes).length;
    });
    return { text: completeText(bytes), ids, textEnds };
  },
  decode: (ids) => Buffer.from([...ids].flatMap(bytesOf)).toString('utf8'),
};

const token = new Map(Object.entries({ ...json.model.vocab, '>Ċ': 2000, '>ĊĊ': 2001, '>.': 2002 }).map(([piece, id]) => [id, piece]));
const byteOfSymbol = byteAlphabet();

/** The bytes that a token stands for; none for a control token. */
function bytesOf(id: number): number[] {
  return CONTROL_IDS.has(id) ? [] : Array.from(token.get(id)!, (symbol) => byteOfSymbol.get(symbol)!);
}

/** GPT-2's printable stand-ins for bytes. */
function byteAlphabet(): Map<string, number> {
  const printable = (b: number) => (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174;
  let next = 256;
  return new Map(Array.from({ length: 256 }, (_, b) => [String.fromCodePoint(printable(b) ? b : next++), b]));
}

/** The characters whose last byte is there. */
function completeText(bytes: readonly number[]): string {
  return new TextDecoder('utf-8', { ignoreBOM: true }).decode(Uint8Array.from(bytes), { stream: true });
}
