import { describe, expect, it } from 'vitest';
import { compareGroups, compareRuns, lossPlot, overviewPlot, rewardPlot } from '../../../src/reports/plot/training-plots.ts';
import type { MetricsRow } from '../../../src/trainer/training-observer.ts';
import { supervisedRows, trainingRows } from '../../cli/train/training-rows.ts';
import { type SvgNode, findNodes, parseSvg, withClass } from './svg-tree.ts';

const texts = (node: SvgNode, name: string) => findNodes(node, withClass(name)).map(({ text }) => text);
const paths = (node: SvgNode) => findNodes(node, ({ name }) => name === 'path');
/** Corners of a path of straight lines. */
const corners = ({ attributes }: SvgNode) => [...attributes['d']!.matchAll(/[ML]([\d.-]+),([\d.-]+)/g)].map(([, x, y]) => [Number(x), Number(y)]);
/** Where the value of a y tick stands. */
const heightOf = (svg: SvgNode, text: string) => Number(findNodes(svg, withClass('y-tick')).find((tick) => tick.text === text)!.attributes['y']) - 4;
const shapes: readonly (readonly [string, readonly MetricsRow[]])[] = [
  ['a whole run', trainingRows()],
  ['a long run', trainingRows({ steps: 200 })],
  ['one step', trainingRows({ steps: 1 })],
  ['an evaluation alone', trainingRows({ steps: 0 })],
  ['nothing', []],
  ['numbers that are none', [{ kind: 'step', step: 1, values: { reward_mean: NaN, entropy: Infinity, kl: null, step_seconds: NaN } }]],
];

describe('rewardPlot', () => {
  const svg = parseSvg(rewardPlot(trainingRows(), { name: 'nano <1> & "2"' }));

  it('has a point for every step and every evaluation, the latter with an interval', () => {
    const [raw, smooth, held] = paths(svg).map((path) => corners(path).length);
    expect([raw, smooth, held]).toEqual([30, 28, 7]);
    expect(findNodes(svg, ({ name }) => name === 'circle')).toHaveLength(7);
    expect(findNodes(svg, withClass('interval'))).toHaveLength(7);
  });

  it.each([30, 200])('has a bold line whose every point is the mean of as many steps as the title says: %i steps', (steps) => {
    const rows = trainingRows({ steps });
    const drawn = parseSvg(rewardPlot(rows, { name: 'n' }));
    const window = Number(/mean of the (\d+) steps around it/.exec(texts(drawn, 'title')[0]!)![1]);
    const rewards = rows.flatMap(({ kind, values }) => (kind === 'step' ? [values['reward_mean']!] : []));
    const [raw, bold] = paths(drawn).map(corners);
    const [zero, one] = [heightOf(drawn, '0.0'), heightOf(drawn, '1.0')];
    expect(bold).toHaveLength(steps - window + 1);
    for (const [i, [x, y]] of bold!.entries()) {
      const mean = rewards.slice(i, i + window).reduce((sum, reward) => sum + reward, 0) / window;
      expect((zero - y!) / (zero - one)).toBeCloseTo(mean, 3);
      expect(x).toBe(raw![i + (window - 1) / 2]![0]);
    }
  });

  it('draws a value where its axis says it is', () => {
    const [zero, one] = [heightOf(svg, '0.0'), heightOf(svg, '1.0')];
    const measured = trainingRows().flatMap(({ kind, values }) => (kind === 'step' ? [values['reward_mean']!] : []));
    const drawn = corners(paths(svg)[0]!).map(([, y]) => (zero - y!) / (zero - one));
    measured.forEach((reward, i) => expect(drawn[i]).toBeCloseTo(reward, 3));
  });

  it('labels both axes, their ticks and both lines', () => {
    expect(texts(svg, 'heading')).toEqual(['nano <1> & "2": reward']);
    expect(texts(svg, 'title')).toEqual([
      'mean reward (training: each step faint, mean of the 3 steps around it bold; held-out: with 95 % interval)',
    ]);
    expect(texts(svg, 'y-tick')).toEqual(['0.0', '0.2', '0.4', '0.6', '0.8', '1.0']);
    expect(texts(svg, 'x-tick').slice(0, 3)).toEqual(['0', '2', '4']);
    expect(texts(svg, 'x-label')).toEqual(['training step']);
    expect(texts(svg, 'end-label').toSorted()).toEqual(['held-out', 'training']);
  });

  it('cuts a name that is wider than the plot, and keeps it whole for screen readers', () => {
    const drawn = parseSvg(rewardPlot(trainingRows(), { name: '宽'.repeat(80) }));
    const [heading] = texts(drawn, 'heading');
    expect(heading).toMatch(/^宽{30,42}…$/);
    expect(findNodes(drawn, ({ name }) => name === 'title')[0]!.text).toBe(`${'宽'.repeat(80)}: reward`);
  });

  it('keeps labels of lines that end together apart', () => {
    const [first, second] = findNodes(svg, withClass('end-label')).map(({ attributes }) => Number(attributes['y']));
    expect(Math.abs(second! - first!)).toBeGreaterThanOrEqual(12);
  });

  it('reaches below zero where rewards do', () => {
    const rows = trainingRows({ steps: 5 }).map((row) => ({ ...row, values: { ...row.values, reward_mean: row.values['reward_mean']! - 0.5 } }));
    expect(texts(parseSvg(rewardPlot(rows, { name: 'n' })), 'y-tick').some((text) => text.startsWith('−'))).toBe(true);
  });
});

describe('plots of a run that evaluates the rows it trains on', () => {
  it.each([
    ['reward', rewardPlot],
    ['overview', overviewPlot],
  ])('mention no held-out rows: %s', (_, plot) => {
    const svg = plot(trainingRows(), { name: 'nano', evaluationLabel: 'evaluation' });
    expect(svg).toMatch(/evaluation/);
    expect(svg).not.toMatch(/held-out/);
  });
});

describe('plots of supervised steps', () => {
  const titles = (rows: readonly MetricsRow[]) => texts(parseSvg(overviewPlot(rows, { name: 'n' })), 'title');

  it('have a point for every supervised step and every validation, at its loss', () => {
    const svg = parseSvg(lossPlot(supervisedRows(), { name: 'nano' }));
    expect(texts(svg, 'end-label').toSorted()).toEqual(['training', 'validation']);
    const [training, validation] = paths(svg).map(corners);
    expect([training!.length, validation!.length]).toEqual([12, 4]);
    const [zero, one] = [heightOf(svg, '0.0'), heightOf(svg, '1.0')];
    const drawn = training!.map(([, y]) => (zero - y!) / (zero - one));
    drawn.forEach((loss, i) => expect(loss).toBeCloseTo(1.4 / (i + 1), 2));
  });

  it('have no empty chart of what was never played', () => {
    expect(titles(supervisedRows())).toEqual([
      'supervised loss, nats per token',
      'learning rate',
      'gradient norm before clipping',
      'seconds per step',
    ]);
    expect(titles(supervisedRows({ isEvaluated: true }))[1]).toBe('held-out reward, 95 % interval');
    const svg = parseSvg(overviewPlot(supervisedRows(), { name: 'n' }));
    expect(texts(svg, 'end-label')).toEqual(expect.not.arrayContaining(['sample', 'publish']));
  });

  it('mark where rollouts begin, in a run with both alone', () => {
    const rules = (rows: readonly MetricsRow[]) => findNodes(parseSvg(lossPlot(rows, { name: 'n' })), withClass('rule'));
    const later = trainingRows({ steps: 8 })
      .slice(1)
      .map((row) => ({ ...row, step: row.step + 12 }));
    const [rule, ...others] = rules([...supervisedRows(), ...later]);
    expect(others).toEqual([]);
    expect(rule!.children.map(({ text }) => text)).toEqual(['', 'rollouts begin']);
    const loss = parseSvg(lossPlot([...supervisedRows(), ...later], { name: 'n' }));
    const tick = (step: string) => Number(findNodes(loss, withClass('x-tick')).find(({ text }) => text === step)!.attributes['x']);
    expect(Number(rule!.children[0]!.attributes['x1'])).toBeCloseTo(tick('12') + (tick('12') - tick('10')) / 4, 0);
    expect(rules(supervisedRows())).toEqual([]);
    // With rows mixed in from the first step on, rollouts begin with the run.
    expect(rules(later.map((row) => ({ ...row, values: { ...row.values, demonstrations: 4, 'loss/sft/nll': 1 } })))).toEqual([]);
  });

  it('keep the labels apart where both losses end together before the run does', () => {
    const later = trainingRows({ steps: 20 })
      .slice(1)
      .map((row) => ({ ...row, step: row.step + 12 }));
    const equal = supervisedRows().map((row) => ({ ...row, values: { ...row.values, 'loss/sft/nll': 0.5, validation_nll: 0.5 } }));
    const panel = findNodes(parseSvg(overviewPlot([...equal, ...later], { name: 'n' })), withClass('panel'))[0]!;
    const [first, second] = findNodes(panel, withClass('end-label')).map(({ attributes }) => Number(attributes['y']));
    expect(Math.abs(second! - first!)).toBeGreaterThanOrEqual(12);
  });

  it('stand before those of the rollouts in a run with both', () => {
    expect(titles([...supervisedRows(), ...trainingRows()]).slice(0, 3)).toEqual([
      'supervised loss, nats per token',
      'learning rate',
      'reward of training batches',
    ]);
  });
});

describe('overviewPlot', () => {
  it('has eight charts, named with their units, over the same steps', () => {
    const svg = parseSvg(overviewPlot(trainingRows(), { name: 'nano' }));
    expect(texts(svg, 'title')).toEqual([
      'reward of training batches',
      'held-out reward, 95 % interval',
      'entropy, nats per token',
      'KL, nats per token',
      '|Δ log-prob| between trainer and server, nats',
      'gradient norm before clipping',
      'sampled tokens per rollout',
      'seconds per step',
    ]);
    for (const panel of findNodes(svg, withClass('panel'))) expect(texts(panel, 'x-tick')).toEqual(['0', '5', '10', '15', '20', '25', '30']);
    expect(texts(svg, 'y-tick')).toContain('10⁻⁶');
  });

  it('leaves a gap in the gradient norm where a step was skipped, and marks a point between two of them', () => {
    const norms = [0.3, 0.2, null, 0.4, null, 0.1, 0.2];
    const rows = norms.map((norm, i): MetricsRow => ({ kind: 'step', step: i + 1, values: { grad_norm: norm, entropy: norm } }));
    const panels = findNodes(parseSvg(overviewPlot(rows, { name: 'n' })), withClass('panel'));
    const [entropy, gradient] = [panels[2]!, panels[5]!].map((panel) => ({
      pieces: paths(panel).flatMap(({ attributes }) => attributes['d']!.match(/M[^M]*/g)!.map((piece) => piece.split('L').length)),
      marks: findNodes(panel, ({ name }) => name === 'circle').length,
    }));
    expect(gradient).toEqual({ pieces: [2, 2], marks: 1 });
    expect(entropy).toEqual({ pieces: [5], marks: 0 });
  });

  it('stacks the phases of a step up to their sum', () => {
    const rows = trainingRows({ steps: 8 });
    const panel = findNodes(parseSvg(overviewPlot(rows, { name: 'n' })), withClass('panel')).at(-1)!;
    const top = corners(findNodes(panel, withClass('part')).at(-1)!);
    const phases = ['rollouts_seconds', 'forward_seconds', 'backward_seconds', 'update_seconds', 'publish_seconds'];
    const first = phases.reduce((sum, name) => sum + rows.find(({ kind }) => kind === 'step')!.values[name]!, 0);
    const [zero, two] = [heightOf(panel, '0'), heightOf(panel, '2')];
    expect(((zero - top[0]![1]!) / (zero - two)) * 2).toBeCloseTo(first, 1);
  });

  it('writes tiny values with a power of ten, within the room of the axis', () => {
    const rows = [1, 2, 3].map((step): MetricsRow => ({ kind: 'step', step, values: { approx_kl: step * 6e-6 } }));
    const ticks = texts(parseSvg(overviewPlot(rows, { name: 'n' })), 'y-tick').filter((text) => text !== '0' && !text.includes('.0'));
    expect(ticks).toEqual(['0.5×10⁻⁵', '1×10⁻⁵', '1.5×10⁻⁵', '2×10⁻⁵']);
  });

  it('draws the KL to a teacher where a run has one, and has no line for it elsewhere', () => {
    const rows = [1, 0.5, 0.25].map((kl, i): MetricsRow => ({ kind: 'step', step: i + 1, values: { approx_kl: 0, teacher_kl: kl } }));
    const panelOf = (drawn: readonly MetricsRow[]) =>
      findNodes(parseSvg(overviewPlot(drawn, { name: 'n' })), withClass('panel')).find((panel) => texts(panel, 'title')[0]!.startsWith('KL'))!;
    const taught = paths(panelOf(rows)).at(-1)!;
    const [zero, one] = [heightOf(panelOf(rows), '0.0'), heightOf(panelOf(rows), '1.0')];
    for (const [i, [, y]] of corners(taught).entries()) expect((zero - y!) / (zero - one)).toBeCloseTo(1 / 2 ** i, 3);
    expect(texts(panelOf(rows), 'end-label')).toContain('to the teacher');
    expect(texts(panelOf(trainingRows()), 'end-label')).not.toContain('to the teacher');
  });

  const differences = (values: readonly number[]) =>
    values.map((value, i): MetricsRow => ({
      kind: 'step',
      step: i + 1,
      values: { log_prob_difference_mean: value, log_prob_difference_max: value },
    }));
  const differencePanel = (values: readonly number[]) =>
    findNodes(parseSvg(overviewPlot(differences(values), { name: 'n' })), withClass('panel'))[4]!;

  it('draws log-prob differences that are all 0 at 0', () => {
    const panel = differencePanel([0, 0, 0]);
    expect(findNodes(panel, ({ text }) => text === 'not measured')).toEqual([]);
    expect(corners(paths(panel)[0]!).map(([, y]) => y)).toEqual([0, 0, 0].map(() => heightOf(panel, '0.0')));
  });

  it('draws a difference of 0 at a tick of its own, below the powers of ten', () => {
    const panel = differencePanel([0, 2e-6, 0]);
    expect(texts(panel, 'y-tick')).toEqual(['0', '10⁻⁶', '10⁻⁵']);
    const [first, second, third] = corners(paths(panel)[0]!).map(([, y]) => y!);
    expect([first, third]).toEqual([heightOf(panel, '0'), heightOf(panel, '0')]);
    expect(second).toBeLessThan(heightOf(panel, '10⁻⁶'));
    expect(texts(differencePanel([1e-6, 2e-6]), 'y-tick')).not.toContain('0');
  });

  it.each([8, 12, 61, 201])('draws the columns of %d steps side by side, each as wide as its steps', (steps) => {
    const panel = findNodes(parseSvg(overviewPlot(trainingRows({ steps }), { name: 'n' })), withClass('panel')).at(-1)!;
    const xOf = (text: string) => Number(findNodes(panel, withClass('x-tick')).find((tick) => tick.text === text)!.attributes['x']);
    const [zero, last] = [xOf('0'), texts(panel, 'x-tick').at(-1)!];
    const step = (xOf(last) - zero) / Number(last);
    // Along the top of the lowest part: both ends of each column.
    const edges = corners(findNodes(panel, withClass('part'))[0]!).map(([x]) => (x! - zero) / step);
    const top = edges.slice(0, edges.length / 2);
    expect(top[0]).toBeCloseTo(0.5, 1);
    expect(top.at(-1)).toBeCloseTo(steps + 0.5, 0);
    const span = Math.ceil(steps / 60);
    const widths = Array.from({ length: top.length / 2 }, (_, i) => top[2 * i + 1]! - top[2 * i]!);
    widths.forEach((width, i) => expect(width).toBeCloseTo(Math.min(span, steps - i * span), 1));
    for (let i = 2; i < top.length; i += 2) expect(top[i]).toBeCloseTo(top[i - 1]!, 1);
  });

  it('shows a single step too', () => {
    const svg = parseSvg(overviewPlot(trainingRows({ steps: 1 }), { name: 'n' }));
    // Reward, held-out, entropy, two of KL, two log-prob differences, gradient norm, length.
    expect(findNodes(svg, ({ name }) => name === 'circle')).toHaveLength(9);
  });

  it('says what was not measured instead of drawing it', () => {
    const rows: MetricsRow[] = [1, 2].map((step) => ({ kind: 'step', step, values: { reward_mean: 0.5 } }));
    const svg = parseSvg(overviewPlot(rows, { name: 'n' }));
    expect(findNodes(svg, ({ text }) => text === 'not measured')).toHaveLength(7);
  });
});

describe('compareRuns', () => {
  it('draws each run in a colour of its own, the control dashed, the goal across', () => {
    const runs = [0, 1, 2].map((seed) => ({ label: `seed ${seed}`, rows: trainingRows({ seed }) }));
    const control = { label: 'negated', rows: trainingRows({ seed: 3, rises: false }), control: true };
    const svg = parseSvg(compareRuns([...runs, control], { heading: 'three seeds', goals: [{ value: 0.9, label: 'goal 0.90' }] }));
    const labels = findNodes(svg, withClass('end-label'));
    expect(labels.map(({ text }) => text).toSorted()).toEqual(['negated', 'seed 0', 'seed 1', 'seed 2']);
    expect(new Set(labels.map(({ attributes }) => attributes['fill'])).size).toBe(4);
    expect(paths(svg).filter(({ attributes }) => attributes['stroke-dasharray'] !== undefined)).toHaveLength(1);
    const goal = findNodes(svg, withClass('goal'))[0]!.children[0]!;
    const [zero, one] = [heightOf(svg, '0.0'), heightOf(svg, '1.0')];
    expect((zero - Number(goal.attributes['y1'])) / (zero - one)).toBeCloseTo(0.9, 3);
  });
});

describe('compareGroups', () => {
  it('draws the groups below each other, each with its own scale and title', () => {
    const runs = [0, 1].map((seed) => ({ label: `seed ${seed}`, rows: trainingRows({ seed }) }));
    const svg = parseSvg(
      compareGroups(
        [
          { title: 'one', runs, goals: [{ value: 5, label: 'goal' }] },
          { title: 'two', runs },
        ],
        { heading: 'both' },
      ),
    );
    expect(findNodes(svg, withClass('heading')).map(({ text }) => text)).toEqual(['both']);
    const titles = findNodes(svg, withClass('title'));
    expect(titles.map(({ text }) => text)).toEqual(['one', 'two']);
    const [upper, lower] = titles.map(({ attributes }) => Number(attributes['y']));
    expect(lower! - upper!).toBeGreaterThan(300);
    expect(findNodes(svg, withClass('end-label'))).toHaveLength(4);
    expect(findNodes(svg, ({ text }) => text === '5.0' || text === '5')).not.toEqual([]);
  });
});

describe('every plot', () => {
  it.each(shapes)('is XML without an invalid number: %s', (_, rows) => {
    for (const source of [
      rewardPlot(rows, { name: 'n\u0000' }),
      overviewPlot(rows, { name: 'n' }),
      compareRuns([{ label: 'a', rows }], { heading: 'n' }),
      compareGroups([{ title: 't', runs: [{ label: 'a', rows }] }], { heading: 'n' }),
    ]) {
      expect(parseSvg(source).name).toBe('svg');
      expect(source).not.toMatch(/NaN|Infinity|undefined|null/);
    }
  });

  it.each(shapes)('keeps everything inside its frame: %s', (_, rows) => {
    for (const source of [
      rewardPlot(rows, { name: 'n' }),
      overviewPlot(rows, { name: 'n' }),
      compareGroups([{ title: 't', runs: [{ label: 'a', rows }] }], { heading: 'n' }),
    ]) {
      const svg = parseSvg(source);
      const [width, height] = [Number(svg.attributes['width']), Number(svg.attributes['height'])];
      for (const [x, y] of paths(svg).flatMap(corners)) {
        expect(x! >= 0 && x! <= width && y! >= 0 && y! <= height).toBe(true);
      }
      for (const { attributes, text } of findNodes(svg, ({ name }) => name === 'text')) {
        const end = Number(attributes['x']) + (attributes['text-anchor'] === undefined ? text.length * 6.7 : 0);
        expect(end <= width + 1 && Number(attributes['y']) <= height).toBe(true);
      }
    }
  });
});
