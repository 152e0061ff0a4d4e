/** The frame around every screen; chooses the screen for the address. */
import type { VNode } from 'preact';
import { useEffect, useMemo, useState } from 'preact/hooks';
import { CompareScreen } from './compare/compare-screen.tsx';
import { Header } from './frame/header.tsx';
import { KeyHelp } from './frame/key-help.tsx';
import { ScreenGuard } from './frame/states.tsx';
import { useTheme } from './frame/theme.ts';
import { KeyContext, KeyMap, useKeys } from './keys/keys.tsx';
import { formatRoute, type Route } from './route/route.ts';
import { go, useRoute } from './route/use-route.ts';
import { RolloutScreen } from './rollout/rollout-screen.tsx';
import { RunScreen } from './run/run-screen.tsx';
import { RunsScreen } from './runs/runs-screen.tsx';
import { crumbsOf, titleOf, upFrom } from './frame/places.ts';
import { useSource } from './source/source-context.ts';
import { useLoaded } from './source/use-loaded.ts';
import { plainText } from './text/marked-text.ts';

export function App(): VNode {
  const keys = useMemo(() => new KeyMap(), []);
  useEffect(() => {
    const listen = (event: KeyboardEvent) => keys.handle(event);
    addEventListener('keydown', listen);
    return () => removeEventListener('keydown', listen);
  }, [keys]);
  return (
    <KeyContext.Provider value={keys}>
      <Frame />
    </KeyContext.Provider>
  );
}

function Frame(): VNode {
  const route = useRoute();
  const [theme, switchTheme] = useTheme();
  const [showsKeys, setShowsKeys] = useState(false);
  const source = useSource();
  const run = route.screen === 'runs' || route.screen === 'compare' ? undefined : route.params.text('run');
  const list = useLoaded(run === undefined ? null : 'runs', () => source.runs());
  const crumbs = crumbsOf(route, list.value?.runs.find(({ id }) => id === run) ?? null);
  useEffect(() => {
    document.title = plainText(titleOf(crumbs));
  });
  useKeys([
    { keys: ['?'], does: 'Show the keys', run: () => setShowsKeys(true) },
    { keys: ['Escape'], does: 'Leave the input, or go up', run: () => leave(route), inInputs: true },
    { keys: ['g'], does: 'Go to the list of runs', run: () => go(formatRoute('runs')) },
    { keys: ['d'], does: 'Switch light and dark', run: switchTheme },
  ]);
  return (
    <>
      <Header crumbs={crumbs} theme={theme} switchTheme={switchTheme} showKeys={() => setShowsKeys(true)} />
      <main id="main" tabIndex={-1}>
        <ScreenGuard place={location.hash}>
          <CurrentScreen route={route} />
        </ScreenGuard>
      </main>
      {showsKeys && <KeyHelp close={() => setShowsKeys(false)} />}
    </>
  );
}

function CurrentScreen({ route }: { readonly route: Route }): VNode {
  if (route.screen === 'runs') return <RunsScreen route={route} />;
  if (route.screen === 'rollout') return <RolloutScreen route={route} />;
  if (route.screen === 'compare') return <CompareScreen route={route} />;
  return <RunScreen route={route} />;
}

function leave(route: Route): void {
  const focused = document.activeElement;
  if (focused instanceof HTMLElement && focused.matches('input, select, textarea')) focused.blur();
  else go(upFrom(route));
}
