/** Checks that a rollout follows the format think, search, information, answer (`is_valid_sequence` of verl/utils/reward_score/qa_em_format.py). */
import { skipWhitespace, strip } from 'vf-search/metrics/python-text';

/** The beginning of the response. Upstream finds it in the rendered ChatML prompt. */
export const ASSISTANT_ANCHOR = '<|im_start|>assistant';

const TAGS = ['think', 'search', 'information', 'answer'] as const;
const ANY_TAG = /<\/?(?:think|search|information|answer)>/g;

type State = 'start' | 'in_think' | 'after_think' | 'in_search' | 'after_search' | 'in_information' | 'information' | 'in_answer' | 'end';

/** start -> think -> (search -> information -> think)* -> answer -> end. */
const NEXT: Partial<Record<State, Readonly<Record<string, State>>>> = {
  start: { '<think>': 'in_think' },
  in_think: { '</think>': 'after_think' },
  after_think: { '<search>': 'in_search', '<answer>': 'in_answer' },
  in_search: { '</search>': 'after_search' },
  after_search: { '<information>': 'in_information' },
  in_information: { '</information>': 'information' },
  information: { '<think>': 'in_think' },
  in_answer: { '</answer>': 'end' },
};

export interface FormatVerdict {
  readonly valid: boolean;
  /** In upstream's words. */
  readonly reason: string;
}

/** Checks the text after the first anchor. Tags are case-sensitive and have no attributes. A block may contain anything; only whitespace may separate blocks. */
export function isValidSequence(text: string): FormatVerdict {
  const anchor = text.indexOf(ASSISTANT_ANCHOR);
  if (anchor === -1) return invalid('Missing assistant marker');
  const content = text.slice(skipWhitespace(text, anchor + ASSISTANT_ANCHOR.length));
  return invalidCounts(content) ?? walk(content);
}

function invalidCounts(content: string): FormatVerdict | null {
  const counts = new Map<string, number>();
  for (const [tag] of content.matchAll(ANY_TAG)) counts.set(tag, (counts.get(tag) ?? 0) + 1);
  for (const tag of TAGS) {
    const opening = counts.get(`<${tag}>`) ?? 0;
    const closing = counts.get(`</${tag}>`) ?? 0;
    if (opening !== closing) return invalid(`Mismatch in ${tag} tags: ${opening} opening vs ${closing} closing tags`);
  }
  return null;
}

function walk(content: string): FormatVerdict {
  let state: State = 'start';
  let end = 0;
  for (const match of content.matchAll(ANY_TAG)) {
    const unexpected = unexpectedBetween(content.slice(end, match.index), state);
    if (unexpected) return unexpected;
    const next: State | undefined = NEXT[state]?.[match[0]];
    if (!next) return invalid(`Unexpected tag ${match[0]} in state ${state}`);
    state = next;
    end = match.index + match[0].length;
  }
  const unexpected = unexpectedBetween(content.slice(end), state);
  if (unexpected) return unexpected;
  return state === 'end' ? { valid: true, reason: 'Valid sequence format' } : invalid(`Incomplete sequence, ended in state ${state}`);
}

function unexpectedBetween(text: string, state: State): FormatVerdict | null {
  if (state.startsWith('in_')) return null;
  const stripped = strip(text);
  if (stripped === '') return null;
  if (state === 'end') return invalid('Unexpected content in state end');
  return invalid(`Unexpected content '${stripped}' between tags (state: ${state})`);
}

function invalid(reason: string): FormatVerdict {
  return { valid: false, reason };
}
