/** Words that do not show the subject of a question. */

const STOP_WORDS = new Set(
  'a an and are as at by did do does for from had has have how in is it its much of on or that the their this to was were what when where which who whom whose why will with amounted many'.split(
    ' ',
  ),
);

/** Lower-case words without punctuation at their ends. */
export function plainWords(text: string): string[] {
  return text.split(/\s+/).flatMap((word) => {
    const plain = word.toLowerCase().replace(/^[^\p{L}\p{N}]+|(?<![^\p{L}\p{N}])[^\p{L}\p{N}]+$/gu, '');
    return plain === '' ? [] : [plain];
  });
}

/** The distinct words that are not stop words. */
export function contentWords(text: string): ReadonlySet<string> {
  return new Set(plainWords(text).filter((word) => !STOP_WORDS.has(word)));
}
