/** The buttons of a run, its settings, and its current activity. */
import type { VNode } from 'preact';
import { isBusy, type LabState } from '../run/lab-state.ts';

export interface Settings {
  readonly seed: number;
  readonly threads: number;
}

export interface ControlsProps {
  readonly state: LabState;
  readonly settings: Settings;
  readonly change: (settings: Settings) => void;
  /** The greatest number of threads that this page may have. */
  readonly cores: number;
  readonly start: () => void;
  readonly stop: () => void;
  readonly save: () => void;
}

export function Controls({ state, settings, change, cores, start, stop, save }: ControlsProps): VNode {
  const { status, steps } = state;
  const busy = isBusy(state);
  const canSave = (status === 'finished' || status === 'stopped') && steps.length > 0;
  return (
    <div class="controls">
      {busy ? (
        <button type="button" class="button loud" id="stop" disabled={status === 'stopping'} onClick={stop}>
          {status === 'stopping' ? 'Stopping' : 'Stop'}
        </button>
      ) : (
        <button type="button" class="button primary" id="start" onClick={start}>
          {status === 'idle' ? 'Start training' : 'Train again'}
        </button>
      )}
      {canSave && (
        <button
          type="button"
          class="button"
          id="save"
          onClick={save}
          title="adapter_config.json and adapter_model.safetensors, as PEFT and vLLM read them"
        >
          Download the adapter
        </button>
      )}
      <label class="setting">
        Seed
        <input
          class="input"
          id="seed"
          type="number"
          min={0}
          step={1}
          value={settings.seed}
          disabled={busy}
          onChange={({ currentTarget }) => change({ ...settings, seed: wholeNumber(currentTarget.value, settings.seed) })}
        />
      </label>
      <label class="setting">
        Threads
        <select
          class="input"
          id="threads"
          value={settings.threads}
          disabled={busy || cores === 1}
          onChange={({ currentTarget }) => change({ ...settings, threads: Number(currentTarget.value) })}
        >
          {Array.from({ length: cores }, (_, i) => (
            <option key={i} value={i + 1}>
              {i + 1}
            </option>
          ))}
        </select>
      </label>
    </div>
  );
}

function wholeNumber(text: string, otherwise: number): number {
  const value = Number(text);
  return Number.isSafeInteger(value) && value >= 0 ? value : otherwise;
}

const PHASES: Readonly<Record<string, string>> = {
  rollouts: 'the model plays questions',
  forward: 'scores what it wrote',
  backward: 'takes the gradient',
  update: 'takes the gradient',
  publish: 'gives the new weights to the sampler',
  evaluation: 'plays the held-out questions',
};

export function Progress({ state }: { readonly state: LabState }): VNode {
  const { about, phase, status } = state;
  const steps = about?.steps ?? 1;
  const done = phase === null ? state.steps.length : phase.name === 'evaluation' ? phase.step : phase.step - 1;
  return (
    <div class="progress">
      <progress max={steps} value={status === 'idle' ? 0 : done} aria-label="Training steps" />
      <p role="status" id="status" data-status={status}>
        {textOf(state)}
        {phase !== null && phase.total > 0 && <span class="quiet-text number">{` ${phase.done} of ${phase.total}`}</span>}
      </p>
    </div>
  );
}

function textOf({ status, about, phase, steps, problem }: LabState): string {
  const last = steps.at(-1)?.step ?? 0;
  if (status === 'idle') return 'Nothing runs yet. A run takes half a minute on two cores.';
  if (status === 'failed') return `The run failed. ${problem ?? ''}`;
  if (status === 'finished') return `All ${last} steps are done.`;
  if (status === 'stopped') return `Stopped after step ${last}.`;
  if (about === null || phase === null) return 'Loads the model and starts the threads.';
  const what = PHASES[phase.name] ?? phase.name;
  return phase.name === 'evaluation' ? `After step ${phase.step} it ${what}.` : `Step ${phase.step} of ${about.steps}: ${what}.`;
}
