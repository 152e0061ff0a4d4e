/** The README.md of an evaluation's results, in the form of a data set card of the Hugging Face Hub. */
import type { Estimate, Summary } from '../../schemas/summary.ts';
import { codeBlock, escaped, scalar } from '../text/card-text.ts';
import { countText, intervalText, meanText, plural } from '../text/number-text.ts';
import { costText } from './cost-text.ts';
import { forksText } from './forks-text.ts';
import { refusedText, repeatsText } from './requests-text.ts';
import { escapeControls } from '../text/terminal-text.ts';
import type { RunFacts } from './describe-run.ts';

export interface ResultsCardFacts {
  readonly summary: Summary;
  readonly facts: RunFacts;
  readonly packageVersion: string;
  /** Free of secrets; null if it is not known. */
  readonly command: string | null;
  /** Names of the files next to the card, with their contents. */
  readonly files: readonly { readonly name: string; readonly about: string }[];
}

export function resultsCard({ summary, facts, packageVersion, command, files }: ResultsCardFacts): string {
  const { envId, model, rollouts, examples, rolloutsPerExample, tokens } = summary;
  const sampling = Object.entries(facts.sampling_args).map(([key, value]) => `${key} ${JSON.stringify(value)}`);
  const failed = rollouts.errored === 0 ? '' : `, ${countText(rollouts.errored)} failed, which have an error and no reward and are in no mean`;
  return [
    ...frontMatter(summary, files),
    '',
    `# ${escaped(escapeControls(summary.name ?? `${envId}: ${model}`))}`,
    '',
    `The rollouts of an evaluation with vf-search ${packageVersion}: ${escaped(model)} plays ${plural(examples, 'row')} of ${escaped(facts.dataset)} in the environment ${escaped(envId)}, ` +
      `${plural(rolloutsPerExample, 'rollout')} each${sampling.length === 0 ? '' : ` (${escaped(sampling.join(', '))}, seed ${facts.seed})`}.`,
    '',
    '## Figures',
    '',
    '| | mean | 95 % interval | n |',
    '|---|---|---|---|',
    ...figures(summary),
    '',
    `${plural(rollouts.finished, 'rollout')} finished${failed}. ${countText(tokens.input)} tokens were read, ${countText(tokens.output)} written.` +
      (summary.cost === undefined ? '' : ` Cost: ${escaped(costText({ ...summary.cost, limit: null }))}.`),
    ...(summary.repeats === undefined ? [] : ['', `Repeats: ${repeatsText(summary.repeats)}.`]),
    ...(summary.refused === undefined ? [] : ['', `Refused: ${escaped(escapeControls(refusedText(summary.refused)))}`]),
    ...(summary.forks === undefined ? [] : ['', `Forks: ${escaped(escapeControls(forksText(summary.forks)))}.`]),
    ...summary.notices.flatMap((notice) => ['', `Note: ${escaped(notice)}`]),
    '',
    '## Files',
    '',
    ...files.map(({ name, about }) => `- \`${name}\`: ${about}`),
    '',
    ...(command === null ? [] : ['## Command', '', 'In a checkout of vf-search:', '', ...codeBlock('sh', command), '']),
  ].join('\n');
}

function frontMatter({ envId }: Summary, files: ResultsCardFacts['files']): string[] {
  const tables = files.filter(({ name }) => /^(results|tokens|asked)\.jsonl$/.test(name));
  return [
    '---',
    'tags:',
    ...['vf-search', 'evaluation', envId].map((tag) => `  - ${scalar(tag)}`),
    'configs:',
    ...tables.flatMap(({ name }, i) => [
      `  - config_name: ${name.replace('.jsonl', '')}`,
      ...(i === 0 ? ['    default: true'] : []),
      `    data_files: ${name}`,
    ]),
    '---',
  ];
}

function figures({ reward, turns, metrics, passAtK, passAllK }: Summary): string[] {
  const rows: (readonly [string, Estimate | null])[] = [
    ['reward', reward],
    ...Object.entries(metrics),
    ['turns per rollout', turns],
    ...Object.entries(passAtK).map(([k, estimate]) => [`pass@${k}`, estimate] as const),
    ...Object.entries(passAllK).map(([k, estimate]) => [`pass^${k}`, estimate] as const),
  ];
  return rows.flatMap(([name, estimate]) => {
    if (estimate === null) return [];
    return [`| ${escaped(name)} | ${meanText(estimate.value)} | ${intervalText(estimate)} | ${countText(estimate.n)} |`];
  });
}
