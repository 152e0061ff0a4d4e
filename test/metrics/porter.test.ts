import { stemmer } from 'stemmer';
import { describe, expect, it } from 'vitest';
import { porterStem } from '../../src/metrics/porter.ts';
import { nqMiniCorpus } from '../nq-mini-corpus.ts';

const corpus = nqMiniCorpus();

describe('porterStem', () => {
  it('agrees with another implementation on every word of nq-mini that both stem by the published rules', () => {
    const all = new Set(corpus.toLowerCase().match(/[a-z]{3,}/g));
    const different = [...all].filter((word) => porterStem(word) !== stemmer(word));
    expect(all.size).toBeGreaterThan(20_000);
    // stemmer 2.0.1 asks for a letter before the plural ending; the published rules and Lucene do not.
    expect(different.filter((word) => !/^(s|ies|sses)$/.test(word))).toEqual([]);
  });

  it('leaves words of one or two letters alone', () => {
    expect(['', 'a', 'is', 's'].map((word) => porterStem(word))).toEqual(['', 'a', 'is', 's']);
  });

  it('stems as NLTK where it differs from Lucene', () => {
    const words = ['dying', 'skies', 'news', 'dies', 'tied', 'enjoy', 'happy', 'rationally', 'cheerfully', 'geology', 'added'];
    const both = words.map((word) => [porterStem(word, 'lucene'), porterStem(word, 'nltk')]);
    expect(both).toEqual([
      ['dy', 'die'],
      ['ski', 'sky'],
      ['new', 'news'],
      ['di', 'die'],
      ['ti', 'tie'],
      ['enjoi', 'enjoy'],
      ['happi', 'happi'],
      ['ration', 'ration'],
      ['cheerfulli', 'cheer'],
      ['geologi', 'geolog'],
      ['ad', 'ad'],
    ]);
  });

  it.each(['y', 'ya', 'a', 'l', 'alli'])('reads 2 MB of %j in one pass', (piece) => {
    const word = piece.repeat(2_000_000 / piece.length);
    expect(porterStem(word, 'nltk').length).toBeGreaterThan(word.length - 5);
    expect(porterStem(word).length).toBeGreaterThan(word.length - 5);
  });
});
