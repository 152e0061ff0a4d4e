/** Turns text that a policy wrote in this process into the sample that a server would have returned. */
import { contentText, type Message } from '../core/message.ts';
import type { TokenSample } from './policy-client.ts';
import type { TokenizedText } from './text-tokenizer.ts';

/** The contents joined by blank lines: the prompt of a model without a chat template. */
export function joinContents(messages: readonly Message[]): string {
  return messages.length === 1 ? contentText(messages[0]!.content) : messages.map(({ content }) => contentText(content)).join('\n\n');
}

/** The part of the text that a sampler with these stop strings and this limit would have returned. */
export function sampleOf(written: TokenizedText, stop: readonly string[], maxNewTokens: number): Omit<TokenSample, 'logProbs' | 'usage'> {
  const { ids, textEnds } = written;
  const hit = firstStop(written.text, stop);
  const textEnd = hit === null ? written.text.length : hit.end;
  let count = ids.length;
  if (hit !== null) {
    count = 0;
    while (textEnds[count]! < textEnd) count++;
    count += 1;
  }
  const isLong = count > maxNewTokens;
  if (isLong) count = maxNewTokens;
  const tokensEnd = count === 0 ? 0 : textEnds[count - 1]!;
  return {
    text: written.text.slice(0, Math.min(textEnd, tokensEnd)),
    tail: written.text.slice(textEnd, tokensEnd),
    ids: ids.subarray(0, count),
    textEnds: textEnds.subarray(0, count),
    finish: isLong ? 'length' : 'stop',
    stopReason: isLong || hit === null ? null : hit.stop,
  };
}

/** The stop string that ends first, and its end in the text; null if the text holds none. */
export function firstStop(text: string, stop: readonly string[]): { stop: string; end: number } | null {
  let first: { stop: string; end: number } | null = null;
  for (const candidate of stop) {
    const at = text.indexOf(candidate);
    if (at >= 0 && (first === null || at + candidate.length < first.end)) first = { stop: candidate, end: at + candidate.length };
  }
  return first;
}
