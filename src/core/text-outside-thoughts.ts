/** The parts of a model's text that are not thoughts, and the answer among them. */

/** The tags of thoughts, by family: Qwen, DeepSeek and GLM; Claude; Magistral; Gemma 3 and others; Gemma 4; Command A; Seed-OSS; MiniMax M3; Kimi-VL; the raw text of gpt-oss. */
const TAGS = [
  ['<think>', '</think>'],
  ['<thinking>', '</thinking>'],
  ['[THINK]', '[/THINK]'],
  ['<thought>', '</thought>'],
  ['<reasoning>', '</reasoning>'],
  ['<|channel>thought', '<channel|>'],
  ['<|START_THINKING|>', '<|END_THINKING|>'],
  ['<seed:think>', '</seed:think>'],
  ['<mm:think>', '</mm:think>'],
  ['◁think▷', '◁/think▷'],
  ['<|channel|>analysis<|message|>', '<|end|><|start|>assistant'],
] as const;
const escaped = (tag: string) => tag.replaceAll(/[[\]|/]/g, String.raw`\$&`);
/** `whole`: thoughts that are closed, or reach to the end. `opened`: those that were open at the beginning. */
const THOUGHTS = TAGS.map(([open, close]) => ({
  open,
  close,
  whole: new RegExp(`${escaped(open)}[^]*?(?:${escaped(close)}|$)`, 'g'),
  opened: new RegExp(`^[^]*?${escaped(close)}`),
}));

/**
 * The text with spaces in place of thoughts, so that places stay the same. Thoughts that are not closed reach to the end; a closing tag without an opening one
 * ends thoughts that the chat template opened.
 * @example outsideThoughts('<think> a </think> b') // '                   b'
 */
export function outsideThoughts(text: string): string {
  return THOUGHTS.reduce((shown, { open, whole, opened }) => {
    const firstOpen = shown.indexOf(open);
    const early = opened.exec(firstOpen === -1 ? shown : shown.slice(0, firstOpen));
    const rest = early === null ? shown : blank(early[0]) + shown.slice(early[0].length);
    return rest.replace(whole, blank);
  }, text);
}

function blank(text: string): string {
  return ' '.repeat(text.length);
}

/**
 * The text after the thoughts at its beginning, which end in a closing tag; the chat template may have opened them. A text that begins with JSON or a code fence has none.
 * @example afterThoughts('<think> {"score": 0}? </think> {"score": 1}') // ' {"score": 1}'
 */
export function afterThoughts(text: string): string {
  const start = text.trimStart();
  if (/^[{[`]/.test(start) && !start.startsWith('[THINK]')) return text;
  for (const { open, opened } of THOUGHTS) {
    const match = opened.exec(text);
    if (match !== null && (start.startsWith(open) || !match[0].includes(open))) return text.slice(match[0].length);
  }
  return text;
}

/** Words that a prompt may ask for as a format of the answer, which is then not a thought. */
const OF_PROMPTS: ReadonlySet<string> = new Set(['<thinking>', '<thought>', '<reasoning>']);
const OF_TEMPLATES = TAGS.filter(([open]) => !OF_PROMPTS.has(open));

/**
 * A turn without the thoughts at its beginning, as a server with a reasoning parser gives it. Thoughts are closed, in the tags of a
 * family's chat template; everything else is text, also tags further on.
 * @param mayBeOpen the template may have opened thoughts outside the text: then they end in a tag that ends or begins a line. @default false
 * @returns `thoughts` without tags, empty if there are none; `rest` without blanks after them
 * @example splitThoughts('<think>so</think>\nIt is grey.') // { thoughts: 'so', rest: 'It is grey.' }
 */
export function splitThoughts(text: string, { mayBeOpen = false } = {}): { readonly thoughts: string; readonly rest: string } {
  const start = text.trimStart();
  for (const [open, close] of OF_TEMPLATES) {
    const opened = start.startsWith(open) ? open : start.startsWith(close) || (mayBeOpen && endsOpenThoughts(text, { open, close })) ? '' : null;
    const end = opened === null ? -1 : start.indexOf(close, opened.length);
    if (end === -1) continue;
    const thoughts = start.slice(opened!.length, end).replace(/^\n/, '').replace(/\n$/, '');
    return { thoughts, rest: start.slice(end + close.length).trimStart() };
  }
  return { thoughts: '', rest: text };
}

/** A tag within a sentence is a mention. */
function endsOpenThoughts(text: string, { open, close }: { readonly open: string; readonly close: string }): boolean {
  const at = text.indexOf(close);
  if (at === -1 || text.slice(0, at).includes(open) || /^\s*[{[`]/.test(text)) return false;
  return /(?:^|\n)[ \t]*$/.test(text.slice(0, at)) || /^[ \t]*(?:\n|$)/.test(text.slice(at + close.length));
}

/** Index after the last tag that closes thoughts; 0 without one. */
export function afterClosedThoughts(text: string): number {
  return Math.max(0, ...THOUGHTS.map(({ close }) => (text.includes(close) ? text.lastIndexOf(close) + close.length : 0)));
}

/** Indices after the last complete answers, in `<answer>` and in `\boxed{}`; -1 without one. */
export function answerEnds(text: string): { readonly tagged: number; readonly boxed: number } {
  const opened = text.indexOf('<answer>');
  const closed = opened === -1 ? -1 : text.lastIndexOf('</answer>');
  const box = text.lastIndexOf('\\boxed');
  const brace = box === -1 ? -1 : text.indexOf('}', box);
  return { tagged: closed > opened ? closed + '</answer>'.length : -1, boxed: brace + (brace === -1 ? 0 : 1) };
}
