/** The thinks of a demonstration, and the guards of a rewrite that may change only them (DDAI, rewrite_sft_think_gpt and clean_rewritten_sft_dataset). Pure. */

const THINK = /(<think>)(.*?)(<\/think>)/gisu;
/** Replaces the words of each think before two messages are compared. The tags stay, so a changed tag counts as a difference. */
const SOME_THINK = '$1\0$3';
const WORD = '[\\p{L}\\p{N}_]';
const SPACE = '[\\t\\n\\v\\f\\r\\x1c-\\x20\\x85\\xa0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f\\u205f\\u3000]';

/** Claims of having seen a picture, English and Korean. */
const CLAIMS = [
  new RegExp(`(?<!${WORD})(?:the image shows|in the image|visible in the image|i can see|it clearly shows)(?!${WORD})`, 'iu'),
  /(?:이미지(?:에서|에)|사진(?:에서|에))[^\n]*(?:보이|보인다|확인)/iu,
];
const ACTION_TAG = new RegExp(`</?${SPACE}*(?:search|bbox|search_complete|answer)(?!${WORD})`, 'iu');

/** The contents of the message's thinks, in order; tags in any case. */
export function thinksOf(text: string): string[] {
  return [...text.matchAll(THINK)].map(([, , think]) => think!);
}

/** The text with other thinks, one for each. If the list is shorter, the remaining thinks stay, and so do the tags. */
export function withThinks(text: string, thinks: readonly string[]): string {
  let i = 0;
  return text.replace(THINK, (whole, open: string, _: string, close: string) => {
    const think = thinks[i++];
    return think === undefined ? whole : `${open}${think}${close}`;
  });
}

/** True if the texts differ outside their thinks, including the case of the tags. */
export function changesOutside(before: string, after: string): boolean {
  return before.replace(THINK, SOME_THINK) !== after.replace(THINK, SOME_THINK);
}

/** True if the text claims to have seen a picture. */
export function claimsSight(text: string): boolean {
  return CLAIMS.some((claim) => claim.test(text));
}

/** True if the text names an action as a tag, such as `<bbox>`. */
export function namesAction(text: string): boolean {
  return ACTION_TAG.test(text);
}

/**
 * The think to keep: the rewritten one, or the original if the rewritten one names an action as a tag or, with `claims`, claims to have seen a picture although the
 * original does not.
 */
export function guardedThink(original: string, rewritten: string, { claims }: { readonly claims: boolean }): string {
  if (namesAction(rewritten)) return original;
  return claims && claimsSight(rewritten) && !claimsSight(original) ? original : rewritten;
}
