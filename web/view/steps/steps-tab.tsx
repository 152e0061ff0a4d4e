/** The groups of a training step: rewards, and the advantages with which the step trained. */
import type { VNode } from 'preact';
import type { StepDetail, TrainingDetail } from '../../../src/viewing/view-wire.ts';
import { EmptyState, LoadedView } from '../frame/states.tsx';
import { formatCount, formatReward } from '../figures/numbers.ts';
import { useKeys } from '../keys/keys.tsx';
import type { Route } from '../route/route.ts';
import { go, patched } from '../route/use-route.ts';
import { useSource } from '../source/source-context.ts';
import { useLoaded } from '../source/use-loaded.ts';
import { Text } from '../text/text.tsx';
import { GroupRow } from './group-row.tsx';

const EVERY_MS = 4000;

export function StepsTab({ detail, route }: { readonly detail: TrainingDetail; readonly route: Route }): VNode {
  const source = useSource();
  const run = detail.run.id;
  const known = [...new Set(detail.sets.flatMap(({ kind, step }) => (kind === 'step' && step !== null ? [step] : [])))].toSorted((a, b) => a - b);
  const step = route.params.number('step') ?? known.at(-1);
  const isGrowing = source.live && detail.run.state !== 'complete';
  const loaded = useLoaded(step === undefined ? null : `step ${step} ${run}`, () => source.step(run, step!), { everyMs: isGrowing ? EVERY_MS : 0 });
  if (step === undefined)
    return (
      <EmptyState title="No rollouts of steps on file">
        <p>
          A run keeps those since its oldest checkpoint. <code>--set checkpoint.keep_rollouts=true</code> keeps all.
        </p>
      </EmptyState>
    );
  return (
    <LoadedView loaded={loaded} what="the step">
      {(value) => <Step value={value} step={step} route={route} isStale={!loaded.isCurrent} />}
    </LoadedView>
  );
}

interface StepProps {
  readonly value: StepDetail;
  readonly step: number;
  readonly route: Route;
  readonly isStale: boolean;
}

function Step({ value, step, route, isStale }: StepProps): VNode {
  const { steps } = value;
  const at = Math.max(
    0,
    steps.findIndex((one) => one >= step),
  );
  const move = (index: number) => {
    const next = steps[Math.min(steps.length - 1, Math.max(0, index))];
    if (next !== undefined && next !== step) go(patched(route, { step: next }), true);
  };
  useKeys([
    { keys: ['ArrowRight', 'l'], does: 'Next step', run: () => move(at + 1) },
    { keys: ['ArrowLeft', 'h'], does: 'Previous step', run: () => move(at - 1) },
  ]);
  return (
    <div class={isStale ? 'stale' : ''}>
      <div class="step-bar">
        <button type="button" class="button" aria-label="Previous step" disabled={at <= 0} onClick={() => move(at - 1)}>
          {'\u2190'}
        </button>
        <input
          type="range"
          min={0}
          max={Math.max(0, steps.length - 1)}
          value={at}
          aria-label="Step"
          aria-valuetext={`Step ${step}`}
          onInput={(event) => move(Number(event.currentTarget.value))}
        />
        <button type="button" class="button" aria-label="Next step" disabled={at >= steps.length - 1} onClick={() => move(at + 1)}>
          {'\u2192'}
        </button>
        <strong class="step-number">step {formatCount(step)}</strong>
        <StepFigures value={value} />
      </div>
      {value.advantages_problem !== null && (
        <p class="notice">
          <Text text={value.advantages_problem} />
        </p>
      )}
      {value.groups.length === 0 ? (
        <EmptyState title="No rollouts of this step">
          <p>They were deleted with their checkpoint, or the step has only begun.</p>
        </EmptyState>
      ) : (
        <ol class="groups">
          {sorted(value).map((group) => (
            <GroupRow key={`${group.set} ${group.group}`} group={group} range={rangeOf(value)} reach={reachOf(value)} route={route} />
          ))}
        </ol>
      )}
    </div>
  );
}

function StepFigures({ value }: { readonly value: StepDetail }): VNode {
  const rewards = value.groups.flatMap(({ rollouts }) => rollouts.flatMap(({ reward }) => (reward === null ? [] : [reward])));
  const failed = value.groups.reduce((sum, { rollouts }) => sum + rollouts.filter(({ reward }) => reward === null).length, 0);
  const constant = value.groups.filter((group) => spreadOf(group) === 0).length;
  const mean = rewards.length === 0 ? null : rewards.reduce((sum, reward) => sum + reward, 0) / rewards.length;
  return (
    <span class="quiet-text">
      mean reward {formatReward(mean)}, {formatCount(value.groups.length)} groups, {formatCount(constant)} of equal rewards
      {failed > 0 && `, ${formatCount(failed)} failed`}
      {!value.complete && ', not complete'}
    </span>
  );
}

type Group = StepDetail['groups'][number];

function spreadOf({ rollouts }: Group): number {
  const rewards = rollouts.flatMap(({ reward }) => (reward === null ? [] : [reward]));
  return rewards.length === 0 ? 0 : Math.max(...rewards) - Math.min(...rewards);
}

/** Groups of equal rewards teach nothing and come last; the others stay in their order. */
function sorted({ groups }: StepDetail): Group[] {
  return groups.toSorted((a, b) => Number(spreadOf(a) === 0) - Number(spreadOf(b) === 0));
}

/** One scale for all groups: from 0 to 1, or further if rewards are outside. */
function rangeOf({ groups }: StepDetail): readonly [number, number] {
  const rewards = groups.flatMap(({ rollouts }) => rollouts.map(({ reward }) => reward ?? 0));
  return [Math.min(0, ...rewards), Math.max(1, ...rewards)];
}

function reachOf({ groups }: StepDetail): number {
  return Math.max(
    1e-9,
    ...groups.flatMap(({ rollouts }) =>
      rollouts.flatMap(({ advantage, turn_advantages: turns }) => (turns ?? [advantage]).map((each) => Math.abs(each ?? 0))),
    ),
  );
}
