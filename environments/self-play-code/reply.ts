/**
 * Reads a model's reply: its thought, its answer and whether it kept the format, as upstream's rewards/custom_evaluate.py does, and the short tags of the nano
 * model. Nothing throws, and everything is linear in the text.
 */
import { skipWhitespace, strip, stripCharacters } from 'vf-search/metrics/python-text';
import type { PromptStyle } from './prompt.ts';
import type { TaskKind } from './records.ts';
import { type BlockName, calledBlocks, fencedBlocks, headedBlocks, openTaggedBlocks, sentenceBlocks } from './text-blocks.ts';

/** The place where upstream looks for the answer: the tag, or `\boxed{}`. */
export type AnswerPlace = 'answer' | 'boxed';

export interface Reply {
  /** The text of the think tag; null if it has none. */
  readonly thought: string | null;
  /** The text of the answer tag, stripped; empty if it has none. */
  readonly answer: string;
  /** The reply has the form that the prompt asks for. */
  readonly isWellFormed: boolean;
}

const THINK = '<think>';
const THINK_END = '</think>';
const ANSWER = '<answer>';
const ANSWER_END = '</answer>';

/**
 * Reads a reply. In the style `full` as upstream: whitespace and quotation marks around it do not count, and it is well-formed if it begins with a closed
 * think block that a closed answer block follows. In the style `mini` it must be one think block and one answer block and nothing else. Never throws.
 */
export function parseReply(text: string, style: PromptStyle = 'full'): Reply {
  if (style === 'mini') return parseMiniReply(text);
  const reply = stripCharacters(strip(text), '"\'');
  const thought = reply.includes(THINK) ? extractThought(reply) : null;
  return { thought, answer: extractAnswer(reply), isWellFormed: formatReward(reply) === 1 };
}

function parseMiniReply(text: string): Reply {
  const parts = taggedParts(text, ['think', 'answer']);
  if (parts === null) return { thought: null, answer: '', isWellFormed: false };
  return { thought: parts[0]!, answer: parts[1]!, isWellFormed: true };
}

/**
 * The contents of the tags if the text consists of exactly these tags in this order, each once; null for any other text. A name can be repeated.
 * @example taggedParts('<a>1</a><b>2</b>', ['a', 'b']) // ['1', '2']
 */
export function taggedParts(text: string, names: readonly string[]): string[] | null {
  const tags = new Set(names.flatMap((name) => [`<${name}>`, `</${name}>`]));
  const parts: string[] = [];
  let at = 0;
  for (const name of names) {
    const [opening, closing] = [`<${name}>`, `</${name}>`];
    const start = at + opening.length;
    const end = text.startsWith(opening, at) ? text.indexOf(closing, start) : -1;
    if (end === -1) return null;
    const part = text.slice(start, end);
    if ([...tags].some((tag) => part.includes(tag))) return null;
    parts.push(part);
    at = end + closing.length;
  }
  return at === text.length ? parts : null;
}

/** The answer of a reply, as upstream's `extract_answer`: stripped; empty if there is none. */
export function extractAnswer(reply: string, place: AnswerPlace = 'answer'): string {
  if (place === 'boxed') return strip(lastBoxed(reply) ?? '');
  const opening = reply.lastIndexOf(ANSWER);
  if (opening === -1) return '';
  const [answer] = reply.slice(opening + ANSWER.length).split(ANSWER_END, 1);
  return strip(answer!);
}

/** The text after the last `<think>`, up to its end; the whole reply without the tag, as upstream's `extract_thought`. */
export function extractThought(reply: string): string {
  const opening = reply.lastIndexOf(THINK);
  if (opening === -1) return reply;
  return reply.slice(opening + THINK.length).split(THINK_END, 1)[0]!;
}

/** 1 if the reply has the right format, else 0, as upstream's `get_format_reward`. Text after the answer does not count. */
export function formatReward(reply: string, place: AnswerPlace = 'answer'): 0 | 1 {
  if (place === 'boxed') return lastBoxed(reply) === null ? 0 : 1;
  if (!reply.startsWith(THINK)) return 0;
  for (let at = reply.indexOf(THINK_END, THINK.length); at !== -1; at = reply.indexOf(THINK_END, at + THINK_END.length)) {
    const answer = skipWhitespace(reply, at + THINK_END.length);
    if (reply.startsWith(ANSWER, answer)) return reply.includes(ANSWER_END, answer + ANSWER.length) ? 1 : 0;
  }
  return 0;
}

/** Upstream's `last_boxed_only_string`: the box with its braces; null if there is none. */
function lastBoxed(text: string): string | null {
  const spaced = text.lastIndexOf('\\boxed ');
  if (spaced !== -1) return `\\boxed ${text.slice(spaced + '\\boxed '.length).split('$', 1)[0]!}`;
  const boxed = text.lastIndexOf('\\boxed');
  const start = boxed === -1 ? text.lastIndexOf('\\fbox') : boxed;
  if (start === -1) return null;
  let open = 0;
  for (let at = start; at < text.length; at++) {
    if (text[at] === '{') open += 1;
    if (text[at] === '}' && --open === 0) return text.slice(start, at + 1);
  }
  return null;
}

/**
 * The value in an answer, as upstream's `extract_input_output`: the last fence with the name, else the last heading, call, tag or sentence, else the
 * whole answer. It is not stripped.
 * @example extractValue('The output is 42.', 'code_o') // '42'
 */
export function extractValue(answer: string, kind: Exclude<TaskKind, 'code_f'>): string {
  const name: BlockName = kind === 'code_i' ? 'input' : 'output';
  for (const find of [fencedBlocks, headedBlocks, calledBlocks, openTaggedBlocks, sentenceBlocks]) {
    const last = find(answer, name).at(-1);
    if (last !== undefined) return last;
  }
  return answer;
}
