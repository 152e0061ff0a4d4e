/** The scale of surprise, -log p in nats. Its steps are classes, because thousands of tokens share them. */
import type { VNode } from 'preact';

/** Lower ends of the steps: probability 0.95, 0.78, 0.61, 0.37, 0.14, 0.05, 0.007. */
const STEPS = [0.05, 0.25, 0.5, 1, 2, 3, 5];

/** `s0` for a token that the policy was sure of, up to `s7`; `s-none` if the sampler gave no log-prob. */
export function surpriseClass(logProb: number | null): string {
  if (logProb === null) return 's-none';
  const step = STEPS.findIndex((low) => -logProb < low);
  return `s${step < 0 ? STEPS.length : step}`;
}

export function SurpriseLegend(): VNode {
  return (
    <div
      class="legend"
      role="img"
      aria-label="Colours: from certain, probability 1, to surprising, probability below 0.007; grey: given, not sampled"
    >
      <span class="legend-step given">given</span>
      {['0', ...STEPS.map(String)].map((low, i) => (
        <span key={low} class={`legend-step s${i}`} title={`${low} nats or more: probability ${Math.exp(-Number(low)).toFixed(3)} or less`}>
          {low}
        </span>
      ))}
      <span class="quiet-text">{'\u2212'}log p, nats</span>
    </div>
  );
}
