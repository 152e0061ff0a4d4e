/** Transcripts next to each other, one column each; on a narrow screen one below the other. */
import type { ComponentChildren, VNode } from 'preact';
import { useState } from 'preact/hooks';
import type { Part, RolloutLine } from '../../../src/viewing/view-wire.ts';
import { formatReward } from '../figures/numbers.ts';
import { LoadedView } from '../frame/states.tsx';
import { formatRoute } from '../route/route.ts';
import { Turns } from '../rollout/turns.tsx';
import { useSource } from '../source/source-context.ts';
import { useLoaded } from '../source/use-loaded.ts';
import { plainText } from '../text/marked-text.ts';
import { Text } from '../text/text.tsx';

export interface SideColumn {
  readonly key: string;
  readonly title: ComponentChildren;
  readonly run: string;
  readonly set: string;
  /** The rollouts, with their parts if they are already loaded; the others are loaded. */
  readonly rollouts: readonly (RolloutLine & { readonly parts?: readonly Part[] })[];
}

export function SideBySide({ columns }: { readonly columns: readonly SideColumn[] }): VNode {
  return (
    <div class="sides">
      {columns.map((column) => (
        <Side key={column.key} column={column} />
      ))}
    </div>
  );
}

function Side({ column }: { readonly column: SideColumn }): VNode {
  const { rollouts, run, set } = column;
  const [chosen, setChosen] = useState(0);
  const rollout = rollouts[Math.min(chosen, rollouts.length - 1)];
  return (
    <section class="side">
      <header class="side-head">
        <h3>{column.title}</h3>
        <div class="side-rollouts" role="group" aria-label="Rollouts">
          {rollouts.map((one, i) => (
            <button
              type="button"
              key={one.index}
              class="sibling"
              aria-pressed={one === rollout}
              aria-label={`Rollout ${one.index}, ${one.reward === null ? 'failed' : `reward ${formatReward(one.reward)}`}`}
              onClick={() => setChosen(i)}
            >
              {rollouts.length > 1 && <span class="sibling-index">{one.index}</span>}
              {one.reward === null ? 'failed' : formatReward(one.reward)}
            </button>
          ))}
        </div>
        {rollout !== undefined && (
          <a
            class="side-open"
            href={formatRoute('rollout', { run, set, group: rollout.group, index: rollout.index })}
            title={`Open ${plainText(rollout.rollout_id)}`}
          >
            Open
          </a>
        )}
      </header>
      {rollout === undefined ? (
        <p class="quiet-text">No rollout of this row here.</p>
      ) : rollout.parts === undefined ? (
        <LoadedParts run={run} set={set} rollout={rollout} />
      ) : (
        <Turns key={rollout.rollout_id} parts={rollout.parts} run={run} />
      )}
      {rollout !== undefined && (
        <p class="quiet-text">
          <Text text={rollout.error ?? rollout.stop} />
        </p>
      )}
    </section>
  );
}

function LoadedParts({ run, set, rollout }: { readonly run: string; readonly set: string; readonly rollout: RolloutLine }): VNode {
  const source = useSource();
  const place = { run, set, group: rollout.group, index: rollout.index };
  const loaded = useLoaded(`rollout ${JSON.stringify(place)}`, () => source.rollout(place));
  return (
    <LoadedView loaded={loaded} what="the rollout">
      {(detail) => <Turns key={rollout.rollout_id} parts={detail.parts} run={run} />}
    </LoadedView>
  );
}
