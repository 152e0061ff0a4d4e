/** The README.md of an adapter, in the form of a model card of the Hugging Face Hub. */
import { codeBlock, escaped, scalar } from '../text/card-text.ts';
import { meanText, plural } from '../text/number-text.ts';
import type { BaseFacts } from './base-facts.ts';

export interface CardColumn {
  readonly title: string;
  /** True if the run does not train on the measured rows. */
  readonly isHeldOut: boolean;
  readonly points: readonly CardPoint[];
}

interface CardPoint {
  readonly step: number;
  readonly value: number;
}

export interface CardFacts {
  /** Name of the run. */
  readonly name: string;
  readonly base: BaseFacts;
  /** The environment that the run trains and evaluates on. */
  readonly environmentId: string;
  /** Further tags in addition to `lora` and `vf-search`. */
  readonly tags: readonly string[];
  readonly packageVersion: string;
  /** The object of the training, its method and its data, in one clause. */
  readonly trained: string;
  /** Identifies this adapter among those of the run, in one sentence. */
  readonly which: string;
  /** The mean reward of this adapter itself on rows that were not trained on, and the rollouts that it leaves out; null if it was never evaluated. */
  readonly figure: { readonly name: string; readonly value: number; readonly leftOut: string | null } | null;
  /** Says how many branches the rollouts of an agent had and which were trained on, in one paragraph; null if each had one. */
  readonly branches: string | null;
  /** Says that the policy of the run collapsed, in one paragraph; null if it did not. */
  readonly collapsed: string | null;
  /** Settings that changed during the training, each with the steps of its values. */
  readonly changed: readonly string[];
  /** Curves of the run; empty ones are left out. */
  readonly columns: readonly CardColumn[];
  /** A picture of the curves next to the card; null for none. */
  readonly image: string | null;
  /** Repeats the training from the config.toml in the card's folder. */
  readonly command: string;
}

/** A longer table shows no more than the picture. */
const MOST_ROWS = 12;

export function modelCard(facts: CardFacts): string {
  const { name, base, packageVersion, trained, which, branches, changed, command, collapsed, figure } = facts;
  const own = base.isBundled ? `${base.name}, the model that vf-search brings` : base.name;
  const link = base.hubId === null ? own : `[${base.hubId}](https://huggingface.co/${base.hubId})`;
  return [
    ...frontMatter(facts),
    '',
    `# ${escaped(name)}`,
    '',
    `A LoRA adapter for ${link}, trained with vf-search ${packageVersion}: ${escaped(trained)}. ${which}`,
    '',
    ...(branches === null ? [] : [escaped(branches), '']),
    ...(collapsed === null ? [] : [escaped(collapsed), '']),
    ...(figure === null || figure.leftOut === null ? [] : [`Its ${figure.name} of ${meanText(figure.value)} is the ${figure.leftOut}.`, '']),
    ...(changed.length === 0 ? [] : ['Settings changed during this training:', '', ...changed.map((text) => `- ${escaped(text)}`), '']),
    ...curves(facts),
    '## Command',
    '',
    `${changed.length === 0 ? REPEATS : FOLLOWS} In that file, paths of the training machine are shortened, addresses of servers are \`URL\`, and secrets are \`***\`.`,
    '',
    ...codeBlock('sh', command),
    '',
  ].join('\n');
}

const REPEATS = 'In the folder of this card, with vf-search installed there or above, it repeats the training with the settings in `config.toml`.';
const FOLLOWS =
  'In the folder of this card, with vf-search installed there or above, it trains with the settings in `config.toml`, which are those of the last steps. It does not repeat this training, whose settings changed.';

function frontMatter(facts: CardFacts): string[] {
  const {
    base: { hubId, license, sees = false },
    tags,
  } = facts;
  return [
    '---',
    ...(hubId === null ? [] : [`base_model: ${scalar(hubId)}`, 'base_model_relation: adapter']),
    'library_name: peft',
    `pipeline_tag: ${sees ? 'image-text-to-text' : 'text-generation'}`,
    ...(license === null ? [] : [`license: ${scalar(license.id)}`]),
    ...(license?.id === 'other' && license.name !== null ? [`license_name: ${scalar(license.name)}`] : []),
    ...(license?.id === 'other' && license.link !== null ? [`license_link: ${scalar(license.link)}`] : []),
    'tags:',
    ...['lora', 'vf-search', ...tags].map((tag) => `  - ${scalar(tag)}`),
    ...modelIndex(facts),
    '---',
  ];
}

/** The adapter's own reward on rows that were not trained on, in the form that the hub shows next to the card. */
function modelIndex({ name, environmentId, base: { sees = false }, figure }: CardFacts): string[] {
  if (figure === null) return [];
  return [
    'model-index:',
    `  - name: ${scalar(name)}`,
    '    results:',
    '      - task:',
    `          type: ${sees ? 'image-text-to-text' : 'text-generation'}`,
    '        dataset:',
    `          name: ${scalar(environmentId)}`,
    `          type: ${scalar(environmentId)}`,
    '        metrics:',
    '          - type: reward',
    `            name: ${scalar(figure.leftOut === null ? figure.name : `${figure.name} (${figure.leftOut})`)}`,
    `            value: ${figure.value}`,
  ];
}

function curves({ columns, image }: CardFacts): string[] {
  const shown = columns.filter(({ points }) => points.length > 0);
  if (shown.length === 0) return [];
  const steps = stepsOf(shown);
  const cell = ({ points }: CardColumn, step: number) => meanText(points.find((point) => point.step === step)?.value ?? null);
  return [
    '## Curve',
    '',
    ...(image === null ? [] : [`![${shown.map(({ title }) => title).join(', ')}](${image})`, '']),
    `| step | ${shown.map(({ title }) => title).join(' | ')} |`,
    `|---|${shown.map(() => '---|').join('')}`,
    ...steps.shown.map((step) => `| ${step} | ${shown.map((column) => cell(column, step)).join(' | ')} |`),
    '',
    `${steps.shown.length < steps.all ? `${steps.shown.length} of ${plural(steps.all, 'step')} are shown. ` : ''}The figure of one training batch is noisy.`,
    '',
  ];
}

/** Steps of the curves, at most `MOST_ROWS`: first those of rows that were held out, which are the most meaningful, and the last one. */
function stepsOf(columns: readonly CardColumn[]): { readonly shown: readonly number[]; readonly all: number } {
  const ascending = (points: readonly CardPoint[]) => [...new Set(points.map(({ step }) => step))].toSorted((a, b) => a - b);
  const all = ascending(columns.flatMap(({ points }) => points));
  const heldOut = ascending([...columns.flatMap(({ isHeldOut, points }) => (isHeldOut ? points : [])), { step: all.at(-1)!, value: 0 }]);
  const first = evenly(heldOut, MOST_ROWS);
  const others = all.filter((step) => !heldOut.includes(step));
  return { shown: [...first, ...evenly(others, MOST_ROWS - first.length)].toSorted((a, b) => a - b), all: all.length };
}

/** At most `most` of the steps, the first and the last among them if there is room for two. */
function evenly(steps: readonly number[], most: number): readonly number[] {
  if (steps.length <= most) return steps;
  return Array.from({ length: most }, (_, i) => steps[Math.round(((i + Number(most === 1)) * (steps.length - 1)) / Math.max(1, most - 1))]!);
}
