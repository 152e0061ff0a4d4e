/** Finds answers and information in a model's text, as upstream's `extract_answer` (scripts/evaluate.py) does. Every function is linear in the text. */
import { greedyBoxed } from 'vf-search/metrics/boxed';
import { strip, stripCharacters } from 'vf-search/metrics/python-text';

/**
 * - `qa`, `choose`: the boxed answer of a question or a choice, without `\text{}` and round brackets
 * - `gen`: the unchanged boxed answer, for mathematics
 * - `infogen`: the information that a refiner found
 * - `codegen`: the last block of Python code
 */
export type AnswerMode = 'qa' | 'choose' | 'gen' | 'infogen' | 'codegen';

/** The value of a refinement without a section of information. */
export const NOTHING_FOUND = 'No helpful information found.';

const INFORMATION = '\n**Final Information**';
const STEPS = '\n**Modified Reasoning Steps**';
const CODE = /```python/gi;

/**
 * Finds the answer in a model's text. Returns an empty string if the text has no answer, or `No helpful information found.` in the mode `infogen`.
 * @example extractAnswer('So it is \\boxed{Paris}.', 'qa') // 'Paris'
 */
export function extractAnswer(text: string, mode: AnswerMode = 'gen'): string {
  if (mode === 'infogen') return extractInformation(text);
  if (mode === 'codegen') return lastCode(text);
  return greedyBoxed(text, { isAnswer: mode !== 'gen' });
}

/**
 * The boxed answer to a question: of the last line with a `\boxed{`, everything between its first one and its last brace, without `\text{}` and round brackets.
 * Empty without one.
 * @example extractBoxed('\\boxed{\\text{Paris}}') // 'Paris'
 */
export function extractBoxed(text: string): string {
  return extractAnswer(text, 'qa');
}

/**
 * The helpful information in a refiner's reply: the text behind the last `**Final Information**`, on one line; without one, behind the last `**Modified Reasoning
 * Steps**`; else `No helpful information found.` A heading counts only behind a line break, as in upstream.
 * @example extractInformation('Page 1 says it.\n**Final Information**\n\nLima is the capital.') // 'Lima is the capital.'
 */
export function extractInformation(reply: string): string {
  const information = reply.lastIndexOf(INFORMATION);
  if (information !== -1) return tidy(reply.slice(information + INFORMATION.length).replaceAll('\n', ''));
  const steps = reply.lastIndexOf(STEPS);
  return steps === -1 ? NOTHING_FOUND : tidy(reply.slice(steps + STEPS.length));
}

function tidy(text: string): string {
  return strip(stripCharacters(text, '`'));
}

function lastCode(text: string): string {
  let code = '';
  for (CODE.lastIndex = 0; ;) {
    const open = CODE.exec(text);
    const close = open === null ? -1 : text.indexOf('```', CODE.lastIndex);
    if (close === -1) return code;
    code = strip(text.slice(CODE.lastIndex, close));
    CODE.lastIndex = close + 3;
  }
}
