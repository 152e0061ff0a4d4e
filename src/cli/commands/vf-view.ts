/** Declares `vf-view`, which serves a page that shows runs. */
import { defineCommand, optionalArgument } from '../options/define-command.ts';
import { file, flag, folder } from '../options/kinds.ts';
import { table } from '../options/option.ts';
import { listening, VERBOSE } from '../options/shared-options.ts';

const NOTES = `
The page of an evaluation has figures with intervals, a table of rollouts to
sort, filter and search, and each rollout with who wrote what, rewards, and
every token with its log-prob. The page of a training run, also while it trains,
has curves, the groups of each step with rewards and advantages, and each
held-out question over time. Runs can be compared side by side. vf-view reads
the files of the runs and changes nothing. Ctrl-C ends it.
docs/viewing.md says more.`;

export const vfView = defineCommand({
  name: 'vf-view',
  summary: 'Shows runs of vf-eval and vf-train in a web page.',
  arguments: { directory: optionalArgument('a folder with runs, or one run (default: ./outputs)', { completion: 'folders' }) },
  options: table({
    ...listening({ beyondLoopback: 'is open to the network and needs the token that is printed', port: 8765 }),
    export: file('write the runs as one HTML file instead of serving them; - is stdout'),
    open: flag('open the address in the browser'),
    tokenizer: folder('tokenizer to show tokens with', { otherwise: "the run's own, if it is a bundled model's" }),
    lab: flag('serve the lab instead: GRPO in a browser tab, with transcripts before and after (docs/lab.md)'),
    ...VERBOSE,
  }),
  conflicts: [
    ['export', 'open'],
    ['lab', 'export'],
    ['lab', 'tokenizer'],
  ],
  examples: [
    ['vf-view', 'every run below ./outputs'],
    ['vf-view outputs/evals/search-r1--base/1a2b', 'one run'],
    ['vf-view --open', 'also opens the browser'],
    ['vf-view runs/ --port 0', 'another folder, on any free port'],
    ['vf-view RUN --export run.html', 'one file to send: it opens from disk, without vf-view and without network'],
    ['vf-view --host 0.0.0.0', 'for other machines: the address that is printed holds a token'],
    ['vf-view --lab', 'a page that trains a small model in a browser tab; no run is needed'],
  ],
  notes: NOTES,
  run: async ({ arguments: { directory }, options, context }) => {
    const { showLab, showRuns } = await import('../view/show-runs.ts');
    return options.lab === true ? showLab(directory, options, context) : showRuns(directory ?? './outputs', options, context);
  },
});
