/** Conversations as played, for each published template: what the policy samples, what the environment adds, and how a template alters earlier turns. */
import type { Message } from '../../src/core/message.ts';
import type { ToolSpec } from '../../src/core/tool-calls.ts';

interface Turn {
  /** The text of the turn as the policy sampled it. */
  readonly sampled: string;
  /** The control token that the policy ended its turn with; null: a limit or a stop string did. @default the template's own */
  readonly end?: string | null;
  /** The turn as a message that the template renders. @default `sampled` as the content */
  readonly message?: Message;
  readonly next: readonly Message[];
}

export interface PlayedCase {
  readonly name: string;
  readonly prompt: readonly Message[];
  readonly tools?: readonly ToolSpec[];
  readonly turns: readonly Turn[];
}

/** What the template's own rendering of the whole conversation lacks or changes against the buffer, in order. */
export interface Difference {
  readonly because: string;
  readonly replaced: readonly (readonly [buffer: string, template: string])[];
}

const user = (content: string): Message => ({ role: 'user', content });
const system = (content: string): Message => ({ role: 'system', content });
const tool = (content: string, toolCallId = 'call00000'): Message => ({ role: 'tool', content, toolCallId });

export const SEARCH: ToolSpec = {
  name: 'search',
  description: 'Finds passages about a subject.',
  parameters: { type: 'object', properties: { query: { type: 'string' }, count: { type: 'integer' } }, required: ['query'] },
};

/** Longer than the part of earlier messages that is passed on. */
const LONG = `${'The play was written in London. '.repeat(40)}Who wrote it?`;

export const PLAIN_CASES: readonly PlayedCase[] = [
  { name: 'one more turn', prompt: [user('Who wrote Hamlet?')], turns: [{ sampled: 'Shakespeare.', next: [user('When?')] }] },
  {
    name: 'several turns after a system prompt',
    prompt: [system('Be brief.'), user('Who wrote Hamlet?')],
    turns: [
      { sampled: 'Shakespeare.', next: [user('When?')] },
      { sampled: 'In 1600.', next: [user('Where?')] },
      { sampled: 'London.', next: [user('Sure?')] },
    ],
  },
  {
    name: 'turns cut short by a limit',
    prompt: [user('Who wrote Hamlet?')],
    turns: [
      { sampled: 'Shakes', end: null, next: [user('Go on.')] },
      { sampled: 'peare.', next: [user('When?')] },
      { sampled: 'In', end: null, next: [user('Go on.')] },
    ],
  },
  {
    name: 'long messages with only their ends passed on',
    prompt: [system(LONG), user(LONG)],
    turns: [
      { sampled: LONG, next: [user(LONG)] },
      { sampled: `${LONG} Nobody knows.`, next: [user('When?')] },
    ],
  },
  { name: 'an empty turn', prompt: [user('Who?')], turns: [{ sampled: '', next: [user('Say something.')] }] },
];

/** Each with the calls spelled as the format does. */
export function toolCases(spell: (query: string) => string): readonly PlayedCase[] {
  const call = (query: string): Turn => ({
    sampled: spell(query),
    message: { role: 'assistant', content: '', toolCalls: [{ id: 'call00000', name: 'search', arguments: JSON.stringify({ query }) }] },
    next: [tool(`Passages about ${query}.`)],
  });
  return [
    { name: 'a call and its answer', prompt: [user('Who wrote Hamlet?')], tools: [SEARCH], turns: [call('Hamlet')] },
    {
      name: 'calls one after the other, then another question',
      prompt: [system('Be brief.'), user('Who wrote Hamlet?')],
      tools: [SEARCH],
      turns: [call('Hamlet'), call('the author of Hamlet'), { sampled: 'Shakespeare.', next: [user('When?')] }, call('Hamlet, year')],
    },
    {
      name: 'two answers to one turn',
      prompt: [user('Who wrote Hamlet and Faust?')],
      tools: [SEARCH],
      turns: [{ sampled: 'I look for both.', next: [tool('Shakespeare'), tool('Goethe', 'call00001')] }],
    },
  ];
}

export const THOUGHT_CASE: PlayedCase = {
  name: 'thoughts before an answer',
  prompt: [user('Who wrote Hamlet?')],
  turns: [
    { sampled: '<think>\nA play.\n</think>\n\nShakespeare.', next: [user('When?')] },
    { sampled: '<think>\nLong ago.\n</think>\n\nIn 1600.', next: [user('Where?')] },
  ],
};

/** The prompt of these templates opens the thoughts, so that the policy samples the rest. */
export const OPENED_THOUGHT_CASE: PlayedCase = {
  name: 'thoughts that the prompt opens',
  prompt: [user('Who wrote Hamlet?')],
  turns: [
    { sampled: 'A play.\n</think>\n\nShakespeare.', message: assistantOf('<think>\nA play.\n</think>\n\nShakespeare.'), next: [user('When?')] },
    { sampled: 'Long ago.\n</think>\n\nIn 1600.', message: assistantOf('<think>\nLong ago.\n</think>\n\nIn 1600.'), next: [user('Where?')] },
  ],
};

export const WHITESPACE_CASE: PlayedCase = {
  name: 'a turn with spaces around it',
  prompt: [user('Who?')],
  turns: [{ sampled: ' Shakespeare. \n', next: [user('When?')] }],
};

export const ASKED_TWICE_CASE: PlayedCase = {
  name: 'thoughts between calls',
  prompt: [user('Who wrote Hamlet?')],
  tools: [SEARCH],
  turns: [
    {
      sampled: '<think>\nI look.\n</think>\n\nLooking.',
      next: [tool('Shakespeare')],
    },
    { sampled: '<think>\nAgain.\n</think>\n\nLooking.', next: [tool('Shakespeare')] },
  ],
};

function assistantOf(content: string): Message {
  return { role: 'assistant', content };
}
