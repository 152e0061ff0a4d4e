/** Declares `vf-rounds report`. */
import { ConfigError } from '../../core/errors.ts';
import { defineCommand, optionalArguments } from '../options/define-command.ts';
import { flag, texts } from '../options/kinds.ts';
import { table } from '../options/option.ts';
import { printable } from '../../reports/text/terminal-text.ts';

const NOTES = `
Name folders into which stages wrote, or single files of theirs. Every file that
a stage read or wrote is compared with the SHA-256 in its manifest; if one has
changed, the chain is broken and nothing is reported.
  vf-rounds report round-1
  vf-rounds report round-1/sft.jsonl --markdown

--trace adds what a trace says: shares of success, answers that are right
without their page, wrong ones with it, rollouts without a search, and the
latencies of search, generator and judge.`;

const OPTIONS = table({
  trace: texts('a trace to analyse', { placeholder: 'FILE', completion: 'files' }),
  markdown: flag('tables in Markdown'),
  json: flag('one JSON object'),
});

export const reportCommand = defineCommand({
  name: 'vf-rounds report',
  summary: 'Checks every file and shows how many rows each stage left.',
  examples: [
    ['vf-rounds report round-1', 'every stage that wrote into round-1/'],
    ['vf-rounds report --trace RUN/trace.jsonl', 'a trace, before any stage'],
  ],
  arguments: { paths: optionalArguments('folders, manifests or outputs of stages', { completion: 'files' }) },
  options: OPTIONS,
  notes: NOTES,
  run: async ({ arguments: { paths }, options }) => {
    if (paths.length + (options.trace ?? []).length === 0)
      throw new ConfigError('Name a folder of stages, or a trace with --trace (see vf-rounds report --help)');
    const { reportText } = await import('../../rounds/report-text.ts');
    process.stdout.write(printable(await reportText(paths, options)));
  },
});
