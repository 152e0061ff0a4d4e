/** Declares `vf-rounds run`. */
import { argument, defineCommand } from '../../options/define-command.ts';
import { flag } from '../../options/kinds.ts';
import { table } from '../../options/option.ts';
import { displayPath } from '../../../reports/text/own-command.ts';
import { namingFlags } from '../../train/key-flags.ts';

const NOTES = `
Phase 1 trains on all rows, the first focused round on bucket A of phase 1. The
rare successes of a round become demonstrations; supervised steps on them make
the adapter that the next round starts from. It trains on the prompts that are
still hard.
Every step is a command of its own, vf-train or vf-rounds; state.json in the
output folder lists every step with its command, time and adapter.

Run the same command again after a stop or a kill: it skips finished steps, and
a training continues from its last checkpoint. A focused round that has fewer
rows than rollouts.examples_per_step takes all of them in each step.

Rounds can raise the budget: [[focused]] is then the table of one round, and the
last one also that of all further rounds. With [verify], a model looks for wrong
references between rounds, and focus leaves them out.

  # rounds.toml
  environment = "visual-rag"
  rows = "page-world"            # a file, or a data set of the package
  rounds = 2
  output = "rounds/pages"
  flags = ["--preset", "laptop"] # of every vf-train
  arguments = { pages = "page-world" }
  [phase1]                       # each of these may have flags and arguments
  arguments = { phase = 1 }
  [focused]                      # or a list: [[focused]] for each round
  [sft]                          # from = "focused" starts from that adapter
  [bucket]                       # options of a stage, as its --help has them
  low = 0.1
  [review]                       # adds bucket 0 without these lists
  exclude = ["wrong.jsonl"]
  [verify]                       # runs only if this table is here
  role = "vetter=gpt-5-mini@https://api.openai.com/v1"
  [focus]
  threshold = 0.3
  [extract]
  [vet]                          # like [verify]
  role = "vetter=gpt-5-mini@https://api.openai.com/v1"
  [finalize]
  most = 4`;

export const runCommand = defineCommand({
  name: 'vf-rounds run',
  summary: 'Plays all rounds, and continues after a kill.',
  examples: [
    ['vf-rounds run rounds.toml', 'all rounds; the same command continues after a kill'],
    ['vf-rounds run rounds.toml --dry-run', 'the steps, with the prompts, rollouts and arguments of each training'],
  ],
  arguments: { rounds: argument('what the rounds are made of', { label: 'rounds.toml', completion: 'files' }) },
  options: table({
    dryRun: flag('checks everything and prints the steps with the budget of each training; starts none'),
    allowChanges: flag('continues even if rounds.toml has changed: finished steps stay, and a training that has begun keeps its settings'),
  }),
  notes: NOTES,
  run: async ({ arguments: { rounds: path }, options: { allowChanges = false, dryRun = false }, context }) => {
    const { runRounds } = await import('../../../rounds/driver/run-rounds.ts');
    const { ROUND_COMMANDS } = await import('./round-commands.ts');
    const onStart = () => {
      context.onInterrupt = () => context.note('vf-rounds run: stopping; finished steps are kept. Press Ctrl-C again to stop at once');
    };
    const onPlayed = (output: string) => {
      context.saved = displayPath(output);
    };
    await namingFlags(runRounds(path, { allowChanges, dryRun }, { ...context, commands: ROUND_COMMANDS, variables: process.env, onStart, onPlayed }));
  },
});
