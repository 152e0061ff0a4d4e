/** The two prompts: the specification's, a system message with the protocol and two examples, and search-r1's, which its models were taught. */
import type { Message } from 'vf-search';
import { makePrefix, normalizeQuestion } from 'vf-search/environments/search-r1';

/** `document`: the prompt of the specification. `search-r1`: one user message, byte for byte as that environment's. */
export type PromptStyle = 'document' | 'search-r1';

const INSTRUCTIONS = `You answer questions, and you can look things up. Everything you write is read by its tags:

<think>...</think> holds your reasoning. It is optional, you can reason as often as you like, and nothing inside it is searched.
<search>...</search> asks the search engine. What it finds is given to you right behind it, in <information>...</information>. Never write those two tags yourself.
<answer>...</answer> holds your final answer and nothing else. Write it once, as the last thing.

Search only when you need to. If the search finds nothing of use, answer <answer>未找到相关内容</answer>.

Example of a question that needs a search:
Which floor is the archive on?
<think>I have to look this up.</think><search>archive floor</search><information>The archive is on the third floor, next to the lift.</information><think>It says so.</think><answer>the third floor</answer>

Example of a question that needs none:
What is 6 times 7?
<think>6 times 7 is 42.</think><answer>42</answer>`;

/** The messages of an episode. A blank question gets a prompt too, but is never played. */
export function promptFor(question: string, style: PromptStyle): readonly Message[] {
  if (style === 'search-r1') return [{ role: 'user', content: makePrefix(question.trim() === '' ? '' : normalizeQuestion(question)) }];
  return [
    { role: 'system', content: INSTRUCTIONS },
    { role: 'user', content: question },
  ];
}
