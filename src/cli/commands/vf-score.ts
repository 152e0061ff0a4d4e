/** Declares `vf-score`, which scores the rollouts of a run again, without playing any. */
import { argument, defineCommand } from '../options/define-command.ts';
import { file, flag, folder, text, wholeNumber } from '../options/kinds.ts';
import { groups, type OptionValues } from '../options/option.ts';
import { ENVIRONMENTS_FOLDER, JSON_OBJECT, MAX_WAIT, VERBOSE } from '../options/shared-options.ts';
import { numbers, object, roles } from '../options/table-kinds.ts';

const NOTES = `
Nothing is played: texts, final states and the replies of judges are on file. A
role is asked only where the record has no reply, or if --role names another
model than the run had. After an outage of a judge, --failed --in-place asks it
about the rollouts that it missed, and leaves every other line of the run as it
is. Another judge, other weights or another rubric make a new run next to the
old one.

A rubric is a module with export const rubric = new Rubric({ funcs: [...] }).
If vf-score is killed, the same command continues from there. The files of the
run change only at the end, each by a rename. docs/score.md says more.`;

const OPTIONS = groups({
  Scores: {
    failed: flag('score only the rollouts whose rewards failed'),
    rubric: file('a module that exports another rubric'),
    weight: numbers('another weight of a reward or metric', { example: 'format=0.2' }),
    role: roles('the model of a role, as in vf-eval'),
    askAgain: flag('ask models by role even where the record has their reply'),
    endpointsPath: file('registry of aliases for --role', { letter: 'e' }),
    maxScoring: wholeNumber('rollouts scored at once', { from: 1, to: 100_000, default: 32 }),
    scoringTimeout: wholeNumber('seconds for the rewards of a rollout; 0: no limit', { to: 1e7, default: 0, placeholder: 'S' }),
    ...MAX_WAIT,
  },
  Environment: {
    env: text('the environment to load: an id or a path', {
      placeholder: 'ENV',
      completion: 'environments',
      otherwise: 'the one that the run names',
    }),
    envArgs: object("arguments of the environment over the run's own", { letter: 'a', example: '{"topk": 5}' }),
    ...ENVIRONMENTS_FOLDER,
  },
  Results: {
    output: folder('folder of the new run', { letter: 'o', otherwise: 'RUN-scored' }),
    inPlace: flag('change the run itself'),
    ...JSON_OBJECT,
    ...VERBOSE,
  },
});

export type ScoreValues = OptionValues<typeof OPTIONS>;

export const vfScore = defineCommand({
  name: 'vf-score',
  summary: 'Scores the rollouts of an evaluation again, without playing any.',
  arguments: {
    directory: argument('the results folder that vf-eval printed, or T/evaluations/step-000010.jsonl of a training run T', {
      label: 'run directory',
      completion: 'folders',
    }),
  },
  options: OPTIONS,
  conflicts: [['inPlace', 'output']],
  examples: [
    ['vf-score RUN --failed --in-place --role judge=NAME@https://host/v1', 'after an outage of the judge'],
    ['vf-score RUN --role judge=OTHER@https://host/v1', 'another judge'],
    ['vf-score RUN --weight format_valid=0.2 --weight search_r1=1', 'other weights'],
    ['vf-score RUN --rubric my-rubric.ts -o RUN-strict\nvf-compare RUN RUN-strict', 'another rubric, and what it changes'],
  ],
  notes: NOTES,
  run: async ({ arguments: { directory }, options, context }) => {
    const { scoreFromOptions } = await import('../score/score-from-options.ts');
    return scoreFromOptions(directory, options, context);
  },
});
