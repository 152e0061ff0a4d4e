/** Declares `vf-compare`, which compares evaluations of the same rows, and trainings over seeds. */
import { comparisonMarkdown } from '../../reports/comparison/comparison-markdown.ts';
import { comparisonText } from '../../reports/comparison/comparison-text.ts';
import { paintFor } from '../../reports/text/paint.ts';
import { ConfigError } from '../../core/errors.ts';
import { defineCommand, severalArguments } from '../options/define-command.ts';
import { flag, text, wholeNumber } from '../options/kinds.ts';
import { table } from '../options/option.ts';
import { JSON_OBJECT } from '../options/shared-options.ts';
import { jsonLine, printable } from '../../reports/text/terminal-text.ts';

const NOTES = `
Values are paired: rollout 0 of a row in one run with rollout 0 of that row in
the other, and so on. What makes a row hard for both runs then cancels out, so a
few dozen rows can show a difference that two separate means would hide.

The interval of a difference comes from drawing whole rows (bootstrap), because
rollouts of one row are not independent. If all values are 0 or 1, McNemar's
test says how often runs that do not differ would differ as much. pass@k is
shown for each run with several rollouts per row. Failed rollouts have no value:
their pairs are left out and counted, never taken as 0.

Trainings are grouped by their settings without the seed. A group shows the mean
of its held-out evaluation at the start, of its last one with an interval over
seeds (Student's t), and of its best one after the start; groups differ by a
test over seeds and one over rows. Nothing is tested between trainings of
different environments or held-out rows. Runs that stopped or failed are listed
and never counted. --by-id and --rows do not apply.

Runs of other rows are refused: the same id must have the same answer. If a run
has more rows than another, the rows that all runs have are compared.
docs/compare.md explains every figure.`;

export const vfCompare = defineCommand({
  name: 'vf-compare',
  summary: 'Compares evaluations of the same rows, or trainings over seeds: paired differences with intervals.',
  arguments: {
    runs: severalArguments(
      'two or more results folders that vf-eval printed, or folders of trainings, or that of an ablation; the first is what the others are compared with',
      {
        label: 'run directory',
        completion: 'folders',
      },
    ),
  },
  options: table({
    metric: text('what to compare: the reward or a metric', { placeholder: 'NAME', default: 'reward' }),
    allPairs: flag('compare every run with every other one'),
    byId: flag('match rows by id alone, even if their contents differ'),
    rows: wholeNumber('number of rows to show where runs differ', { to: 1_000_000, default: 5 }),
    seed: wholeNumber('seed of the bootstrap', { to: 2 ** 32 - 1, default: 0 }),
    resamples: wholeNumber('draws of the bootstrap', { from: 100, to: 1_000_000, otherwise: '10,000, fewer for very many rows' }),
    ...JSON_OBJECT,
    markdown: flag('print Markdown'),
  }),
  conflicts: [['json', 'markdown']],
  examples: [
    ['vf-compare outputs/evals/search-r1--base/1a2b outputs/evals/search-r1--new/9f', 'two runs'],
    ['vf-compare RUN RUN RUN', 'each run against the first'],
    ['vf-compare RUN RUN --metric searches', 'another metric than the reward'],
    ['vf-compare T/evaluations/step-0000{00,30}.jsonl', 'two evaluations of a training run T'],
    ['vf-compare outputs/train/A outputs/train/B outputs/train/C', 'trainings: those that differ in the seed alone are one group'],
    ['vf-compare outputs/train/ablations/rates--1a2b3c4d', 'the table of an ablation of vf-train'],
    ['vf-compare RUN RUN --markdown > comparison.md', 'a page'],
    ["vf-compare RUN RUN --json | jq '.pairs[0].difference'", 'figures for a program'],
  ],
  notes: NOTES,
  run: async ({ arguments: { runs: directories }, options: { rows, json = false, markdown = false, ...options }, context }) => {
    const { areTrainings, compareTrainings } = await import('../compare-trainings.ts');
    if (areTrainings(directories)) return compareTrainings(directories, { ...options, json, markdown }, context);
    if (directories.length < 2) throw new ConfigError('A comparison needs at least two runs. Name their results folders (see vf-compare --help)');
    const [{ compareRuns }, { readComparedRun }, { comparisonToWire }] = await Promise.all([
      import('../../evaluate/compare-runs.ts'),
      import('../../evaluate/compared-run.ts'),
      import('../../schemas/comparison.ts'),
    ]);
    const runs = [];
    for (const directory of directories) {
      context.signal.throwIfAborted();
      runs.push(await readComparedRun(directory));
    }
    const comparison = compareRuns(runs, options);
    if (json) process.stdout.write(jsonLine(comparisonToWire(comparison)));
    else if (markdown) process.stdout.write(context.redact(comparisonMarkdown(comparison, { rows })));
    else {
      const view = { columns: process.stdout.columns ?? 100, paint: paintFor(process.stdout, { plain: false }), rows };
      process.stdout.write(printable(context.redact(comparisonText(comparison, view))));
    }
  },
});
