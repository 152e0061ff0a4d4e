/** The curves of a run: reward of each training batch, and held-out accuracy with its interval. */
import type { VNode } from 'preact';
import { useEffect, useRef } from 'preact/hooks';
import uPlot from 'uplot';
import { GOAL, type LabState } from '../run/lab-state.ts';

const HEIGHT = 290;

export function Curves({ state, steps }: { readonly state: LabState; readonly steps: number }): VNode {
  const place = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const latest = useRef(state);
  latest.current = state;
  useEffect(() => {
    const element = place.current;
    if (element === null) return undefined;
    const draw = () => {
      plot.current?.destroy();
      plot.current = new uPlot(optionsOf(element, steps), dataOf(latest.current), element);
    };
    draw();
    const sized = new ResizeObserver(() => plot.current?.setSize({ width: element.clientWidth, height: HEIGHT }));
    sized.observe(element);
    const media = matchMedia('(prefers-color-scheme: dark)');
    media.addEventListener('change', draw);
    addEventListener('themechange', draw);
    return () => {
      sized.disconnect();
      media.removeEventListener('change', draw);
      removeEventListener('themechange', draw);
      plot.current?.destroy();
      plot.current = null;
    };
  }, [steps]);
  useEffect(() => plot.current?.setData(dataOf(state)), [state.steps, state.evaluations]);
  return <div class="curves" ref={place} role="img" aria-label={spoken(state)} />;
}

/** Steps; reward of the batch; held-out low, high and mean. */
function dataOf({ steps, evaluations }: LabState): uPlot.AlignedData {
  const rewards = new Map(steps.map(({ step, values }) => [step, values['reward_mean'] ?? null]));
  const heldOut = new Map(evaluations.map(({ step, values }) => [step, values]));
  const all = [...new Set([...rewards.keys(), ...heldOut.keys()])].toSorted((a, b) => a - b);
  const of = (name: string) => all.map((step) => (heldOut.has(step) ? (heldOut.get(step)![name] ?? null) : undefined));
  return [all, all.map((step) => rewards.get(step)), of('reward_low'), of('reward_high'), of('reward_mean')] as uPlot.AlignedData;
}

function optionsOf(element: HTMLElement, steps: number): uPlot.Options {
  const style = getComputedStyle(element);
  // The computed colour of a property that holds light-dark() is known only if the property is a colour.
  const colour = (name: string) => {
    const probe = element.ownerDocument.createElement('span');
    probe.style.color = `var(${name})`;
    element.append(probe);
    const found = getComputedStyle(probe).color;
    probe.remove();
    return found;
  };
  const [ink, line, accent, warm] = [colour('--ink-3'), colour('--line'), colour('--accent'), colour('--warm')];
  const font = `12px ${style.fontFamily}`;
  const axis = { stroke: ink, font, grid: { stroke: line, width: 1 }, ticks: { show: false } };
  const quiet = { stroke: 'transparent', points: { show: false }, spanGaps: true };
  return {
    width: element.clientWidth,
    height: HEIGHT,
    padding: [10, 14, 0, 0],
    cursor: { y: false, drag: { x: false, y: false }, points: { size: 7 } },
    legend: { show: false },
    scales: { x: { time: false, range: () => [0, steps] }, y: { range: () => [0, 1] } },
    axes: [
      { ...axis, size: 30, gap: 6, incrs: [1, 2, 3, 5, 10, 20, 50, 100] },
      { ...axis, size: 36, gap: 4, values: (_, ticks) => ticks.map((tick) => tick.toFixed(1)) },
    ],
    series: [
      {},
      { stroke: warm, width: 1.5, dash: [4, 3], points: { show: false }, spanGaps: true },
      quiet,
      quiet,
      { stroke: accent, width: 2.5, points: { show: true, size: 7, fill: accent, stroke: accent }, spanGaps: true },
    ],
    bands: [{ series: [3, 2], fill: withAlpha(accent, 0.14) }],
    hooks: { drawClear: [(plot) => drawGoal(plot, { colour: ink, font: `${12 * devicePixelRatio}px ${style.fontFamily}` })] },
  };
}

/** `rgb(r, g, b)` and the newer forms of computed colours take an alpha the same way. */
function withAlpha(colour: string, alpha: number): string {
  return `color-mix(in srgb, ${colour} ${alpha * 100}%, transparent)`;
}

function drawGoal(plot: uPlot, { colour, font }: { readonly colour: string; readonly font: string }): void {
  const { ctx, bbox } = plot;
  const y = Math.round(plot.valToPos(GOAL, 'y', true));
  ctx.save();
  ctx.strokeStyle = colour;
  ctx.setLineDash([2, 4]);
  ctx.beginPath();
  ctx.moveTo(bbox.left, y);
  ctx.lineTo(bbox.left + bbox.width, y);
  ctx.stroke();
  ctx.fillStyle = colour;
  ctx.font = font;
  ctx.textAlign = 'left';
  ctx.fillText(`goal ${GOAL.toFixed(2)}`, bbox.left + 6 * devicePixelRatio, y - 5 * devicePixelRatio);
  ctx.restore();
}

function spoken({ evaluations }: LabState): string {
  if (evaluations.length === 0) return 'Reward by training step: nothing yet';
  return `Held-out accuracy by training step: ${evaluations.map(({ step, values }) => `${(values['reward_mean'] ?? 0).toFixed(2)} at ${step}`).join(', ')}`;
}
