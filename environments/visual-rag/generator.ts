/** Asks the frozen generator, which answers from the evidence alone. */
import { type Message, ModelError, type RewardContext } from 'vf-search';
import type { GeneratorData } from './reader.ts';
import { linesOf, type ShownWord } from './reading.ts';
import type { VisualRow } from './rows.ts';
import { extractAnswer } from './verdict.ts';

/** Upstream's max_output_tokens (GSPO phase 2). */
const MAX_TOKENS = 3072;

const INSTRUCTIONS =
  'You answer questions about document pages. Use only the evidence below. Reply with the answer alone, in as few words as possible, without an explanation. If the evidence does not hold the answer, reply with your best guess.';

/** The generator's answer, stripped; it may be empty. Throws ModelError if it fails. */
export async function askGenerator({ row, models, signal }: RewardContext<VisualRow>, evidence: readonly (readonly ShownWord[])[]): Promise<string> {
  const model = models['generator'];
  if (model === undefined) throw new ModelError('No model plays the role generator.', { role: 'generator', reason: 'not_set_up' });
  const { question } = row.info;
  const data: GeneratorData = { question, evidence };
  const { text } = await model.generate(messagesOf(question, evidence), { maxTokens: MAX_TOKENS, data, signal });
  return (extractAnswer(text) ?? text).trim();
}

function messagesOf(question: string, evidence: readonly (readonly ShownWord[])[]): readonly Message[] {
  const texts = evidence.map(
    (words, i) =>
      `Evidence ${i + 1}:\n${linesOf(words)
        .map(({ text }) => text)
        .join('\n')}`,
  );
  return [
    { role: 'system', content: INSTRUCTIONS },
    { role: 'user', content: [...(texts.length === 0 ? ['(no evidence)'] : texts), `Question: ${question}`].join('\n\n') },
  ];
}
