/** The worlds of the proof and the texts of pre-training share no word but the common ones. */
import { describe, expect, it } from 'vitest';
import { isReserved, strangeWorld, type StrangeWorld } from '../../../scripts/proof/strange-world.ts';
import { python } from '../python.ts';

const HOPS = [1, 2] as const;
/** Of questions and passages. */
const SHARED = ['What', 'Which', 'Who', 'is', 'the', 'The', 'of'];

const wordsOf = (text: string): string[] => text.match(/\p{L}+/gu) ?? [];

function wordsOfWorld({ corpus, train, heldout }: StrangeWorld): Set<string> {
  const texts = [...corpus.map(({ contents }) => contents), ...[...train, ...heldout].flatMap((row) => [row.question, ...row.golden_answers])];
  return new Set(texts.flatMap(wordsOf).filter((word) => !SHARED.includes(word)));
}

describe('strangeWorld', () => {
  it.each(HOPS)('uses reserved words alone, so that pre-training cannot contain them (%i hops)', (hops) => {
    const words = [...wordsOfWorld(strangeWorld({ seed: 3, hops }))];
    expect(words.filter((word) => !isReserved(word))).toEqual([]);
    const reserved = python('from recipes.copy.words import is_reserved\nprint(json.dumps([is_reserved(word) for word in given]))', words);
    expect(reserved).toEqual(words.map(() => true));
  });

  it.each(HOPS)('holds out subjects that training never asks about, and names every object once (%i hops)', (hops) => {
    const { corpus, train, heldout } = strangeWorld({ seed: 3, hops });
    const subject = ({ question }: { question: string }) => /(\w+)\?$/.exec(question)![1]!;
    const held = new Set(heldout.map(subject));
    expect(train.filter((row) => held.has(subject(row)))).toEqual([]);
    const objects = corpus.map(({ contents }) => / is locally (\w+),/.exec(contents)![1]!);
    expect(new Set(objects).size).toBe(objects.length);
  });

  it('answers a question of one hop in one passage, and of two hops in none that names its subject', () => {
    for (const hops of HOPS) {
      const { corpus, heldout } = strangeWorld({ seed: 4, hops });
      for (const { question, golden_answers: golden } of heldout) {
        const told = corpus.filter(({ contents }) => contents.includes(` ${golden[0]},`));
        expect(told).toHaveLength(1);
        expect(told[0]!.contents.includes(/(\w+)\?$/.exec(question)![1]!)).toBe(hops === 1);
      }
    }
  });

  it('gives the same world for a seed, and one with other names for another', () => {
    expect(strangeWorld({ seed: 5, hops: 1 })).toEqual(strangeWorld({ seed: 5, hops: 1 }));
    const golden = (seed: number) => strangeWorld({ seed, hops: 1 }).heldout.map((row) => row.golden_answers[0]);
    const first = new Set(golden(5));
    expect(golden(6).filter((name) => first.has(name)).length).toBeLessThan(20);
  });
});

describe('recipes/copy/episodes.py', () => {
  it('writes no reserved word and no word of the rows of vf-init, but for common words and fixed sentences', () => {
    const foreign = python(`
import re
from recipes.copy.episodes import draw_episode, look_up, repetition
from recipes.copy.protocols_of_tags import NOTES_TEXT, NOTHING_TEXT
from recipes.base.search_r1 import SearchR1
from recipes.copy.texts import COMMON_WORDS, FIXED_TEXTS, TAGS
from recipes.copy.words import TEMPLATE_WORDS, WordRandom, is_reserved
fixed = " ".join([*COMMON_WORDS, *FIXED_TEXTS, *TAGS, *SearchR1.fixed_texts, NOTES_TEXT, NOTHING_TEXT, "find note im start end to as ed arguments"])
known = {word.lower() for word in re.findall(r"[^\\W\\d_]+", fixed)}
rng = WordRandom(11)
draws = (lambda: draw_episode(rng, only_good=rng.random() < 0.5), lambda: look_up(rng), lambda: repetition(rng))
pieces = [piece for _ in range(1500) for draw in draws for piece in (rng.choose_syllables(0.5), draw())[1]]
words = {word.lower() for text, _ in pieces for word in re.findall(r"[^\\W\\d_]+", text)} - known
print(json.dumps(sorted(word for word in words if is_reserved(word) or word in TEMPLATE_WORDS)))`);
    expect(foreign).toEqual([]);
  });
});
