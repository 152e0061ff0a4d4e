/** Asks the frozen generator, which answers from the evidence alone. */
import { type Message, ModelError, type RewardContext } from 'vf-search';
import type { ContentPart, ImageRef } from 'vf-search/environment-kit';
import type { GeneratorData } from './reader.ts';
import { linesOf, type ShownWord } from './reading.ts';
import type { VisualRow } from './rows.ts';
import { extractAnswer } from './verdict.ts';

const INSTRUCTIONS =
  'You answer questions about document pages. Use only the evidence below. Reply with the answer alone, in as few words as possible, without an explanation. If the evidence does not hold the answer, reply with your best guess.';

/** A page or crop of the evidence: its words and, in `image` mode, its picture. */
export interface Evidence {
  readonly words: readonly ShownWord[];
  readonly image?: ImageRef;
}

/** The generator's answer without its thoughts, stripped; it may be empty. Throws ModelError if it fails, also if its limit ended its thoughts. */
export async function askGenerator(
  { row, models, signal }: RewardContext<VisualRow>,
  { evidence, maxTokens }: { readonly evidence: readonly Evidence[]; readonly maxTokens: number },
): Promise<string> {
  const model = models['generator'];
  if (model === undefined)
    throw new ModelError('No model plays the role generator. Bind one with --role generator=MODEL@URL, or pass it among the models of the call.', {
      role: 'generator',
      reason: 'not_set_up',
    });
  const { question } = row.info;
  const data: GeneratorData = { question, evidence: evidence.map(({ words }) => words) };
  const { text, finish } = await model.generate(messagesOf(question, evidence), { maxTokens, data, signal });
  const said = withoutThoughts(text);
  const answer = (extractAnswer(said) ?? said).trim();
  // It is the generator's failure, not an answer that the policy's evidence would have to pay for.
  if (answer === '' && finish === 'length')
    throw new ModelError(
      'The generator was cut off at its limit of tokens before it answered. Raise generator_max_tokens, or max_tokens of the role.',
      {
        role: 'generator',
        reason: 'malformed',
      },
    );
  return answer;
}

/** The text behind the thoughts of a server that does not give them a field of their own. */
function withoutThoughts(text: string): string {
  const end = text.lastIndexOf('</think>');
  if (end !== -1) return text.slice(end + '</think>'.length);
  return text.trimStart().startsWith('<think>') ? '' : text;
}

function messagesOf(question: string, evidence: readonly Evidence[]): readonly Message[] {
  const parts = evidence.flatMap(partsOf);
  const content: readonly ContentPart[] = [...(parts.length === 0 ? [textPart('(no evidence)')] : parts), textPart(`\n\nQuestion: ${question}`)];
  return [
    { role: 'system', content: INSTRUCTIONS },
    { role: 'user', content: parts.some(({ type }) => type === 'image') ? content : joined(content) },
  ];
}

/** The words line by line, with `?` for each one that cannot be read. */
export function wordsOf({ words }: Evidence): string {
  return linesOf(words)
    .map(({ text }) => text)
    .join('\n');
}

function partsOf(evidence: Evidence, i: number): ContentPart[] {
  const title = `${i === 0 ? '' : '\n\n'}Evidence ${i + 1}:\n`;
  if (evidence.image !== undefined) return [textPart(title), { type: 'image', image: evidence.image }];
  return [textPart(`${title}${wordsOf(evidence)}`)];
}

function textPart(text: string): ContentPart {
  return { type: 'text', text };
}

function joined(parts: readonly ContentPart[]): string {
  return parts.map((part) => (part.type === 'text' ? part.text : '')).join('');
}
