/** The parts of a model's text that are no thoughts, and the answer among them. */

/**
 * Thoughts, by family: Qwen, DeepSeek and GLM; Claude; Magistral; Gemma and others. `whole`: thoughts that are closed, or reach to the end. `opened`: those that were open at the
 * beginning.
 */
const THOUGHTS = [
  { open: '<think>', whole: /<think>[^]*?(?:<\/think>|$)/g, opened: /^[^]*?<\/think>/ },
  { open: '<thinking>', whole: /<thinking>[^]*?(?:<\/thinking>|$)/g, opened: /^[^]*?<\/thinking>/ },
  { open: '[THINK]', whole: /\[THINK\][^]*?(?:\[\/THINK\]|$)/g, opened: /^[^]*?\[\/THINK\]/ },
  { open: '<thought>', whole: /<thought>[^]*?(?:<\/thought>|$)/g, opened: /^[^]*?<\/thought>/ },
  { open: '<reasoning>', whole: /<reasoning>[^]*?(?:<\/reasoning>|$)/g, opened: /^[^]*?<\/reasoning>/ },
];

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

/** True if the text holds a complete answer: `<answer>…</answer>` or `\boxed{…}`. */
export function hasCompleteAnswer(text: string): boolean {
  const opened = text.indexOf('<answer>');
  if (opened !== -1 && text.includes('</answer>', opened)) return true;
  const boxed = text.search(/\\boxed\s*\{/);
  return boxed !== -1 && text.includes('}', boxed);
}
