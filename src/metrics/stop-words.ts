/** Lucene's 33 English stop words. They occur in almost every text, so they do not help to find a particular one. */
export const ENGLISH_STOP_WORDS: ReadonlySet<string> = new Set(
  'a an and are as at be but by for if in into is it no not of on or such that the their then there these they this to was will with'.split(' '),
);
