import { vfTrain } from '../../../src/cli/commands/vf-train.ts';
import { parseWords } from '../../../src/cli/options/parse-words.ts';
import { type TrainArguments, trainArguments } from '../../../src/cli/train/train-arguments.ts';

/** What the words of `vf-train` ask. */
export function parseTrain(words: readonly string[]): TrainArguments {
  return trainArguments(parseWords(vfTrain, words));
}
