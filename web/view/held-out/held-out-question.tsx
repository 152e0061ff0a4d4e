/** One held-out question in the evaluations that the reader chose: at first the first and the last. */
import type { VNode } from 'preact';
import type { HeldOutDetail } from '../../../src/viewing/view-wire.ts';
import { formatReward } from '../figures/numbers.ts';
import { LoadedView } from '../frame/states.tsx';
import type { Route } from '../route/route.ts';
import { go, patched } from '../route/use-route.ts';
import { SideBySide } from '../side/side-by-side.tsx';
import { useSource } from '../source/source-context.ts';
import { useLoaded } from '../source/use-loaded.ts';
import { Text } from '../text/text.tsx';

export interface HeldOutQuestionProps {
  readonly run: string;
  readonly group: string;
  readonly route: Route;
  /** Changes when the run has grown. */
  readonly live: string;
}

export function HeldOutQuestion({ run, group, route, live }: HeldOutQuestionProps): VNode {
  const source = useSource();
  const loaded = useLoaded(`held-out ${run} ${group} ${live}`, () => source.heldOut(run, group));
  return (
    <LoadedView loaded={loaded} what="the question">
      {(detail) => <Question detail={detail} run={run} route={route} isStale={detail.group !== group} />}
    </LoadedView>
  );
}

interface QuestionProps {
  readonly detail: HeldOutDetail;
  readonly run: string;
  readonly route: Route;
  readonly isStale: boolean;
}

function Question({ detail, run, route, isStale }: QuestionProps): VNode {
  const steps = detail.evaluations.map(({ step }) => step);
  const asked = route.params.all('at').map(Number);
  const ends = [steps[0], steps.at(-1)].filter((step) => step !== undefined);
  const shown = new Set(asked.some((step) => steps.includes(step)) ? asked : ends);
  const flip = (step: number) => {
    const next = steps.filter((one) => (one === step) !== shown.has(one));
    go(patched(route, { at: next.map(String) }), true);
  };
  return (
    <div class={isStale ? 'stale' : ''}>
      <h2 class="question">
        <Text text={detail.question} />
      </h2>
      {detail.answer !== null && detail.answer !== undefined && (
        <p class="quiet-text">
          Reference:{' '}
          <span class="reference">
            <Text text={typeof detail.answer === 'string' ? detail.answer : JSON.stringify(detail.answer)} />
          </span>
        </p>
      )}
      <div class="steps-shown" role="group" aria-label="Evaluations shown">
        <span class="quiet-text">after step</span>
        {detail.evaluations.map(({ step, rollouts }) => (
          <button
            type="button"
            key={step}
            class="sibling"
            aria-pressed={shown.has(step)}
            onClick={() => flip(step)}
            title={`Mean reward ${formatReward(meanOf(rollouts))}`}
          >
            {step}
          </button>
        ))}
      </div>
      <SideBySide
        columns={detail.evaluations
          .filter(({ step }) => shown.has(step))
          .map(({ step, set, rollouts }) => ({
            key: `${detail.group} ${step}`,
            title: step === 0 ? 'Before training' : `After step ${step}`,
            run,
            set,
            rollouts,
          }))}
      />
    </div>
  );
}

function meanOf(rollouts: readonly { readonly reward: number | null }[]): number | null {
  const known = rollouts.flatMap(({ reward }) => (reward === null ? [] : [reward]));
  return known.length === 0 ? null : known.reduce((sum, reward) => sum + reward, 0) / known.length;
}
