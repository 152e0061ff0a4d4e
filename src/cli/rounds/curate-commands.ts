/** Declares `vf-rounds bucket`, `review`, `focus` and `verify`, which select the rows for the next training, and those that must stay out of it. */
import { defineCommand } from '../options/define-command.ts';
import { folder, number, oneOf, texts } from '../options/kinds.ts';
import { table } from '../options/option.ts';
import { EXCLUDE, leaveOutOption, measureOption, modelOptions, outputOption, rowsOption, TRACE } from './stage-options.ts';

const BUCKET_NOTES = `
The mean NDCG of a prompt's rollouts decides (0 for a rollout whose format is
invalid). Bucket A, from 0.1 to 0.7 with both bounds, is in reach: its rows go
from the easiest prompt to the hardest, with the mean in extra_info.phase1_ndcg.
Bucket B, above, is learned; bucket 0, below, is out of reach, or its rows are
wrong: review.jsonl lists them with what the trace says of each. Set exclude and
reason there and give the list to "vf-rounds review".

Output: bucket-a.jsonl, bucket-b.jsonl, bucket-0.jsonl, review.jsonl and
bucket.manifest.json in the folder of -o.`;

const REVIEW_NOTES = `
A list has one {"id": ..., "exclude": true, "reason": ...} per line; rows with
"exclude": false stay. review.jsonl of "bucket" and the output of "verify" are
such lists. A row may be in one list only.

Output: the file of -o, and next to it NAME.excluded.jsonl with the reason of
each row in extra_info.excluded.`;

const FOCUS_NOTES = `
Rows keep their order: first those of --rows whose mean reward is at most the
threshold, then those of --add, without those that a list of --exclude leaves
out. DDAI's round 1 is the hard part of bucket A and the reviewed bucket 0:
  vf-rounds focus --trace $T --rows bucket-a.jsonl \\
      --add bucket-0-kept.jsonl -o round-1.jsonl
Its round 2 has the rows that then score at most 0.3, without wrong references:
  vf-rounds focus --trace $T1 --rows round-1.jsonl --threshold 0.3 \\
      --exclude verified.jsonl -o round-2.jsonl`;

const VERIFY_NOTES = `
Lists the prompts whose mean judge score is at most 0.3, in this order: right
pages and score 0; right pages and a low score; wrong pages (mean NDCG below
0.5). With a vetter, each gets a verdict:
  GT_ERROR, UNCERTAIN, BOTH_WRONG       leave the row out
  GEN_ERROR, RETRIEVAL_ERROR, FORMAT_DIFF   keep it
Without a vetter, fill in the list yourself: set exclude and reason. For runs
without a judge, such as phase 1: --measure reward.
  vf-rounds verify --trace $T --rows round-1.jsonl -o verified.jsonl \\
      --role vetter=gpt-5-mini@https://api.openai.com/v1`;

const BUCKET = table({
  ...TRACE,
  rows: rowsOption('the rows that were trained on'),
  output: folder('folder for the files', { letter: 'o', required: true }),
  low: number('lowest mean of bucket A', { from: 0, to: 1, default: 0.1 }),
  high: number('highest mean of bucket A', { from: 0, to: 1, default: 0.7 }),
  measure: measureOption('ndcg'),
  leaveOutUnknown: leaveOutOption('count prompts that the rows do not have'),
});

const REVIEW = table({
  rows: rowsOption('rows'),
  exclude: texts('a list of decisions', { placeholder: 'FILE', required: true, completion: 'files' }),
  output: outputOption('file for the rows that stay'),
});

const FOCUS = table({
  ...TRACE,
  rows: rowsOption('rows to choose from'),
  output: outputOption('file for the rows'),
  threshold: number('highest mean of a hard prompt', { from: -1e9, to: 1e9, default: 0.2 }),
  measure: measureOption('reward'),
  add: texts('rows to add, all of them', { placeholder: 'FILE', completion: 'files' }),
  exclude: texts(EXCLUDE, { placeholder: 'FILE', completion: 'files' }),
  leaveOutUnknown: leaveOutOption('count listed rows that are not there'),
});

const VERIFY = table({
  ...TRACE,
  rows: rowsOption('the rows that were trained on'),
  output: outputOption('file for the list'),
  low: number('check prompts whose mean score is at most this', { from: 0, to: 1, default: 0.3 }),
  found: number('count pages as found from this mean NDCG on', { from: 0, to: 1, default: 0.5 }),
  measure: oneOf(['judge', 'reward'], 'the score whose mean decides', { default: 'judge' }),
  ...modelOptions('vetter'),
});

export const bucketCommand = defineCommand({
  name: 'vf-rounds bucket',
  summary: 'Divides prompts into learned, in reach and out of reach.',
  examples: [['vf-rounds bucket --trace RUN/trace.jsonl --rows train.jsonl -o round-1', 'three files of rows in round-1/, and a list for review']],
  options: BUCKET,
  notes: BUCKET_NOTES,
  run: async ({ options, context }) => (await import('../../rounds/driver/curate.ts')).bucket(options, context),
});

export const reviewCommand = defineCommand({
  name: 'vf-rounds review',
  summary: 'Leaves out the rows that lists name, with their reasons.',
  examples: [['vf-rounds review --rows train.jsonl \\\n    --exclude round-1/review.jsonl -o kept.jsonl', 'leaves out what was marked in the list']],
  options: REVIEW,
  notes: REVIEW_NOTES,
  run: async ({ options, context }) => (await import('../../rounds/driver/curate.ts')).review(options, context),
});

export const focusCommand = defineCommand({
  name: 'vf-rounds focus',
  summary: 'Selects the rows whose prompts are still hard.',
  examples: [['vf-rounds focus --trace RUN/trace.jsonl --rows train.jsonl -o hard.jsonl', 'rows with a mean reward of at most 0.2']],
  options: FOCUS,
  notes: FOCUS_NOTES,
  run: async ({ options, context }) => (await import('../../rounds/driver/curate.ts')).focus(options, context),
});

export const verifyCommand = defineCommand({
  name: 'vf-rounds verify',
  summary: 'Finds why prompts score low: pages, generator, or reference.',
  examples: [
    [
      'vf-rounds verify --trace RUN/trace.jsonl --rows train.jsonl -o causes.jsonl \\\n    --role vetter=gpt-5-mini@https://api.openai.com/v1',
      'asks a model about the prompts that score low',
    ],
  ],
  options: VERIFY,
  notes: VERIFY_NOTES,
  run: async ({ options, context }) => (await import('../../rounds/driver/curate.ts')).verify(options, context),
});
