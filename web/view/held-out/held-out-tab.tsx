/** Held-out questions over the evaluations of a training run: a list, and the transcripts of one question side by side. */
import type { VNode } from 'preact';
import { useState } from 'preact/hooks';
import type { HeldOutLine, TrainingDetail } from '../../../src/viewing/view-wire.ts';
import { EmptyState } from '../frame/states.tsx';
import { formatCount, formatReward } from '../figures/numbers.ts';
import type { Route } from '../route/route.ts';
import { go, patched } from '../route/use-route.ts';
import { SplitList } from '../side/split-list.tsx';
import { Text } from '../text/text.tsx';
import { HeldOutQuestion } from './held-out-question.tsx';

type Change = 'all' | 'learned' | 'lost' | 'same';

export function HeldOutTab({ detail, route }: { readonly detail: TrainingDetail; readonly route: Route }): VNode {
  const [text, setText] = useState('');
  const [change, setChange] = useState<Change>('all');
  if (detail.held_out.length === 0)
    return (
      <EmptyState title="No evaluations yet">
        <p>
          A run with <code>[evaluation] every</code> above 0 evaluates before the first step, every so many steps, and at the end.
        </p>
      </EmptyState>
    );
  const found = detail.held_out.filter(
    (line) => (change === 'all' || changeOf(line) === change) && `${line.question} ${line.group}`.toLowerCase().includes(text.toLowerCase()),
  );
  const group = route.params.text('group') ?? found[0]?.group;
  const counts = Object.groupBy(detail.held_out, changeOf);
  const choices: readonly (readonly [Change, string])[] = [
    ['all', `All ${formatCount(detail.held_out.length)}`],
    ['learned', `Better ${formatCount(counts.learned?.length ?? 0)}`],
    ['lost', `Worse ${formatCount(counts.lost?.length ?? 0)}`],
    ['same', `Same ${formatCount(counts.same?.length ?? 0)}`],
  ];
  return (
    <SplitList
      label="Held-out questions"
      row="question"
      items={found}
      keyOf={(line) => line.group}
      chosen={group}
      choose={(line) => go(patched(route, { group: line.group }), true)}
      head={
        <>
          <div class="switch" role="group" aria-label="Change between the first and the last evaluation">
            {choices.map(([id, title]) => (
              <button type="button" key={id} aria-pressed={change === id} onClick={() => setChange(id)}>
                {title}
              </button>
            ))}
          </div>
          <input
            type="search"
            class="input"
            placeholder="Filter"
            aria-label="Filter the questions"
            value={text}
            onInput={(event) => setText(event.currentTarget.value)}
          />
        </>
      }
      draw={(line) => (
        <>
          <span class="split-title">
            <Text text={line.question === '' ? line.group : line.question} />
          </span>
          <Cells line={line} />
        </>
      )}
    >
      {group !== undefined && <HeldOutQuestion run={detail.run.id} group={group} route={route} live={detail.run.updated_at ?? ''} />}
    </SplitList>
  );
}

function changeOf({ rewards }: HeldOutLine): 'learned' | 'lost' | 'same' {
  const known = rewards.flatMap(({ reward }) => (reward === null ? [] : [reward]));
  const change = (known.at(-1) ?? 0) - (known[0] ?? 0);
  return change > 0 ? 'learned' : change < 0 ? 'lost' : 'same';
}

/** A cell for each evaluation, darker with the reward; the last one as a number. */
function Cells({ line }: { readonly line: HeldOutLine }): VNode {
  return (
    <span class="cells" role="img" aria-label={line.rewards.map(({ step, reward }) => `step ${step}: ${formatReward(reward)}`).join(', ')}>
      {line.rewards.slice(-24).map(({ step, reward }) => (
        <span key={step} class={reward === null ? 'cell-step unknown' : 'cell-step'} title={`step ${step}: ${formatReward(reward)}`}>
          <span style={{ opacity: String(Math.min(1, Math.max(0, reward ?? 0))) }} />
        </span>
      ))}
    </span>
  );
}
