/** Declares `vf-seed`, which turns problems with worked solutions into supervised rows, from which a model can learn before it trains on rollouts. */
import { ANSWER_WEIGHT, SEED_FORMS } from '../../data/seed-row.ts';
import { argument, defineCommand } from '../options/define-command.ts';
import { file, number, oneOf, text, wholeNumber } from '../options/kinds.ts';
import { table } from '../options/option.ts';
import { MAX_WAIT } from '../options/shared-options.ts';

const NOTES = `
This is data to start from, not a random seed. LIMO (arXiv 2502.03387) taught a
model to reason at length with 817 careful solutions; training by reward can go
on from there. The stage is optional, and nothing runs it unless you do:

<data> is one of
  worked-problems   five rows that come with the package
  rows.jsonl        a file with one row per line
  GAIR/LIMO         a data set of the Hugging Face hub: org/name[/config],
                    optionally with @revision

A row is {"question": ..., "solution": ..., "answer": ...}, all of them text.
Rows that are not are skipped and counted. The supervised row has a loss of
weight 1 on the solution and of --answer-weight on the answer and on the end of
the turn; the question has none. docs/supervised.md describes the rows and the
supervised steps.`;

export const vfSeed = defineCommand({
  name: 'vf-seed',
  summary: 'Turns worked solutions into rows for vf-train --sft.',
  arguments: { data: argument('rows of question, solution and answer: a name, a file, a hub id', { completion: 'files' }) },
  options: table({
    output: file('file to write; an existing file is replaced; - is stdout', { letter: 'o', required: true }),
    model: text("a model's directory, name or cached hub id: rows longer than its context are left out", { letter: 'm', placeholder: 'MODEL' }),
    maxLength: wholeNumber('maximum tokens per row; needs -m', { from: 1, otherwise: "the model's context" }),
    answerWeight: number('weight of the answer in the loss; the solution has weight 1', { from: 0, default: ANSWER_WEIGHT }),
    form: oneOf(SEED_FORMS, 'how the model writes a solution: in <think> and <answer>, or as text', { default: 'tags' }),
    split: text('split of a bundled or hub data set', { placeholder: 'NAME', default: 'train' }),
    limit: wholeNumber('rows to write at most', { from: 1, otherwise: 'all' }),
    ...MAX_WAIT,
    for: text('the environment of the commands that are printed', { placeholder: 'ENV', default: 'self-play-code', completion: 'environments' }),
  }),
  examples: [
    ['vf-seed GAIR/LIMO -o seed.jsonl -m Qwen/Qwen3-4B', 'rows from LIMO; it prints the next two commands with every flag'],
    ['vf-train self-play-code -m Qwen/Qwen3-4B --sft seed.jsonl ...', 'trains on these rows'],
    ['vf-train self-play-code -m Qwen/Qwen3-4B --set model.initial_adapter=ADAPTER', 'then trains on rewards'],
    ['vf-seed worked-problems -o seed.jsonl -m nano-base --for search-r1', 'with Node alone'],
  ],
  notes: NOTES,
  run: async ({ arguments: { data }, options, context }) => {
    const { writeSeed } = await import('../seed/write-seed.ts');
    return writeSeed(data, options, context);
  },
});
