/** One run: its head, its tabs, and the tab that the address names. */
import type { VNode } from 'preact';
import type { RunDetail } from '../../../src/viewing/view-wire.ts';
import { CurvesTab } from '../curves/curves-tab.tsx';
import { EmptyState, LoadedView, ProblemLines } from '../frame/states.tsx';
import { HeldOutTab } from '../held-out/held-out-tab.tsx';
import type { Route, Screen } from '../route/route.ts';
import { formatRoute } from '../route/route.ts';
import { RolloutsTab } from '../rollouts/rollouts-tab.tsx';
import { modelName } from '../runs/model-name.ts';
import { RunState } from '../runs/run-state.tsx';
import { StepsTab } from '../steps/steps-tab.tsx';
import { useSource } from '../source/source-context.ts';
import { useLoaded } from '../source/use-loaded.ts';
import { Label } from '../text/label.tsx';
import { EventsTab } from './events-tab.tsx';
import { SettingsTab } from './settings-tab.tsx';
import { SummaryTab } from './summary-tab.tsx';
import { Tabs, type Tab } from './tabs.tsx';

const EVERY_MS = 4000;

export function RunScreen({ route }: { readonly route: Route }): VNode {
  const source = useSource();
  const run = route.params.text('run');
  const before = useLoaded(run === undefined ? null : `run ${run}`, () => source.run(run!));
  const isGrowing = source.live && before.value !== null && before.value.run.state !== 'complete';
  const loaded = useLoaded(isGrowing ? `run ${run}` : null, () => source.run(run!), { everyMs: EVERY_MS });
  if (run === undefined)
    return (
      <EmptyState title="No run in this address">
        <p>
          Choose one in <a href={formatRoute('runs')}>the list of runs</a>.
        </p>
      </EmptyState>
    );
  return (
    <LoadedView loaded={loaded.isCurrent && loaded.value !== null ? loaded : before} what="the run">
      {(detail) => <Run detail={detail} route={route} />}
    </LoadedView>
  );
}

function Run({ detail, route }: { readonly detail: RunDetail; readonly route: Route }): VNode {
  const { run } = detail;
  const tabs = tabsOf(detail);
  const screen = tabs.some((tab) => tab.screen === route.screen) ? route.screen : tabs[0]!.screen;
  return (
    <div class={`screen run ${screen === 'rollouts' ? 'fills' : ''}`}>
      <div class="run-head">
        <h1>
          <Label text={run.name ?? run.environment} />
        </h1>
        <span class="run-model">
          <Label text={run.name === null ? modelName(run.model) : `${run.environment}, ${modelName(run.model)}`} />
        </span>
        {run.differs !== '' && (
          <span class="run-model">
            <Label text={run.differs} />
          </span>
        )}
        <RunState run={run} />
      </div>
      <ProblemLines problems={run.problems} />
      <Tabs tabs={tabs} current={screen} run={run.id} />
      <div role="tabpanel" aria-labelledby={`tab-${screen}`} class="run-panel">
        <Panel screen={screen} detail={detail} route={route} />
      </div>
    </div>
  );
}

interface PanelProps {
  readonly screen: Screen;
  readonly detail: RunDetail;
  readonly route: Route;
}

function Panel({ screen, detail, route }: PanelProps): VNode {
  if (screen === 'rollouts') return <RolloutsTab detail={detail} route={route} />;
  if (detail.kind === 'evaluation') return <SummaryTab detail={detail} />;
  if (screen === 'curves') return <CurvesTab detail={detail} route={route} />;
  if (screen === 'steps') return <StepsTab detail={detail} route={route} />;
  if (screen === 'held-out') return <HeldOutTab detail={detail} route={route} />;
  if (screen === 'events') return <EventsTab detail={detail} />;
  return <SettingsTab detail={detail} />;
}

function tabsOf(detail: RunDetail): Tab[] {
  const rollouts: Tab = { screen: 'rollouts', title: 'Rollouts' };
  if (detail.kind === 'evaluation') return [{ screen: 'run', title: 'Summary' }, rollouts];
  return [
    { screen: 'curves', title: 'Curves' },
    { screen: 'steps', title: 'Steps' },
    { screen: 'held-out', title: 'Held out' },
    rollouts,
    { screen: 'events', title: 'Events' },
    { screen: 'settings', title: 'Settings' },
  ];
}
