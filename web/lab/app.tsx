/** The frame of the lab: its introduction, the run, and the results. */
import type { VNode } from 'preact';
import { useEffect, useMemo, useState } from 'preact/hooks';
import { Header } from '../view/frame/header.tsx';
import { KeyHelp } from '../view/frame/key-help.tsx';
import { useTheme } from '../view/frame/theme.ts';
import { KeyContext, KeyMap, useKeys } from '../view/keys/keys.tsx';
import { Controls, Progress, type Settings } from './parts/controls.tsx';
import { Curves } from './parts/curves.tsx';
import { Figures } from './parts/figures.tsx';
import { Transcripts } from './parts/transcripts.tsx';
import { UseIt } from './parts/use-it.tsx';
import { isBusy, type LabState } from './run/lab-state.ts';
import { useLab } from './run/use-lab.ts';

const CRUMBS = [{ text: 'vf-search lab', href: null }];
const STEPS = 15;
/** A model this small gains little from more. */
const MOST_THREADS = 8;
const DEFAULT_THREADS = 2;

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
  const [theme, switchTheme] = useTheme();
  const [showsKeys, setShowsKeys] = useState(false);
  const cores = crossOriginIsolated ? Math.min(MOST_THREADS, Math.max(1, navigator.hardwareConcurrency)) : 1;
  const [settings, change] = useState<Settings>({ seed: 0, threads: Math.min(DEFAULT_THREADS, cores) });
  const { state, start, stop, save } = useLab();
  const seconds = useSeconds(state);
  const press = () => (isBusy(state) ? stop() : start(settings));
  useKeys([
    { keys: ['s'], does: 'Start, or stop after the step that runs', run: press },
    { keys: ['?'], does: 'Show the keys', run: () => setShowsKeys(true) },
    { keys: ['d'], does: 'Switch light and dark', run: switchTheme },
  ]);
  useEffect(() => {
    const last = state.evaluations.at(-1)?.values['reward_mean'];
    document.title = last === undefined || last === null ? 'vf-search lab' : `${last.toFixed(2)} \u00b7 vf-search lab`;
  }, [state.evaluations]);
  return (
    <>
      <Header crumbs={CRUMBS} theme={theme} switchTheme={switchTheme} showKeys={() => setShowsKeys(true)} />
      <main id="main" tabIndex={-1}>
        <div class="screen lab">
          <section class="intro">
            <h1>Train a search agent in this tab</h1>
            <p>
              A model with a million parameters answers questions about an invented world. At first it guesses. Rewarded for right answers alone, it
              learns to search and to read what it finds: GRPO with LoRA, with the engine, the environment and the loss of <code>vf-train</code>. It
              all runs on this machine, and the page asks no other.
            </p>
          </section>
          <section class="desk" aria-label="The run">
            <Controls {...{ state, settings, change, cores, stop, save }} start={() => start(settings)} />
            <Progress state={state} />
            {!crossOriginIsolated && (
              <p class="notice">
                This page may not share memory between threads, so it computes with one. It may where its server sends the headers{' '}
                <code>Cross-Origin-Opener-Policy: same-origin</code> and <code>Cross-Origin-Embedder-Policy: require-corp</code>.
              </p>
            )}
            {state.notes.length > 0 && <p class="notice">{state.notes.at(-1)}</p>}
          </section>
          <section class="results" aria-label="Results">
            <figure class="panel">
              <figcaption>
                <span class="legend legend-held-out">Held-out accuracy, with its 95 % interval</span>
                <span class="legend legend-batch">Reward of the training batch</span>
              </figcaption>
              <Curves state={state} steps={state.about?.steps ?? STEPS} />
              <p class="axis-name">training step</p>
            </figure>
            <Figures state={state} seconds={seconds} />
          </section>
          <Transcripts evaluations={state.evaluations} />
          <UseIt state={state} seed={settings.seed} />
        </div>
      </main>
      {showsKeys && <KeyHelp close={() => setShowsKeys(false)} />}
    </>
  );
}

/** Seconds of the run so far, or of the whole run; null before. */
function useSeconds(state: LabState): number | null {
  const { startedAtMs, endedAtMs } = state;
  const [now, setNow] = useState(0);
  const runs = startedAtMs !== null && endedAtMs === null;
  useEffect(() => {
    if (!runs) return undefined;
    setNow(performance.now());
    const timer = setInterval(() => setNow(performance.now()), 200);
    return () => clearInterval(timer);
  }, [runs]);
  return startedAtMs === null ? null : Math.max(0, (endedAtMs ?? now) - startedAtMs) / 1000;
}
