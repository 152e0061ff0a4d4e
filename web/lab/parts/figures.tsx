/** The results of a run in figures. */
import type { VNode } from 'preact';
import { formatCount, formatSeconds } from '../../view/figures/numbers.ts';
import { GOAL, type LabState, secondsToGoal } from '../run/lab-state.ts';

export function Figures({ state, seconds }: { readonly state: LabState; readonly seconds: number | null }): VNode {
  const { evaluations, steps, about } = state;
  const [first, last] = [evaluations[0], evaluations.at(-1)];
  const toGoal = secondsToGoal(state);
  const sum = (name: string) => steps.reduce((total, { values }) => total + (values[name] ?? 0), 0);
  const played = sum('rollouts');
  const sampled = sum('sampled_tokens');
  const sampling = sum('rollouts_seconds');
  const difference = steps.length === 0 ? null : Math.max(...steps.map(({ values }) => values['log_prob_difference_max'] ?? 0));
  return (
    <div class="figures">
      <div class="figure-main">
        <h2>Held-out accuracy</h2>
        <p class="figure-value" id="held-out" data-value={last?.values['reward_mean'] ?? ''}>
          {share(last?.values['reward_mean'])}
        </p>
        <p class="quiet-text">
          {first === undefined
            ? 'Questions that training never asks.'
            : last === first
              ? `${about?.heldOut ?? ''} questions before the first step`
              : `from ${share(first.values['reward_mean'])} before training`}
        </p>
      </div>
      <dl class="facts">
        <Fact name={`Reached ${GOAL.toFixed(2)}`} value={toGoal === null ? '\u2013' : `after ${formatSeconds(toGoal)}`} id="goal" data={toGoal} />
        <Fact name="Time" value={seconds === null ? '\u2013' : formatSeconds(seconds)} />
        <Fact name="Rollouts" value={played === 0 ? '\u2013' : formatCount(played)} />
        <Fact name="Sampled" value={sampling === 0 ? '\u2013' : `${formatCount(sampled / sampling)} tokens/s`} />
        <Fact name="Sampler − trainer" value={difference === null ? '\u2013' : difference === 0 ? 'exactly 0' : difference.toExponential(1)} />
      </dl>
    </div>
  );
}

function Fact(props: { readonly name: string; readonly value: string; readonly id?: string; readonly data?: number | null }): VNode {
  return (
    <div>
      <dt>{props.name}</dt>
      <dd {...(props.id === undefined ? {} : { id: props.id, 'data-value': props.data ?? '' })}>{props.value}</dd>
    </div>
  );
}

function share(value: number | null | undefined): string {
  return value === null || value === undefined ? '\u2013' : value.toFixed(2);
}
