/** The `vf-compare` command: compares evaluations of the same rows. */
import { Command } from 'commander';
import { packageVersion } from '../data/package-root.ts';
import { comparisonMarkdown } from '../reports/comparison/comparison-markdown.ts';
import { comparisonText } from '../reports/comparison/comparison-text.ts';
import { type CommandContext, EXIT, runCommand } from './command-line.ts';
import { ConfigError } from '../core/errors.ts';
import { paintFor } from '../reports/text/paint.ts';
import { parseProgram } from './parse-program.ts';
import { wholeNumber } from './serve/option-values.ts';

const HELP = `
Values are paired: rollout 0 of a row in one run with rollout 0 of that row in
the other, and so on. What makes a row hard for both runs then cancels out, so a
few dozen rows can show a difference that two separate means would hide.

  vf-compare outputs/evals/search-r1--base/1a2b outputs/evals/search-r1--new/9f
  vf-compare RUN RUN RUN                  each run against the first
  vf-compare RUN RUN --metric searches    another metric than the reward
  vf-compare T/evaluations/step-0000{00,30}.jsonl   of a training run T
  vf-compare RUN RUN --markdown > comparison.md
  vf-compare RUN RUN --json | jq '.pairs[0].difference'

The interval of a difference comes from drawing whole rows (bootstrap), because
rollouts of one row are not independent. If all values are 0 or 1, McNemar's
test says how often runs that do not differ would differ as much. pass@k stands
beside each run with several rollouts per row. Failed rollouts have no value:
their pairs are left out and counted, never taken as 0.

Runs of other rows are refused: the same id must have the same answer. If a run
has more rows than another, the rows that all runs have are compared.
docs/compare.md explains every figure.`;

interface Flags {
  readonly metric: string;
  readonly allPairs?: boolean;
  readonly byId?: boolean;
  readonly rows: number;
  readonly seed: number;
  readonly resamples?: number;
  readonly json?: boolean;
  readonly markdown?: boolean;
}

async function main(argv: readonly string[], context: CommandContext): Promise<number> {
  const program = new Command('vf-compare')
    .description('Compares evaluations of the same rows: paired differences with intervals.')
    .argument('<run directory...>', 'two or more results folders that vf-eval printed; the first is what the others are compared with')
    .option('--metric <name>', 'what to compare: the reward or a metric', 'reward')
    .option('--all-pairs', 'compare every run with every other one')
    .option('--by-id', 'take rows with the same id for the same row, whatever they hold')
    .option('--rows <n>', 'rows to show in which runs differ', wholeNumber(0, 1e6), 5)
    .option('--seed <n>', 'seed of the bootstrap', wholeNumber(0, 2 ** 32 - 1), 0)
    .option('--resamples <n>', 'draws of the bootstrap (default: 10,000, fewer for very many rows)', wholeNumber(100, 1e6))
    .option('--json', 'print one JSON object')
    .option('--markdown', 'print Markdown')
    .version(packageVersion(), '-V, --version')
    .addHelpText('after', HELP);
  const code = parseProgram(program, argv);
  if (code !== null) return code;
  const { rows, json = false, markdown = false, ...options } = program.opts<Flags>();
  if (json && markdown) throw new ConfigError('--json and --markdown exclude each other. Leave one out.');
  if (program.args.length < 2) throw new ConfigError('A comparison needs at least two runs. Name their results folders (see vf-compare --help)');
  const [{ compareRuns }, { readComparedRun }, { comparisonToWire }] = await Promise.all([
    import('../evaluate/compare-runs.ts'),
    import('../evaluate/compared-run.ts'),
    import('../schemas/comparison.ts'),
  ]);
  const runs = [];
  for (const directory of program.args) {
    context.signal.throwIfAborted();
    runs.push(await readComparedRun(directory));
  }
  const comparison = compareRuns(runs, options);
  if (json) process.stdout.write(`${JSON.stringify(comparisonToWire(comparison))}\n`);
  else if (markdown) process.stdout.write(context.redact(comparisonMarkdown(comparison, { rows })));
  else {
    const view = { columns: process.stdout.columns ?? 100, paint: paintFor(process.stdout, { plain: false }), rows };
    process.stdout.write(context.redact(comparisonText(comparison, view)));
  }
  return EXIT.done;
}

await runCommand('vf-compare', main);
