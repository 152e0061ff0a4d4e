import { isObject } from '../schemas/is-object.ts';
import type { Passage } from './retriever.ts';

/** The first `topk` results of a web engine as passages: the title in quotes on the first line, the text below. Results that are not objects are left out. */
export function webPassages(results: readonly unknown[], text: string, topk: number): Passage[] {
  const passages: Passage[] = [];
  for (const result of results) {
    if (passages.length >= topk) break;
    if (!isObject(result)) continue;
    const or = (value: unknown, otherwise: string) => (typeof value === 'string' && value !== '' ? value : otherwise);
    passages.push({ contents: `"${or(result['title'], 'No title.')}"\n${or(result[text], 'No snippet available.')}` });
  }
  return passages;
}
