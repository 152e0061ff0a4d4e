/** An environment of a user: write as many words as asked. It knows nothing of the package but its name. */
import { Dataset, integerArgument, metric, readArguments, reward, type RewardContext, type Row, Rubric, SingleTurnEnv } from 'vf-search';

export interface CountedRow extends Row {
  /** How many words the answer should have. */
  readonly wanted: number;
}

const wordsOf = (text: string) => text.split(/\s+/).filter((word) => word !== '').length;
const closeness = ({ row, modelText }: RewardContext<CountedRow>) => 1 / (1 + Math.abs(wordsOf(modelText) - row.wanted));

export function loadEnvironment(args: Readonly<Record<string, unknown>> = {}) {
  const { rows = 8 } = readArguments('word-counts', { rows: integerArgument(1) }, args);
  const row = (i: number): CountedRow => ({ exampleId: i, prompt: [{ role: 'user', content: `Write ${2 + (i % 4)} words.` }], wanted: 2 + (i % 4) });
  const split = (name: string, from: number) =>
    new Dataset(
      name,
      Array.from({ length: rows }, (_, i) => row(from + i)),
    );
  return new SingleTurnEnv<CountedRow>({
    id: 'word-counts',
    train: split('train', 0),
    eval: split('eval', 1000),
    rubric: new Rubric<CountedRow>({
      funcs: [reward(closeness, { name: 'closeness' }), metric(({ modelText }) => wordsOf(modelText), { name: 'words', isCount: true })],
    }),
    limits: { responseTokens: 12 },
  });
}
