/**
 * Compares this package's chat-template renderer with transformers over a folder of published templates: every conversation must give the same text, or be refused by both.
 *
 *   python3 scripts/compare_chat_templates.py FOLDER > reference.jsonl
 *   node scripts/compare-chat-templates.ts FOLDER reference.jsonl
 */
import { join } from 'node:path';
import { ChatTemplate } from '../src/tokenizer/chat-template.ts';
import { readRegularFileSync } from '../src/files/regular-file.ts';

interface Reference {
  readonly file: string;
  readonly conversation: string;
  readonly add_generation_prompt: boolean;
  readonly text?: string;
  readonly refused?: string;
}

interface Conversation {
  readonly messages: readonly Readonly<Record<string, unknown>>[];
  readonly tools?: readonly object[];
  readonly variables?: Readonly<Record<string, unknown>>;
}

const [folder, referenceFile] = process.argv.slice(2);
if (folder === undefined || referenceFile === undefined) {
  process.stderr.write('usage: node scripts/compare-chat-templates.ts FOLDER REFERENCE   (see the top of this file)\n');
  process.exit(2);
}
const golden = JSON.parse(readRegularFileSync(join(import.meta.dirname, '../test/golden/chat-templates/rendered.json'))) as {
  readonly conversations: Readonly<Record<string, Conversation>>;
  readonly variables: Readonly<Record<string, unknown>>;
};
const counts = { equal: 0, refused: 0, different: 0 };
for (const line of readRegularFileSync(referenceFile).trimEnd().split('\n')) {
  const reference = JSON.parse(line) as Reference;
  const { messages, tools, variables } = golden.conversations[reference.conversation]!;
  const outcome = outcomeOf(reference, messages, { ...golden.variables, ...variables, ...(tools === undefined ? {} : { tools }) });
  const isEqual = outcome.text === (reference.text ?? null);
  counts[!isEqual ? 'different' : outcome.text === null ? 'refused' : 'equal'] += 1;
  if (isEqual) continue;
  const { file, conversation, add_generation_prompt: isPrompt, text, refused } = reference;
  process.stdout.write(
    `${file} | ${conversation} | ${isPrompt}\n  theirs: ${shown(text ?? refused!, outcome.text)}\n  ours:   ${shown(outcome.text ?? outcome.refused, text ?? null)}\n`,
  );
}
process.stdout.write(`${counts.equal} equal, ${counts.refused} refused by both, ${counts.different} different\n`);
process.exit(counts.different === 0 ? 0 : 1);

function outcomeOf({ file, add_generation_prompt: addGenerationPrompt }: Reference, messages: Conversation['messages'], variables: object) {
  try {
    const template = ChatTemplate.of(readRegularFileSync(join(folder!, file)), { bos_token: '<s>', eos_token: '</s>' });
    return { text: template.render(messages, { addGenerationPrompt, continueFinalMessage: false, variables: { ...variables } }), refused: '' };
  } catch (error) {
    return { text: null, refused: (error as Error).message };
  }
}

/** The text from shortly before the first difference. */
function shown(text: string, other: string | null): string {
  let at = 0;
  while (at < text.length && text[at] === other?.[at]) at += 1;
  return JSON.stringify(text.slice(Math.max(0, at - 40), at + 160));
}
