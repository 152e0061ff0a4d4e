/** The prompt of an episode, in words of our own around upstream's protocol. */
import { contentText, type Message } from 'vf-search';

/** The form in which pages are shown: as pictures, or as words with boxes. */
export type Observations = 'image' | 'ocr';

const QUESTION = 'Question: ';

const SHOWN: Readonly<Record<Observations, string>> = {
  image: 'a picture of a page',
  ocr: 'a page as its lines of words, each with its box [x1, y1, x2, y2]; a word that is too small to read is shown as ?',
};

const ENLARGED: Readonly<Record<Observations, string>> = {
  image: 'You then see this part of the page enlarged.',
  ocr: 'You then get the words of this part of the page, enlarged.',
};

export function promptMessages(question: string, observations: Observations): readonly Message[] {
  return [
    {
      role: 'system',
      content:
        'You collect evidence for a question from a collection of document pages. Another model answers the question from the pages and crops that you collected; you do not answer it yourself.\n' +
        'Write every turn in this form: first your reasoning inside <think> and </think>, then exactly one action on a new line.\n' +
        `- <search>query</search> finds pages. You then see ${SHOWN[observations]}. Each search shows one page that you have not seen yet.\n` +
        `- <bbox>[x1, y1, x2, y2]</bbox> cuts a part out of the page that you saw last. The numbers are pixels of the page as it was shown to you, from its top left corner, with x1 < x2 and y1 < y2. ${ENLARGED[observations]}\n` +
        '- <search_complete>true</search_complete> ends your work, once the evidence is enough to answer.',
    },
    { role: 'user', content: `${QUESTION}${question}` },
  ];
}

/** The question in a prompt of `promptMessages`. */
export function questionOf(messages: readonly Message[]): string {
  const asked = messages.find(({ role }) => role === 'user');
  const text = asked === undefined ? '' : contentText(asked.content);
  return text.startsWith(QUESTION) ? text.slice(QUESTION.length) : text;
}
