/** Judges the stages of the proof with a real language model and writes its page, plot and figures. The page shows all results, good or bad. */
import { join } from 'node:path';
import { COLORS } from '../../src/reports/plot/chart-theme.ts';
import { type ChartLine, type ChartPoint, lineChart } from '../../src/reports/plot/line-chart.ts';
import type { Estimate } from '../../src/schemas/summary.ts';
import type { MetricsRow } from '../../src/trainer/training-observer.ts';
import { readMetrics } from '../../src/trainer/records/metrics-journal.ts';
import type { ProofOptions } from '../proof/proof-options.ts';
import { tableLines, type Verdict, writePage } from '../proof/results-page.ts';
import { type Evaluation, rowsOf, shareOf } from './evaluations.ts';
import { OUTCOMES } from './outcomes.ts';
import { type PairedDifference, pairedDifference } from './paired-difference.ts';
import type { ProofPlan } from './plan.ts';
import { readResult } from './stages.ts';
import type { TranscriptCounts } from './transcripts.ts';

/** By way of sampling; the control is not evaluated greedily. */
export interface Evaluated {
  readonly greedy?: Evaluation;
  readonly sampled?: Evaluation;
}

export interface Trained {
  readonly adapter: string;
  /** The run's folder; null for an adapter from elsewhere. */
  readonly directory: string | null;
  readonly seconds: number;
}

export interface ReportOptions {
  /** The place of the page, and the command that writes it. With `quick`, only the working of the stages is judged. */
  readonly page: Pick<ProofOptions, 'command' | 'output' | 'quick'>;
  /** Folder of the stages. */
  readonly stages: string;
  readonly plan: ProofPlan;
}

const POLICIES = ['baseline', 'base', 'warm-up', 'grpo', 'control'] as const;
type Policy = (typeof POLICIES)[number];
type Mode = keyof Evaluated;
const MODES: readonly Mode[] = ['greedy', 'sampled'];

const LABELS: Readonly<Record<Policy, string>> = {
  baseline: 'extractive baseline',
  base: 'Gemma 3 270M base',
  'warm-up': 'after the supervised warm-up',
  grpo: 'after GRPO',
  control: 'control: negated advantages',
};
const VALID_BAR = 0.95;

export async function reportRealModel({ page, stages, plan }: ReportOptions): Promise<{ readonly verdicts: readonly Verdict[] }> {
  const evaluated = Object.fromEntries(
    POLICIES.map((policy) => [policy, readResult(stages, `evaluate-${policy}`) as Evaluated]),
  ) as EvaluatedPolicies;
  const grpoStages = plan.grpoSteps.map((_, i) => readResult(stages, `grpo-${i + 1}`) as Trained);
  const runs = { grpo: grpoStages.at(-1)!, control: readResult(stages, 'control') as Trained };
  const curves = { grpo: await metricsOf(runs.grpo), control: await metricsOf(runs.control) };
  const differences = allDifferences(evaluated);
  const counts = { transcripts: readResult(stages, 'transcripts') as TranscriptCounts, model: readResult(stages, 'model') as object };
  const seconds = {
    warmUp: (readResult(stages, 'warm-up') as Trained).seconds,
    grpo: grpoStages.reduce((sum, stage) => sum + stage.seconds, 0),
    control: runs.control.seconds,
  };
  const figures = { plan, seconds, evaluations: figuresOf(evaluated), differences, ...counts, batch_reward: batchRewards(curves) };
  const verdicts = writePage(page, {
    name: 'real-model',
    title: 'A real language model learns to search',
    intro: [
      "Gemma 3 270M (base, from a 4-bit GGUF) answers nq-mini's test questions with BM25 over nq-mini, top 2. Transcripts of search made from the train rows warm it up by supervised steps, then GRPO",
      'trains it on exact match. The control is the same GRPO with negated advantages. Exact match of the answer that the model itself wrote, with Wilson’s 95 % interval.',
      '',
      madeText(plan, counts.transcripts, seconds),
    ],
    plot: { svg: plot(curves, evaluated), alt: 'Exact match by training step' },
    body: pageTables(evaluated, differences),
    figures,
    verdicts: page.quick ? judgeQuick(evaluated, curves) : judge(evaluated, differences),
  });
  return { verdicts };
}

type EvaluatedPolicies = Readonly<Record<Policy, Evaluated>>;

interface Difference extends PairedDifference {
  readonly before: Policy;
  readonly after: Policy;
  readonly mode: Mode;
}

interface Curves {
  readonly grpo: readonly MetricsRow[];
  readonly control: readonly MetricsRow[];
}

const PAIRS: readonly (readonly [before: Policy, after: Policy])[] = [
  ['base', 'warm-up'],
  ['baseline', 'warm-up'],
  ['warm-up', 'grpo'],
  ['baseline', 'grpo'],
  ['warm-up', 'control'],
];

function allDifferences(evaluated: EvaluatedPolicies): Difference[] {
  return PAIRS.flatMap(([before, after]) =>
    MODES.flatMap((mode) => {
      const [one, other] = [evaluated[before][mode], evaluated[after][mode]];
      const difference = one === undefined || other === undefined ? null : pairedDifference(rowsOf(one.em), rowsOf(other.em));
      return difference === null ? [] : [{ before, after, mode, ...difference }];
    }),
  );
}

function judge(evaluated: EvaluatedPolicies, differences: readonly Difference[]): Verdict[] {
  const [warm, baseline] = [evaluated['warm-up'].greedy!, evaluated.baseline.greedy!];
  const [valid, em, bar] = [shareOf(warm.valid), shareOf(warm.em), shareOf(baseline.em)];
  const of = (before: Policy, after: Policy, mode: Mode) =>
    differences.find((one) => one.before === before && one.after === after && one.mode === mode)!;
  const fall = of('warm-up', 'control', 'sampled');
  return [
    { ok: valid.value >= VALID_BAR, text: `after the warm-up ${shareText(valid)} of greedy answers have a valid format; at least ${VALID_BAR}` },
    {
      ok: em.value > bar.value,
      text: `after the warm-up exact match is ${shareText(em)}, greedy; above the extractive baseline, ${bar.value.toFixed(3)}`,
    },
    ...MODES.map((mode) => {
      const rise = of('warm-up', 'grpo', mode);
      return { ok: rise.low > 0, text: `GRPO changes ${mode} exact match by ${differenceText(rise)}; above 0 with its interval` };
    }),
    { ok: fall.value < 0, text: `the control changes sampled exact match by ${differenceText(fall)}; must fall` },
  ];
}

function judgeQuick(evaluated: EvaluatedPolicies, curves: Curves): Verdict[] {
  const played = MODES.map((mode) => Object.keys(evaluated.grpo[mode]?.em ?? {}).length);
  const steps = curves.grpo.filter(({ kind }) => kind === 'step').length;
  return [
    { ok: played.every((rows) => rows > 0), text: `${played.join(' greedy and ')} sampled test rows were played after GRPO` },
    { ok: steps > 0, text: `GRPO took ${steps} steps from the adapter of the warm-up` },
  ];
}

function figuresOf(evaluated: EvaluatedPolicies): object[] {
  return POLICIES.flatMap((policy) =>
    MODES.flatMap((mode) => {
      const found = evaluated[policy][mode];
      if (found === undefined) return [];
      const { em, valid, ...rest } = found;
      return [{ policy, mode, rows: Object.keys(em).length, em: shareOf(em), valid_format: shareOf(valid), ...rest }];
    }),
  );
}

async function metricsOf({ directory }: Trained): Promise<readonly MetricsRow[]> {
  return directory === null ? [] : await readMetrics(join(directory, 'metrics.jsonl'));
}

function batchRewards({ grpo, control }: Curves): object {
  const rewards = (rows: readonly MetricsRow[]) => rows.flatMap(({ kind, values }) => (kind === 'step' ? [values['reward_mean'] ?? null] : []));
  return { grpo: rewards(grpo), control: rewards(control) };
}

/** Reward of each batch, and sampled exact match on held-out rows before and after with its interval. */
function plot({ grpo, control }: Curves, evaluated: EvaluatedPolicies): string {
  const batch = (rows: readonly MetricsRow[]): ChartPoint[] =>
    rows.flatMap(({ kind, step, values }) => (kind === 'step' ? [{ step, value: values['reward_mean'] ?? null }] : []));
  const heldOut = (policy: Policy, step: number): ChartPoint[] => {
    const found = evaluated[policy].sampled;
    return found === undefined ? [] : [{ step, ...shareOf(found.em) }];
  };
  const last = (rows: readonly MetricsRow[]) => Math.max(1, ...rows.map(({ step }) => step));
  const lines: ChartLine[] = [
    { label: null, color: COLORS.blue, points: batch(grpo), width: 1, opacity: 0.4 },
    { label: null, color: COLORS.vermilion, points: batch(control), width: 1, opacity: 0.4, dashed: true },
    { label: 'GRPO', color: COLORS.blue, points: [...heldOut('warm-up', 0), ...heldOut('grpo', last(grpo))], mark: 3.4 },
    { label: 'control', color: COLORS.vermilion, points: [...heldOut('warm-up', 0), ...heldOut('control', last(control))], mark: 3.4, dashed: true },
  ];
  const baseline = shareOf(evaluated.baseline.greedy!.em).value;
  const goals = [{ value: baseline, label: 'extractive baseline, greedy' }];
  const title = 'exact match, sampled: held-out rows with 95 % interval (faint: training batches)';
  const heading = 'Gemma 3 270M, nq-mini, GRPO with LoRA after a supervised warm-up';
  return lineChart({ title, lines, goals, xLabel: 'training step' }, { width: 800, height: 420, heading });
}

type Seconds = Readonly<Record<'warmUp' | 'grpo' | 'control', number>>;

function madeText({ warmUp, grpo, grpoSteps, controlSteps, maxTokens }: ProofPlan, { written, rows }: TranscriptCounts, seconds: Seconds): string {
  const minutes = (of: keyof Seconds) => `${Math.round(seconds[of] / 60)} minutes`;
  const played = `${Number(warmUp['steps']) * Number(warmUp['batch_size'])} of them in ${warmUp['steps']} steps (${minutes('warmUp')}, learning rate ${warmUp['learning_rate']})`;
  const steps = `${grpoSteps.at(-1)} steps of ${grpo['rollouts.examples_per_step'] ?? 4} rows × 8 rollouts (${minutes('grpo')}, learning rate ${grpo['optimizer.learning_rate']})`;
  const control = `The control takes ${controlSteps} steps (${minutes('control')}).`;
  return `${written} of ${rows} train rows give a transcript. The warm-up takes ${played}, GRPO ${steps}; a turn has at most ${maxTokens} new tokens. ${control}`;
}

function pageTables(evaluated: EvaluatedPolicies, differences: readonly Difference[]): string[] {
  const cell = (found: Evaluation | undefined, by: 'em' | 'valid') => (found === undefined ? '' : shareText(shareOf(found[by])));
  return [
    ...tableLines(
      ['policy', 'exact match, greedy', 'valid format, greedy', 'exact match, sampled', 'valid format, sampled'],
      POLICIES.map((policy) => {
        const { greedy, sampled } = evaluated[policy];
        return [LABELS[policy], cell(greedy, 'em'), cell(greedy, 'valid'), cell(sampled, 'em'), cell(sampled, 'valid')];
      }),
    ),
    '',
    'Differences in exact match on the same rows, with 95 % bootstrap intervals over rows:',
    '',
    ...tableLines(
      ['from', 'to', '', 'difference', 'rows gained, lost'],
      differences.map((one) => [LABELS[one.before], LABELS[one.after], one.mode, differenceText(one), `${one.gained}, ${one.lost} of ${one.rows}`]),
    ),
    '',
    ...outcomeLines(evaluated),
    'The weights are under the Gemma terms of use; neither they nor the adapters are part of this repository.',
  ];
}

/** Where greedy answers go wrong, of the policies whose evaluations counted it. */
function outcomeLines(evaluated: EvaluatedPolicies): string[] {
  const counted = POLICIES.flatMap((policy) => {
    const outcomes = evaluated[policy].greedy?.outcomes;
    return outcomes === undefined ? [] : [[LABELS[policy], ...OUTCOMES.map((one) => String(outcomes[one]))]];
  });
  if (counted.length === 0) return [];
  const titles = ['right', 'no answer', 'no passage holds the answer', 'shares words with it', 'from another place', 'in no passage'];
  return ['What became of the questions, greedy:', '', ...tableLines(['policy', ...titles], counted), ''];
}

function shareText({ value, low, high }: Estimate): string {
  return `${value.toFixed(3)} (${low?.toFixed(3)} to ${high?.toFixed(3)})`;
}

function differenceText({ value, low, high }: PairedDifference): string {
  const signed = (x: number) => `${x < 0 ? '−' : '+'}${Math.abs(x).toFixed(3)}`;
  return `${signed(value)} (${signed(low)} to ${signed(high)})`;
}
