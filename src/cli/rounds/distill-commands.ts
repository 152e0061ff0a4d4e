/** Declares `vf-rounds extract`, `vet`, `rewrite` and `finalize`, which turn rollouts into demonstrations. */
import { defineCommand, severalArguments } from '../options/define-command.ts';
import { file, flag, number, oneOf, wholeNumber } from '../options/kinds.ts';
import { table } from '../options/option.ts';
import { modelOptions, outputOption, TRACE } from './stage-options.ts';

const EXTRACT_NOTES = `
Takes prompts where some rollouts succeed, but at most half: what these did is
worth repeating, and the policy does not do it reliably yet. A success has a
judge score of 1; at most the 4 best of a prompt are taken. A rollout becomes a
demonstration if every turn thinks and then acts with a tag of visual-rag
(<search>, <bbox>, <search_complete>), and the last one completes. What an
environment of your own must write for this: docs/rounds.md.

--success-only is DDAI's stricter variant: only successes with an NDCG above 0
whose tools all answered; "finalize" then takes the best 4.
After phase 1, which asks no judge: --success reward --threshold 0.9.

Output: one row {"uid", "format_version": "v1", "messages", ...} per line, with
the further fields that "vet" and "finalize" need.`;

const VET_NOTES = `
The model sees question, queries, boxes and excerpts of the thinks, and passes
or fails each row; it changes none. NAME.vetted.jsonl next to the output has
every verdict. Replies are kept in NAME.replies.jsonl, so that a command that
is run again makes only new requests.
  vf-rounds vet candidates.jsonl -o passed.jsonl \\
      --role vetter=gpt-5-mini@https://api.openai.com/v1`;

const REWRITE_NOTES = `
Leaves out a row if a think contains the tag of an action. From a rewrite, only
the thinks are taken. A think stays as it was if its rewrite contains the tag of
an action, or claims to have seen a picture where the original does not. A
rewrite with another number of thinks is not used.

--rewritten takes rewrites that were made elsewhere: rows with the same uids
whose messages may differ in thinks alone.`;

const FINALIZE_NOTES = `
The best rows of each prompt: by NDCG, then the fewest searches, the fewest
boxes, the shortest. Rows with failed tools are left out.

Output: rows {"uid", "format_version", "messages"} for vf-train --sft, and in
NAME.golden.jsonl the golden trajectory of each prompt: queries, pages, boxes,
where it stopped, answer and scores of its best row.`;

const EXTRACT = table({
  ...TRACE,
  output: outputOption('file for the rows'),
  success: oneOf(['judge', 'reward'], 'the score that decides what a success is', { default: 'judge' }),
  threshold: number('lowest score of a success', { from: -1e9, to: 1e9, default: 1 }),
  minRate: number('lowest share of successes among the rollouts of a prompt', { from: 0, to: 1, otherwise: 'above 0' }),
  maxRate: number('highest share of successes among the rollouts of a prompt', { from: 0, to: 1, default: 0.5 }),
  maxTurns: wholeNumber('maximum policy turns per rollout', { from: 1 }),
  top: wholeNumber('maximum rollouts per prompt', { from: 1, otherwise: '4; all with --success-only' }),
  successOnly: flag('only successes with an NDCG above 0 and without failed tools'),
  system: file("a system prompt, for DDAI's traces, which have none"),
});

const VET = table({ output: outputOption('file for the rows that pass'), ...modelOptions('vetter') });

const REWRITE = table({
  output: outputOption('file for the rows'),
  rewritten: file('rewrites from another program, instead of asking a model'),
  ...modelOptions('rewriter'),
});

const FINALIZE = table({
  output: outputOption('file for the rows'),
  most: wholeNumber('maximum rows per prompt', { from: 1, default: 4 }),
  systemErrors: wholeNumber('maximum failed tool calls per row', { default: 0 }),
});

function rows(description: string) {
  return { rows: severalArguments(description, { completion: 'files' }) };
}

export const extractCommand = defineCommand({
  name: 'vf-rounds extract',
  summary: 'Selects rare successes of hard prompts, as demonstrations.',
  examples: [['vf-rounds extract --trace RUN/trace.jsonl -o candidates.jsonl', 'at most four successes of each hard prompt']],
  options: EXTRACT,
  notes: EXTRACT_NOTES,
  run: async ({ options, context }) => (await import('../../rounds/driver/distill.ts')).extract(options, context),
});

export const vetCommand = defineCommand({
  name: 'vf-rounds vet',
  summary: 'Asks a model whether each demonstration is good.',
  examples: [
    [
      'vf-rounds vet candidates.jsonl -o passed.jsonl \\\n    --role vetter=gpt-5-mini@https://api.openai.com/v1',
      'keeps the rows that the model passes',
    ],
  ],
  arguments: rows('rows of "extract" or "rewrite"'),
  options: VET,
  notes: VET_NOTES,
  run: async ({ arguments: { rows: paths }, options, context }) => (await import('../../rounds/driver/distill.ts')).vet(paths, options, context),
});

export const rewriteCommand = defineCommand({
  name: 'vf-rounds rewrite',
  summary: 'Rewords the thoughts of demonstrations: everything else stays byte for byte.',
  examples: [
    [
      'vf-rounds rewrite passed.jsonl -o rewritten.jsonl \\\n    --role rewriter=gpt-5-mini@https://api.openai.com/v1',
      'asks a model for better thoughts',
    ],
  ],
  arguments: rows('rows of "extract" or "vet"'),
  options: REWRITE,
  conflicts: [
    ['rewritten', 'role'],
    ['rewritten', 'config'],
  ],
  notes: REWRITE_NOTES,
  run: async ({ arguments: { rows: paths }, options, context }) => (await import('../../rounds/driver/distill.ts')).rewrite(paths, options, context),
});

export const finalizeCommand = defineCommand({
  name: 'vf-rounds finalize',
  summary: 'Selects the best few of each prompt, as rows for vf-train --sft.',
  examples: [['vf-rounds finalize passed.jsonl -o sft.jsonl', 'rows for vf-train --sft sft.jsonl']],
  arguments: rows('rows of "extract", "vet" or "rewrite"'),
  options: FINALIZE,
  notes: FINALIZE_NOTES,
  run: async ({ arguments: { rows: paths }, options, context }) => (await import('../../rounds/driver/distill.ts')).finalize(paths, options, context),
});
