/**
 * A trained adapter teaches a fresh one by its log-probs of the student's own tokens, without any reward: two searches for questions whose names pre-training cannot contain.
 * Every seed has a world of its own, in which GRPO first trains the teacher; the student then starts where GRPO started. Counts the tokens that each had to sample.
 */
import { mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { COLORS } from '../../src/reports/plot/chart-theme.ts';
import { type ChartLine, lineChart } from '../../src/reports/plot/line-chart.ts';
import { countText } from '../../src/reports/text/number-text.ts';
import { COPY_PROOFS, PRESET } from './copy-proofs.ts';
import type { Proof, ProofOptions } from './proof-options.ts';
import { tableLines, type Verdict, writePage } from './results-page.ts';
import { runRecord, stepsOf, worst } from './run-figures.ts';
import { type ProvenRun, setFlags, trainOnce } from './train-once.ts';

/**
 * The student must reach this share of the teacher's last held-out reward, and GRPO must have sampled at least so many times the student's tokens until it first had that
 * reward. The KL to the teacher is that of the student's last step, in nats per token.
 */
const BARS = { share: 0.95, times: 2, quickTimes: 1, teacherKl: 0.02 };
const STEPS = { teacher: 8, student: 14, control: 2, quickTeacher: 4, quickStudent: 8 };
/** Steps between evaluations. */
const EVERY = 2;

/** Of all runs: four optimiser steps for each batch, at twice the learning rate of the preset. */
const OPTIMISER = ['optimizer.learning_rate=2e-3', 'algorithm.epochs=2', 'algorithm.minibatches=2'];
/** A rollout of each question, and no reward. */
const STUDENT = ['rollouts.rollouts_per_example=1', 'rollouts.examples_per_step=16'];

interface DistilledRun extends ProvenRun {
  readonly kind: 'teacher' | 'student' | 'control';
  readonly seed: number;
}

export const DISTILL: Proof = {
  about: 'an adapter is taught two searches by a trained one, from fewer sampled tokens than GRPO needs, with Node alone',
  flags: ['quick', 'seeds', 'output', 'runs', 'model', 'set'],
  prove: proveDistill,
};

async function proveDistill(options: ProofOptions): Promise<readonly Verdict[]> {
  const { quick, seeds } = options;
  const runs: DistilledRun[] = [];
  for (const seed of seeds) {
    const world = COPY_PROOFS.find(({ name }) => name === 'two-hops')!.make(mkdtempSync(join(tmpdir(), 'vf-strange-')), seed);
    const play = (kind: DistilledRun['kind'], steps: number, further: readonly string[]) =>
      run({ kind, seed, args: [...world, ...setFlags([`steps=${steps}`, `evaluation.every=${EVERY}`, ...further])] }, options);
    const teacher = await play('teacher', quick ? STEPS.quickTeacher : STEPS.teacher, []);
    const taught = [...STUDENT, `algorithm.teacher.adapter=${teacher.adapter}`];
    runs.push(teacher, await play('student', quick ? STEPS.quickStudent : STEPS.student, taught));
    if (seed === seeds[0]) runs.push(await play('control', STEPS.control, [...taught, 'algorithm.negate_advantages=true']));
  }
  return writeDistillPage(runs, options);
}

interface Asked extends Pick<DistilledRun, 'kind' | 'seed'> {
  readonly args: readonly string[];
}

const NAMES = { teacher: 'GRPO, the teacher', student: 'distilled', control: 'distilled, negated' } as const;

async function run({ kind, seed, args }: Asked, { model, settings, runs: output }: ProofOptions): Promise<DistilledRun> {
  const further = setFlags([...OPTIMISER, 'evaluation.rollouts_per_example=4', ...(model === undefined ? [] : [`model.path=${model}`]), ...settings]);
  const label = `${NAMES[kind]}, seed ${seed}`;
  const words = [...args, '--preset', PRESET, '--seed', String(seed), '-o', output, ...further];
  return { ...(await trainOnce({ label, isControl: kind === 'control', args: words })), kind, seed };
}

interface Measured {
  /** Tokens sampled in training before the evaluation. */
  readonly tokens: number;
  readonly reward: number;
}

/** Held-out reward by the tokens that the policy had sampled for it. */
export function rewardByTokens({ rows }: Pick<ProvenRun, 'rows'>): readonly Measured[] {
  let tokens = 0;
  return rows.flatMap(({ kind, values }) => {
    if (kind === 'step') tokens += values['sampled_tokens'] ?? 0;
    return kind === 'evaluation' ? [{ tokens, reward: values['reward_mean'] ?? NaN }] : [];
  });
}

/** Tokens until it first had this reward; null if it never had. */
export function tokensUntil(of: Pick<ProvenRun, 'rows'>, reward: number): number | null {
  return rewardByTokens(of).find((measured) => measured.reward >= reward)?.tokens ?? null;
}

interface Seed {
  readonly teacher: DistilledRun;
  readonly student: DistilledRun;
  readonly control: DistilledRun | undefined;
  /** The held-out reward that the student must reach. */
  readonly aim: number;
}

function seedOf(runs: readonly DistilledRun[]): Seed {
  const of = (kind: DistilledRun['kind']) => runs.find((each) => each.kind === kind);
  const teacher = of('teacher')!;
  return { teacher, student: of('student')!, control: of('control'), aim: BARS.share * rewardByTokens(teacher).at(-1)!.reward };
}

function judge({ teacher, student, control, aim }: Seed, { quick }: Pick<ProofOptions, 'quick'>): Verdict[] {
  const times = quick ? BARS.quickTimes : BARS.times;
  const [theirs, own] = [tokensUntil(teacher, aim)!, tokensUntil(student, aim)];
  const values = (name: string) => student.rows.flatMap(({ values: of }) => of[name] ?? []);
  const kl = values('teacher_kl').at(-1) ?? NaN;
  const scored = Math.min(...values('teacher_scored'));
  const reached =
    own === null
      ? 'never reached'
      : `reached after ${countText(own)} sampled tokens, and by GRPO after ${countText(theirs)}, ${(theirs / own).toFixed(1)} times as many`;
  const ends = control === undefined ? [] : rewardByTokens(control).map(({ reward }) => reward);
  const { label } = student;
  return [
    {
      ok: own !== null && theirs >= times * own,
      text: `${label}: ${aim.toFixed(3)}, ${100 * BARS.share} % of the teacher's held-out reward, was ${reached}; at least ${times} times`,
    },
    { ok: kl <= BARS.teacherKl, text: `${label}: KL to the teacher ${kl.toFixed(4)} nats per token in the last step; at most ${BARS.teacherKl}` },
    { ok: scored === 1, text: `${label}: the teacher scored ${scored} of the sampled tokens of its worst step; must be 1` },
    ...(control === undefined
      ? []
      : [
          {
            ok: ends.at(-1)! < ends[0]!,
            text: `${control.label}: held-out reward ${ends[0]!.toFixed(3)} → ${ends.at(-1)!.toFixed(3)}; must fall`,
          },
        ]),
  ];
}

function writeDistillPage(runs: readonly DistilledRun[], options: ProofOptions): readonly Verdict[] {
  const seeds = new Map([...Map.groupBy(runs, ({ seed }) => seed)].map(([seed, own]) => [seed, seedOf(own)]));
  const cells = (each: DistilledRun) => {
    const measured = rewardByTokens(each);
    const until = tokensUntil(each, seeds.get(each.seed)!.aim);
    const [first, last] = [measured[0]!, measured.at(-1)!];
    const moved = `${first.reward.toFixed(3)} → ${last.reward.toFixed(3)}`;
    return [each.label, moved, stepsOf(each), countText(last.tokens), until === null ? 'never' : countText(until), each.seconds.toFixed(0)];
  };
  return writePage(options, {
    name: 'distill',
    title: 'A teacher saves sampled tokens',
    intro: [
      `Every run is \`vf-train search-r1 --preset ${PRESET}\` from \`nano-copy\`, with Node alone, on questions that need two searches; their names cannot be in its pre-training (\`scripts/proof/strange-world.ts\`).`,
      'GRPO trains on the reward, with 8 × 16 rollouts in a step. Its adapter is the teacher of a fresh one, which sees no reward: 16 rollouts in a step, each of another question, whose tokens get the',
      'advantage log π_teacher − log π_student (`[algorithm.teacher]`, [distillation.md](../distillation.md)). All take four optimiser steps for each batch, at twice the learning rate of the preset.',
      `The aim is ${100 * BARS.share} % of the teacher's last held-out reward: exact match of 60 questions × 4, every ${EVERY} steps. Tokens are those sampled in training. The control has negated advantages. Seconds are`,
      'those of the whole command with its evaluations, on a machine that may be busy with other work.',
    ],
    plot: { svg: plot(runs), alt: 'Held-out reward by sampled tokens' },
    body: tableLines(['run', 'held-out reward', 'steps', 'tokens sampled', 'tokens to the aim', 'seconds'], runs.map(cells)),
    figures: {
      runs: runs.map((each) => ({
        ...runRecord(each),
        reward_by_tokens: rewardByTokens(each),
        teacher_kl: each.rows.flatMap(({ values }) => values['teacher_kl'] ?? []),
        teacher_seconds_worst: each.kind === 'student' ? worst(each.rows, 'teacher_seconds') : null,
      })),
    },
    verdicts: [...seeds.values()].flatMap((seed) => judge(seed, options)),
  });
}

const LOOKS = {
  teacher: { color: COLORS.blue },
  student: { color: COLORS.green },
  control: { color: COLORS.vermilion, dashed: true },
} as const;

function plot(runs: readonly DistilledRun[]): string {
  const lines = runs.map((each): ChartLine => ({
    ...LOOKS[each.kind],
    label: each.label,
    points: rewardByTokens(each).map(({ tokens, reward }) => ({ step: tokens / 1000, value: reward })),
    width: 1.6,
    mark: 2.6,
  }));
  const chart = { title: 'mean reward of held-out questions', lines, range: { from: 0, to: 1 }, xLabel: 'thousand tokens sampled in training' };
  return lineChart(chart, { width: 800, height: 420, heading: 'nano-copy, two searches: GRPO and distillation from its adapter' });
}
