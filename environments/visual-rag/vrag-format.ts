/** VRAG's format gate (verl/utils/reward_score/vrag.py): a search and an answer, outside the user's turns. */

const OPEN_USER = '<|im_start|>user';
const END_TURN = '<|im_end|>';

/** Tells whether the text has a `<search>` and an `<answer>` that are closed later in the text. */
export function checkVragFormat(text: string): boolean {
  const rest = withoutUserTurns(text);
  return ['search', 'answer'].every((tag) => {
    const open = rest.indexOf(`<${tag}>`);
    return open !== -1 && rest.lastIndexOf(`</${tag}>`) > open;
  });
}

/** The text without the user's turns of one line: upstream's pattern crosses no newline. */
export function withoutUserTurns(text: string): string {
  let out = '';
  let from = 0;
  for (let start = text.indexOf(OPEN_USER); start !== -1;) {
    const end = text.indexOf(END_TURN, start + OPEN_USER.length);
    if (end === -1) break;
    const newline = text.indexOf('\n', start);
    if (newline === -1 || newline > end) {
      out += text.slice(from, start);
      from = end + END_TURN.length;
      start = text.indexOf(OPEN_USER, from);
    } else start = text.indexOf(OPEN_USER, newline);
  }
  return out + text.slice(from);
}
