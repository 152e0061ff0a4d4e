/** Puts a model card and the run's configuration into the folders of the adapters that a user would publish: the newest checkpoint's, and the best one. */
import { copyFile } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { packageVersion } from '../../data/package-root.ts';
import { replaceFile } from '../../files/json-lines.ts';
import { type TrainingConfig, trainingConfigFromWire, type TrainingConfigWire } from '../../schemas/training-config.ts';
import { isEnvironmentPath } from '../../registry/find-environment.ts';
import { supervisedSteps, totalSteps } from '../../trainer/config/training-schedule.ts';
import type { MetricsRow } from '../../trainer/training-observer.ts';
import type { KeptBest } from '../../trainer/records/best-version.ts';
import { collapseIn } from '../../trainer/records/collapse.ts';
import { metricName } from '../../trainer/records/chosen-metric.ts';
import { type ChangedSetting, changedText, type SettingHistory } from '../../trainer/records/setting-history.ts';
import { evaluationAfter, evaluationsOf } from '../../trainer/records/usable-version.ts';
import { hideAddresses } from '../../transport/redact.ts';
import { meanText } from '../text/number-text.ts';
import { shellCommand } from '../text/own-command.ts';
import { escapeControls } from '../text/terminal-text.ts';
import { trainedText } from './announce-run.ts';
import { baseFacts } from './base-facts.ts';
import { evaluatedRollouts, leftOutText } from './evaluated-rollouts.ts';
import type { EvaluationLabel } from './evaluation-label.ts';
import { metricValue } from '../../trainer/training-observer.ts';
import { type CardColumn, type CardFacts, modelCard } from './model-card.ts';
import { supervisedCurves } from './supervised-curves.ts';
import { publishedConfig } from './published-config.ts';
import { renderConfig } from './render-config.ts';

export interface ModelCardsOptions {
  readonly config: TrainingConfig;
  /** The resolved configuration. */
  readonly wire: TrainingConfigWire;
  readonly rows: readonly MetricsRow[];
  readonly history: SettingHistory;
  readonly evaluationLabel: EvaluationLabel;
  /** PEFT directory of the newest checkpoint; null if there is none. */
  readonly adapter: string | null;
  /** The adapter in `best/`; null if there is none. */
  readonly best: KeptBest | null;
  /** Paths of the run's plots. */
  readonly plots: readonly string[];
  readonly variables: Readonly<Record<string, string | undefined>>;
  readonly redact: (text: string) => string;
}

const CONFIG_HEADING =
  'The configuration of the vf-train run that made this adapter, with the meaning of each key. Paths, addresses and secrets are left out.';
const LAST_HEADING =
  'The configuration of the last steps of the vf-train run that made this adapter, with the meaning of each key; README.md says what changed before. Paths, addresses and secrets are left out.';
/** The most informative picture of those that the run has. */
const PICTURES = ['reward.png', 'loss.png'];

export async function writeModelCards({ adapter, best, ...options }: ModelCardsOptions): Promise<void> {
  if (adapter !== null) await writeCard(adapter, { step: stepOfCheckpoint(adapter), what: 'the adapter' }, options);
  if (best === null) return;
  const why = best.metric === 'validation_nll' ? 'lowest validation loss' : bestTitle(best, options.evaluationLabel);
  await writeCard(best.adapter, { step: best.step, what: `the adapter with the ${why},` }, options);
}

type CardOptions = Omit<ModelCardsOptions, 'adapter' | 'best'>;

interface Which {
  readonly step: number;
  readonly what: string;
}

async function writeCard(directory: string, which: Which, options: CardOptions): Promise<void> {
  const picture = PICTURES.flatMap((name) => options.plots.find((path) => basename(path) === name) ?? [])[0] ?? null;
  if (picture !== null) await copyFile(picture, join(directory, basename(picture)));
  const { last, changed } = options.history.through(options.wire, which.step);
  const wire = last as TrainingConfigWire;
  const facts = cardFacts(which, { ...options, wire, changed, image: picture === null ? null : basename(picture) });
  const published = publishedConfig(wire, (text) => hideAddresses(options.redact(text)));
  const files = {
    'config.toml': renderConfig({ wire: published }, { heading: changed.length === 0 ? CONFIG_HEADING : LAST_HEADING }),
    'README.md': modelCard(facts),
  };
  for (const [name, text] of Object.entries(files))
    await replaceFile(join(directory, name), (write) => write(Buffer.from(hideAddresses(options.redact(text)), 'utf8')));
}

interface DrawnCard extends CardOptions {
  readonly image: string | null;
  readonly changed: readonly ChangedSetting[];
}

function cardFacts({ step, what }: Which, options: DrawnCard): CardFacts {
  const { config, wire, changed, rows, evaluationLabel, variables, image } = options;
  const base = baseFacts(config.model.path, variables);
  const evaluation = evaluationAfter(rows, step);
  const value = evaluation === null ? null : metricValue(evaluation, 'reward_mean');
  // The card as a whole loses its secrets and addresses when it is written.
  const published = trainingConfigFromWire(publishedConfig(wire, String));
  const environment = { ...published.environment, id: environmentName(wire.environment.id) };
  return {
    name: escapeControls(published.name ?? environment.id),
    base,
    environmentId: escapeControls(environment.id),
    tags: [...(config.steps > 0 ? ['reinforcement-learning'] : []), ...(supervisedSteps(config) === 0 ? [] : ['sft'])],
    packageVersion: packageVersion(),
    trained: escapeControls(trainedText({ ...published, environment }, { name: base.name, changed })),
    which: `It is ${what} after step ${step} of ${totalSteps(config)}.`,
    figure: value === null ? null : { name: heldOutTitle(evaluationLabel), value, leftOut: leftOutText(evaluatedRollouts(evaluation!)) },
    branches: branchesText(
      rows.filter((row) => row.kind === 'step' && row.step <= step),
      config,
    ),
    collapsed: collapsedText(rows, step),
    changed: changed.map((each) => escapeControls(changedText(each))),
    columns: columnsOf(
      rows.filter((row) => row.step <= step),
      evaluationLabel,
    ),
    image,
    command: shellCommand(['npx', 'vf-train', 'config.toml', ...(config.policy.baseUrl === null ? [] : ['--launch'])]),
  };
}

/** Only an agent leaves its conversation for another one. Null if every rollout was one sequence. */
function branchesText(rows: readonly MetricsRow[], { algorithm: { branches } }: TrainingConfig): string | null {
  const means = rows.flatMap((row) => metricValue(row, 'branches_mean') ?? []);
  if (means.length === 0) return null;
  // A step in which each rollout had one branch has no such figure.
  const mean = (means.reduce((sum, value) => sum + value, 0) + rows.length - means.length) / rows.length;
  return `The rollouts are those of an agent, with ${meanText(mean)} branches on average. ${TRAINED_BRANCHES[branches]} (algorithm.branches = "${branches}").`;
}

const TRAINED_BRANCHES: Readonly<Record<TrainingConfig['algorithm']['branches'], string>> = {
  all: 'All of them were trained on',
  longest: 'Of each rollout, only the branch in which the policy wrote the most tokens was trained on',
  last: 'Of each rollout, only the branch with its last turn was trained on',
};

/** Of an environment that was given by its path, the last part: `toy` for `./tasks/toy.ts`. */
function environmentName(id: string): string {
  return isEnvironmentPath(id) ? basename(id).replace(/\.[cm]?[jt]s$/, '') : id;
}

/** Null without a collapse. An adapter from before it is not concerned, but its run is. */
function collapsedText(rows: readonly MetricsRow[], step: number): string | null {
  const collapse = collapseIn(rows);
  if (collapse === null) return null;
  const when =
    step < collapse.step ? 'The policy of this run collapsed after this adapter was made' : 'This adapter is from after a collapse of the policy';
  return `${when}, at step ${collapse.step}: ${collapse.text}.`;
}

function columnsOf(rows: readonly MetricsRow[], label: EvaluationLabel): CardColumn[] {
  const rewards = (measured: readonly MetricsRow[]) =>
    measured.flatMap((row) => {
      const value = metricValue(row, 'reward_mean');
      return value === null ? [] : [{ step: row.step, value }];
    });
  const { training, validation } = supervisedCurves(rows);
  return [
    { title: 'training reward', isHeldOut: false, points: rewards(rows.filter(({ kind }) => kind === 'step')) },
    { title: heldOutTitle(label), isHeldOut: true, points: rewards(evaluationsOf(rows)) },
    { title: 'loss', isHeldOut: false, points: training },
    { title: 'validation loss', isHeldOut: true, points: validation },
  ];
}

function bestTitle({ metric, lowerIsBetter, value }: KeptBest, label: EvaluationLabel): string {
  if (metric === 'reward_mean') return `highest ${heldOutTitle(label)}`;
  return `${lowerIsBetter === true ? 'lowest' : 'highest'} ${label} ${metricName(metric)} (${meanText(value)})`;
}

function heldOutTitle(label: EvaluationLabel): string {
  return `${label} reward`;
}

/** `step-000010/adapter`, or `step-000010.2/adapter`. */
function stepOfCheckpoint(adapter: string): number {
  return Number(/step-(\d+)(?:\.\d+)?[/\\][^/\\]+$/.exec(adapter)?.[1] ?? NaN);
}
