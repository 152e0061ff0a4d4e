/** The built-in baseline: answers with the last literal of the prompt. A floor for comparisons, and a first run without a model. */
import { contentText, type Message } from 'vf-search';
import type { Baseline } from 'vf-search/environment-kit';
import type { PromptStyle } from './prompt.ts';

/** Strings on one line, and numbers. An escaped quote outside a string begins none, or each in a string without an end would be tried as a beginning. */
const LITERAL = /\\['"\\]|'(?:[^'\\\n]|\\.)*'|"(?:[^"\\\n]|\\.)*"|-?\d+(?:\.\d+)?/g;

export function lastLiteralBaseline(style: PromptStyle): Baseline {
  return {
    name: 'last-literal-baseline',
    description: 'it answers with the last literal of the prompt, and where a function is asked for, with one that always returns it',
    reply: (messages) => reply(messages, style),
  };
}

function reply(messages: readonly Message[], style: PromptStyle): string {
  const text = contentText(messages.at(-1)?.content ?? '');
  const literal = text.match(LITERAL)?.findLast((found) => !found.startsWith('\\')) ?? 'None';
  const isFunction = style === 'mini' ? text.startsWith('solve f') : text.includes('## Task: write the function');
  const program = style === 'mini' ? `def f(a):return ${literal}` : `\`\`\`python\ndef f(*a):\n    return ${literal}\n\`\`\``;
  const answer = isFunction
    ? program
    : style === 'mini'
      ? literal
      : `\`\`\`${text.includes('## Task: find an input') ? 'input' : 'output'}\n${literal}\n\`\`\``;
  return `<think></think><answer>${answer}</answer>`;
}
