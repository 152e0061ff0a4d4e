/** One group of a step: its question, and per rollout the reward as a dot above, the advantage as a bar below, one for each turn where turns have different ones. */
import type { VNode } from 'preact';
import type { StepGroup } from '../../../src/viewing/view-wire.ts';
import { formatDifference, formatReward } from '../figures/numbers.ts';
import type { Route } from '../route/route.ts';
import { formatRoute } from '../route/route.ts';
import { Text } from '../text/text.tsx';

export interface GroupRowProps {
  readonly group: StepGroup;
  /** Ends of the scale of rewards. */
  readonly range: readonly [number, number];
  /** The largest advantage of the step, without its sign. */
  readonly reach: number;
  readonly route: Route;
}

export function GroupRow({ group, range, reach, route }: GroupRowProps): VNode {
  const run = route.params.text('run');
  const rewards = group.rollouts.flatMap(({ reward }) => (reward === null ? [] : [reward]));
  const mean = rewards.length === 0 ? null : rewards.reduce((sum, reward) => sum + reward, 0) / rewards.length;
  const isConstant = rewards.every((reward) => reward === rewards[0]);
  const phase = group.set.split('/')[2];
  return (
    <li class={isConstant ? 'group constant' : 'group'}>
      <div class="group-name">
        <a href={formatRoute('rollouts', { run, set: group.set, group: group.group })}>
          <Text text={group.question === '' ? group.group : group.question} />
        </a>
        <small>
          {group.question !== group.group && <Text text={group.group} />}
          {phase !== undefined && (
            <>
              , phase <Text text={phase} />
            </>
          )}
          {isConstant && ' equal rewards'}
        </small>
      </div>
      <div class="group-mean number">{formatReward(mean)}</div>
      <div class="group-axes quiet-text" aria-hidden="true">
        <span>reward</span>
        <span>advantage</span>
      </div>
      <div class="group-rollouts">
        {group.rollouts.map((rollout) => (
          <a
            key={rollout.index}
            class="group-rollout"
            href={formatRoute('rollout', { run, set: group.set, group: group.group, index: rollout.index })}
            title={`Rollout ${rollout.index}: ${rollout.reward === null ? 'failed' : `reward ${formatReward(rollout.reward)}`}${creditText(rollout)}`}
          >
            <span class="group-reward">
              {rollout.reward === null ? (
                <span class="group-failed">{'\u00d7'}</span>
              ) : (
                <span class="group-dot" style={{ bottom: `${share(rollout.reward, range) * 100}%` }} />
              )}
            </span>
            <span class="group-advantages">
              {(rollout.turn_advantages ?? [rollout.advantage]).map((advantage, turn) => (
                <span class="group-advantage" key={turn}>
                  <Bar advantage={advantage} reach={reach} />
                </span>
              ))}
            </span>
          </a>
        ))}
      </div>
    </li>
  );
}

function creditText({ advantage, turn_advantages: turns }: StepGroup['rollouts'][number]): string {
  if (turns !== null) return `, advantages by turn ${turns.map((each) => (each === null ? 'none' : formatDifference(each))).join(', ')}`;
  return advantage === null ? '' : `, advantage ${formatDifference(advantage)}`;
}

function Bar({ advantage, reach }: { readonly advantage: number | null; readonly reach: number }): VNode | null {
  if (advantage === null || advantage === 0) return null;
  const size = `${(Math.abs(advantage) / reach) * 50}%`;
  return <span class={advantage > 0 ? 'up' : 'down'} style={advantage > 0 ? { bottom: '50%', height: size } : { top: '50%', height: size }} />;
}

function share(value: number, [low, high]: readonly [number, number]): number {
  return (value - low) / (high - low);
}
