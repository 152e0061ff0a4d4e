/**
 * Martin Porter's 1980 stemmer with the three changes of his own reference code (`bli`, `logi`, words of one or two letters stay). Works on UTF-16 units;
 * everything except aeiou(y) counts as a consonant. Linear in the length of the word.
 *
 * - `lucene`: as Lucene's PorterStemFilter, nothing else
 * - `nltk`: with the changes of NLTK's PorterStemmer in its default mode, which ROUGE uses: irregular words, short words in -ies and -ied, a final y
 *   after any consonant, `fulli`, `alli` first
 */
type PorterVariant = 'lucene' | 'nltk';

const NLTK_IRREGULAR: ReadonlyMap<string, string> = new Map([
  ['sky', 'sky'],
  ['skies', 'sky'],
  ['dying', 'die'],
  ['lying', 'lie'],
  ['tying', 'tie'],
  ['news', 'news'],
  ['innings', 'inning'],
  ['inning', 'inning'],
  ['outings', 'outing'],
  ['outing', 'outing'],
  ['cannings', 'canning'],
  ['canning', 'canning'],
  ['howe', 'howe'],
  ['proceed', 'proceed'],
  ['exceed', 'exceed'],
  ['succeed', 'succeed'],
]);

/** [suffix, replacement]; step 2 applies the first match. */
const step2: readonly (readonly [string, string])[] = [
  ['ational', 'ate'],
  ['tional', 'tion'],
  ['enci', 'ence'],
  ['anci', 'ance'],
  ['izer', 'ize'],
  ['bli', 'ble'],
  ['alli', 'al'],
  ['entli', 'ent'],
  ['eli', 'e'],
  ['ousli', 'ous'],
  ['ization', 'ize'],
  ['ation', 'ate'],
  ['ator', 'ate'],
  ['alism', 'al'],
  ['iveness', 'ive'],
  ['fulness', 'ful'],
  ['ousness', 'ous'],
  ['aliti', 'al'],
  ['iviti', 'ive'],
  ['biliti', 'ble'],
  ['logi', 'log'],
];

const step3: readonly (readonly [string, string])[] = [
  ['icate', 'ic'],
  ['ative', ''],
  ['alize', 'al'],
  ['iciti', 'ic'],
  ['ical', 'ic'],
  ['ful', ''],
  ['ness', ''],
];

/** Longer suffixes before the ones they end with. */
const step4 = 'al ance ence er ic able ible ant ement ment ent ion ou ism ate iti ous ive ize'.split(' ');

/**
 * The stem of a lower-cased word.
 * @example porterStem('relational') // 'relat'
 */
export function porterStem(word: string, variant: PorterVariant = 'lucene'): string {
  const isNltk = variant === 'nltk';
  const irregular = isNltk ? NLTK_IRREGULAR.get(word) : undefined;
  if (irregular !== undefined) return irregular;
  if (word.length <= 2) return word;
  let stem = isNltk && word.endsWith('ies') && word.length === 4 ? word.slice(0, -1) : withoutPlural(word);
  stem = isNltk && stem.endsWith('ied') ? stem.slice(0, stem.length === 4 ? -1 : -2) : withoutPastOrGerund(stem, isNltk);
  if (stem.endsWith('y') && (isNltk ? endsInYAfterConsonant(stem) : holdsVowel(stem, stem.length - 1))) stem = `${stem.slice(0, -1)}i`;
  stem = isNltk ? nltkStep2(stem) : replaceSuffix(stem, step2);
  stem = replaceSuffix(stem, step3);
  stem = withoutLatinSuffix(stem);
  return withoutFinalE(stem, isNltk);
}

function endsInYAfterConsonant(word: string): boolean {
  return word.length > 2 && isConsonant(word, word.length - 2);
}

/** Takes `alli` before all others and goes on with what is left; knows `fulli`; the l of `logi` counts as the stem's. */
function nltkStep2(word: string): string {
  let stem = word;
  if (stem.endsWith('alli') && measure(stem, stem.length - 4) > 0) stem = stem.slice(0, -2);
  if (stem.endsWith('logi')) return measure(stem, stem.length - 3) > 0 ? stem.slice(0, -1) : stem;
  if (stem.endsWith('fulli')) return measure(stem, stem.length - 5) > 0 ? stem.slice(0, -2) : stem;
  return replaceSuffix(stem, step2);
}

function isConsonant(word: string, i: number): boolean {
  switch (word.charCodeAt(i)) {
    case 97: // a
    case 101: // e
    case 105: // i
    case 111: // o
    case 117: // u
      return false;
    case 121: {
      // A y is a consonant at the start of the word and after a vowel; a run of them alternates.
      let first = i;
      while (first > 0 && word.charCodeAt(first - 1) === 121) first--;
      const firstIsConsonant = first === 0 || !isConsonant(word, first - 1);
      return firstIsConsonant === ((i - first) % 2 === 0);
    }
    default:
      return true;
  }
}

/** Porter's m: the number of times that a vowel is followed by a consonant in the first `length` letters. */
function measure(word: string, length: number): number {
  let count = 0;
  let afterVowel = false;
  for (let i = 0; i < length; i++) {
    const isVowel = isVowelAfter(word, i, afterVowel);
    if (afterVowel && !isVowel) count++;
    afterVowel = isVowel;
  }
  return count;
}

function holdsVowel(word: string, length: number): boolean {
  for (let i = 0; i < length; i++) if (isVowelAfter(word, i, false)) return true;
  return false;
}

/** Tells whether letter i is a vowel, given whether the letter before it is one. Over a run of y this is much cheaper than `isConsonant`. */
function isVowelAfter(word: string, i: number, afterVowel: boolean): boolean {
  const code = word.charCodeAt(i);
  return code === 121 ? i > 0 && !afterVowel : code === 97 || code === 101 || code === 105 || code === 111 || code === 117;
}

function endsInDoubleConsonant(word: string): boolean {
  const last = word.length - 1;
  return last >= 1 && word[last] === word[last - 1] && isConsonant(word, last);
}

/**
 * Tells whether the first `length` letters end in consonant, vowel, consonant other than w, x, y: such a stem takes a final e. For NLTK, vowel and consonant alone
 * suffice.
 */
function endsInShortSyllable(word: string, length: number, isNltk: boolean): boolean {
  const last = length - 1;
  if (isNltk && length === 2) return !isConsonant(word, 0) && isConsonant(word, 1);
  if (last < 2 || !isConsonant(word, last) || isConsonant(word, last - 1) || !isConsonant(word, last - 2)) return false;
  return !'wxy'.includes(word[last]!);
}

function withoutPlural(word: string): string {
  if (!word.endsWith('s')) return word;
  if (word.endsWith('sses') || word.endsWith('ies')) return word.slice(0, -2);
  return word.endsWith('ss') ? word : word.slice(0, -1);
}

function withoutPastOrGerund(word: string, isNltk: boolean): string {
  if (word.endsWith('eed')) return measure(word, word.length - 3) > 0 ? word.slice(0, -1) : word;
  const cut = word.endsWith('ed') ? 2 : word.endsWith('ing') ? 3 : 0;
  if (cut === 0 || !holdsVowel(word, word.length - cut)) return word;
  const stem = word.slice(0, -cut);
  if (stem.endsWith('at') || stem.endsWith('bl') || stem.endsWith('iz')) return `${stem}e`;
  if (endsInDoubleConsonant(stem)) return 'lsz'.includes(stem.at(-1)!) ? stem : stem.slice(0, -1);
  return measure(stem, stem.length) === 1 && endsInShortSyllable(stem, stem.length, isNltk) ? `${stem}e` : stem;
}

function replaceSuffix(word: string, suffixes: readonly (readonly [string, string])[]): string {
  for (const [suffix, replacement] of suffixes) {
    if (!word.endsWith(suffix)) continue;
    const length = word.length - suffix.length;
    return measure(word, length) > 0 ? word.slice(0, length) + replacement : word;
  }
  return word;
}

function withoutLatinSuffix(word: string): string {
  for (const suffix of step4) {
    if (!word.endsWith(suffix)) continue;
    const length = word.length - suffix.length;
    if (suffix === 'ion' && word[length - 1] !== 's' && word[length - 1] !== 't') continue;
    return measure(word, length) > 1 ? word.slice(0, length) : word;
  }
  return word;
}

function withoutFinalE(word: string, isNltk: boolean): string {
  let stem = word;
  if (stem.endsWith('e')) {
    const length = stem.length - 1;
    const m = measure(stem, length);
    if (m > 1 || (m === 1 && !endsInShortSyllable(stem, length, isNltk))) stem = stem.slice(0, length);
  }
  return stem.endsWith('ll') && measure(stem, stem.length - 1) > 1 ? stem.slice(0, -1) : stem;
}
