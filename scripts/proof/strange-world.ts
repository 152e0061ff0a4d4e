/**
 * Worlds that no pre-training of a bundled model can have seen. Every name, relation, verb and further word of a passage is reserved: its CRC-32 in lower case
 * is divisible by four, and recipes/copy/words.py, from which pre-training takes every word that it writes, never returns such a word. Only the common
 * words "the", "of" and "is" and what a question begins with are shared. Names are built from syllables of their own.
 */
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { crc32 } from 'node:zlib';
import { Random } from '../../src/core/random.ts';

export const RELATIONS = ['keeper', 'castle', 'jewel', 'anthem', 'dish'] as const;
/** Each names another subject, which the second search looks for. */
export const LINKS = ['rival', 'sister'] as const;
export const VERB = 'is locally';
export const TAIL = 'merchants tell';
const ASKED = ['What is', 'Which is', 'Who is'] as const;
const RESERVED_SHARE = 4;
const HELD_OUT_SHARE = 0.25;
const SUBJECTS = { 1: 160, 2: 120 } as const;

export interface StrangeRow {
  readonly id: string;
  readonly question: string;
  readonly golden_answers: readonly [string];
}

export interface StrangeWorld {
  readonly corpus: readonly { readonly id: string; readonly contents: string }[];
  readonly train: readonly StrangeRow[];
  readonly heldout: readonly StrangeRow[];
}

export interface StrangeOptions {
  readonly seed: number;
  /** Searches that a question needs. */
  readonly hops: 1 | 2;
}

/** True for a word that pre-training cannot contain. */
export function isReserved(word: string): boolean {
  return crc32(word.toLowerCase()) % RESERVED_SHARE === 0;
}

/** The held-out questions are about subjects of their own. */
export function strangeWorld({ seed, hops }: StrangeOptions): StrangeWorld {
  const random = Random.fromSeed(seed);
  const draw = nameSource(random);
  const pick = <T>(of: readonly T[]): T => of[random.integer(of.length)]!;
  const subjects = Array.from({ length: SUBJECTS[hops] }, draw);
  const contents: string[] = [];
  const tell = (subject: string, relation: string, object: string): void => {
    contents.push(`${subject}\nThe ${relation} of ${subject} ${VERB} ${object}, ${TAIL}.`);
  };
  const describe = (subject: string): Map<string, string> =>
    new Map(
      RELATIONS.map((relation) => [relation, draw()] as const).map(([relation, object]) => (tell(subject, relation, object), [relation, object])),
    );
  const rows = subjects.map((subject) => {
    const own = describe(subject);
    if (hops === 1) return RELATIONS.map((relation) => ({ key: `${relation} of ${subject}`, answer: own.get(relation)! }));
    return LINKS.flatMap((link) => {
      const linked = draw();
      tell(subject, link, linked);
      const facts = describe(linked);
      const relation = pick(RELATIONS);
      return { key: `${relation} of the ${link} of ${subject}`, answer: facts.get(relation)! };
    });
  });
  const heldOut = Math.round(subjects.length * HELD_OUT_SHARE);
  const asked = (split: string, part: typeof rows): StrangeRow[] =>
    part.flat().map(({ key, answer }, i) => ({ id: `${split}-${i}`, question: `${pick(ASKED)} the ${key}?`, golden_answers: [answer] }));
  const ordered = contents.map((text) => ({ text, at: random.float() })).toSorted((a, b) => a.at - b.at);
  return {
    corpus: ordered.map(({ text }, i) => ({ id: String(i), contents: text })),
    train: asked('train', rows.slice(heldOut)),
    heldout: asked('heldout', rows.slice(0, heldOut)),
  };
}

/** Writes corpus.jsonl, train.jsonl and heldout.jsonl in the form that the environments read. */
export function writeStrangeWorld(folder: string, options: StrangeOptions): void {
  mkdirSync(folder, { recursive: true });
  for (const [name, lines] of Object.entries(strangeWorld(options)))
    writeFileSync(join(folder, `${name}.jsonl`), (lines as readonly object[]).map((line) => `${JSON.stringify(line)}\n`).join(''));
}

const BEGINNINGS = 'Qu Zw Fj Vl Kw Wh Yr Hy Ob Uv Ek Ig Cz Pf Dv'.split(' ');
const MIDDLES = 'ova exu ilme undo arqui ebbo ywa omfi usca etho aggi olvu ipto erda awli umno ofri yska ajo izbe urpa elgo anke odvi'.split(' ');
const ENDINGS = 'x ck dor wen fy zzo mur beth vix sko lg pny rost jad quil ham nt bli'.split(' ');

/** Returns a function that returns a new reserved name at each call. */
function nameSource(random: Random): () => string {
  const given = new Set<string>();
  const part = (of: readonly string[]): string => of[random.integer(of.length)]!;
  return () => {
    for (;;) {
      const middle = random.float() < 0.5 ? part(MIDDLES) : part(MIDDLES) + part(MIDDLES);
      const name = part(BEGINNINGS) + middle + part(ENDINGS);
      if (!isReserved(name) || given.has(name)) continue;
      given.add(name);
      return name;
    }
  };
}
