/** Evaluates, trains and scores an environment of a user through the library alone. Prints the rewards; exits with 1 if one is missing. */
import { ConfigError, evaluate, type Evaluated, scoreEpisode, startEpisode, train, type TrainedStep, type TrainOptions } from 'vf-search';
import { loadEnvironment } from './environment.ts';

const environment = loadEnvironment({ rows: 6 });
const evaluated: Evaluated = await evaluate({
  environment,
  policy: { provider: 'embedded', model: 'nano-base' },
  rows: 6,
  output: 'evaluated',
});
console.log(`evaluated: ${evaluated.rollouts.map(({ reward }) => reward?.toFixed(2)).join(' ')}, mean ${evaluated.summary.reward?.value.toFixed(3)}`);

const steps: TrainedStep[] = [];
const options: TrainOptions = {
  environment: './environment.ts',
  preset: 'laptop',
  steps: 2,
  settings: { rollouts: { examplesPerStep: 2, rolloutsPerExample: 4 }, evaluation: { every: 0 } },
  output: 'trained',
  onStep: (step) => steps.push(step),
};
const trained = await train(options);
console.log(`trained: ${trained.reason}, rewards ${steps.map(({ reward }) => reward?.toFixed(3)).join(' ')}, ${trained.adapter}`);

const row = environment.eval.at(0);
await using episode = await startEpisode(environment, row);
await episode.step('two words');
const score = await scoreEpisode(environment, row, episode);
const long = await scoreEpisode(environment, row, { messages: [{ role: 'assistant', content: 'many more words than two' }] });
console.log(`scored: ${score.reward} and ${long.reward.toFixed(2)}, ${score.metrics['words']} words`);

// @ts-expect-error a misspelled option is an error, in the types too
const refused: unknown = await evaluate({ environment, row: 1 }).catch((error: unknown) => error);
const isWhole =
  evaluated.summary.rollouts.finished === 6 &&
  trained.reason === 'finished' &&
  trained.adapter !== null &&
  steps.length === 2 &&
  score.reward === 1 &&
  long.reward < 1;
if (!isWhole || !(refused instanceof ConfigError)) process.exitCode = 1;
