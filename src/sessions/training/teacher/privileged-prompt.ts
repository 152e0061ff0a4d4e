/** The prompt of a teacher that knows more than the student: the row's own, with a text before the question. */
import { LRUCache } from 'lru-cache';
import { Random } from '../../../core/random.ts';
import type { Environment } from '../../../core/environment.ts';
import type { Message } from '../../../core/message.ts';
import { trainingRows } from '../../../core/training-rows.ts';
import type { Row } from '../../../core/dataset.ts';
import type { LocalTokenizer } from '../../../tokenizer/local-tokenizer.ts';
import type { Teacher } from '../../../trainer/teacher.ts';

export interface PrivilegedPromptOptions {
  /** `algorithm.teacher.privileged`. */
  readonly template: string;
  readonly environment: Environment;
  /** The student's. */
  readonly tokenizer: LocalTokenizer;
}

/** Null for a row without what the template names, and for a rollout whose prompt is not that of its row. */
export function privilegedPrompt({ template, environment, tokenizer }: PrivilegedPromptOptions): NonNullable<Teacher['promptOf']> {
  const train = trainingRows(environment);
  const rows = new Map(Array.from(train ?? [], (row) => [String(row.exampleId), row]));
  const made = new LRUCache<string, Promise<Prompts | null>>({ max: MOST_KEPT });
  return async ({ groupId, ids, promptLength }, signal) => {
    const row = rows.get(groupId);
    if (row === undefined) return null;
    const known = made.get(groupId) ?? promptsOf(row, { template, environment, tokenizer, signal });
    made.set(groupId, known);
    known.catch(() => made.delete(groupId));
    const prompts = await known;
    if (prompts === null) return null;
    const isOwn = prompts.student.length === promptLength && prompts.student.every((id, at) => id === ids[at]);
    return isOwn ? prompts.teacher : null;
  };
}

/** The rollouts of a row come one after another. */
const MOST_KEPT = 256;

interface Prompts {
  /** As the rollout has it. */
  readonly student: Int32Array;
  readonly teacher: Int32Array;
}

async function promptsOf(row: Row, options: PrivilegedPromptOptions & { readonly signal: AbortSignal }): Promise<Prompts | null> {
  const { template, environment, tokenizer, signal } = options;
  const text = filledTemplate(template, row);
  if (text === null) return null;
  await using episode = await environment.start(row, { random: Random.fromSeed(0), signal });
  const format = (episode.turnFormat ?? environment.turnFormat) === 'chat' ? 'chat' : 'continuation';
  const bos = format === 'chat' ? {} : { bos: (episode.tokens ?? environment.tokens ?? {}).bos ?? 'model' };
  const render = async (messages: readonly Message[]) => (await tokenizer.render(messages, { format, tools: episode.tools ?? [], ...bos })).ids;
  const told = withText(episode.prompt, text);
  return told === null ? null : { student: await render(episode.prompt), teacher: await render(told) };
}

/** The template with the row's values; null if the row lacks one. */
export function filledTemplate(template: string, { answer, info = {} }: Row): string | null {
  let isWhole = true;
  const text = template.replaceAll(PLACE, (_, name: string) => {
    const value = name === 'answer' ? answer : info[name.slice('info.'.length)];
    const said = Array.isArray(value) ? value.join('\n') : typeof value === 'string' || typeof value === 'number' ? String(value) : '';
    if (said === '') isWhole = false;
    return said;
  });
  return isWhole ? text : null;
}

const PLACE = /\{(answer|info\.[^{}]+)\}/g;

/** Before the text of the last message of the user. Null if there is none, or if it shows images. */
function withText(prompt: readonly Message[], text: string): readonly Message[] | null {
  const at = prompt.findLastIndex(({ role }) => role === 'user');
  const message = prompt[at];
  if (message === undefined || typeof message.content !== 'string') return null;
  return prompt.with(at, { ...message, content: `${text}\n\n${message.content}` });
}
