/** The formats in which the extractive baseline searches, reads and answers. The stop strings of a request show which one an environment uses. */
import { bodyPassage, parsePassages, type Passage } from './extractive-passages.ts';

export interface WrittenProtocol {
  /** The question in a prompt, before white space is tidied. */
  question(prompt: string): string;
  /** The passages that the transcript shows so far. */
  passages(transcript: string): readonly Passage[];
  search(thought: string, query: string): string;
  /** The text around an answer. */
  answer(thought: string): readonly [before: string, after: string];
}

const SEARCH_R1_EXAMPLE = '<answer> Beijing </answer>. Question: ';

/** Search-R1's tags. Tools, and everything else that names no other protocol, are written in it too. */
const SEARCH_R1: WrittenProtocol = {
  /** The text after "Question: " in Search-R1's own prompt, else the text after the last "Question: ", else the whole prompt. */
  question(prompt) {
    const example = prompt.indexOf(SEARCH_R1_EXAMPLE);
    const label = prompt.lastIndexOf('Question: ');
    return prompt.slice(example >= 0 ? example + SEARCH_R1_EXAMPLE.length : label >= 0 ? label + 'Question: '.length : 0);
  },
  passages: (transcript) => parsePassages(blocks(transcript, '<information>', '</information>')),
  search: (thought, query) => `<think> ${thought} </think>\n<search> ${query} </search>`,
  answer: (thought) => [`<think> ${thought} </think>\n<answer> `, ' </answer>'],
};

const NOTHING_FOUND = 'No helpful information found.';

/** Search-o1's markers and boxed answers. A result is a refiner's text, without titles. */
const SEARCH_O1: WrittenProtocol = {
  question(prompt) {
    const label = 'Question:\n';
    const at = prompt.indexOf(label);
    return prompt.slice(at < 0 ? 0 : at + label.length);
  },
  passages: (transcript) =>
    blocks(transcript, '<|begin_search_result|>', '<|end_search_result|>').flatMap((text) => (text === NOTHING_FOUND ? [] : [bodyPassage(text)])),
  search: (thought, query) => `${thought}\n\n<|begin_search_query|>${query}<|end_search_query|>`,
  answer: (thought) => [`${thought}\n\n\\boxed{`, '}'],
};

/** The protocol of a request. */
export function protocolFor(stop: readonly string[]): WrittenProtocol {
  return stop.includes('<|end_search_query|>') ? SEARCH_O1 : SEARCH_R1;
}

/** The texts between the markers; the last block may be open. One pass. */
function blocks(text: string, open: string, close: string): string[] {
  const found: string[] = [];
  for (let from = text.indexOf(open); from !== -1;) {
    const start = from + open.length;
    const end = text.indexOf(close, start);
    found.push(text.slice(start, end === -1 ? text.length : end));
    from = end === -1 ? -1 : text.indexOf(open, end + close.length);
  }
  return found;
}
