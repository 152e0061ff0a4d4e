import { splitWords } from '../../metrics/python-text.ts';

/** `word`: cuts anywhere between words. `sentence`: keeps sentences whole unless one alone is too long. */
export type ChunkStrategy = 'word' | 'sentence';

const SENTENCE = /[^.!?;。！？；\n]+[.!?;。！？；\n]*|[.!?;。！？；\n]+/g;

/** Passages of at most `words` words, in order; white space between words becomes one space. */
export function chunkText(text: string, { strategy, words: most }: { readonly strategy: ChunkStrategy; readonly words: number }): readonly string[] {
  const parts = strategy === 'word' ? [text] : (text.match(SENTENCE) ?? []);
  const chunks: string[] = [];
  let held: string[] = [];
  const flush = () => {
    if (held.length > 0) chunks.push(held.join(' '));
    held = [];
  };
  for (const part of parts) {
    const words = splitWords(part);
    if (held.length + words.length > most) flush();
    for (let start = 0; start < words.length; start += most) {
      const piece = words.slice(start, start + most);
      if (held.length + piece.length > most) flush();
      held = [...held, ...piece];
    }
  }
  flush();
  return chunks;
}
