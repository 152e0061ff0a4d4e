/** The page's knowledge of a run, and its change by each message of the worker. Pure. */
import type { FromLab, Transcript, Values } from '../lab-messages.ts';

interface Measured {
  readonly step: number;
  /** Seconds since the start was pressed. */
  readonly seconds: number;
  readonly values: Values;
}

export interface Evaluated extends Measured {
  readonly transcripts: readonly Transcript[];
}

export interface LabState {
  readonly status: 'idle' | 'starting' | 'running' | 'stopping' | 'finished' | 'stopped' | 'failed';
  readonly about: Extract<FromLab, { kind: 'opened' }> | null;
  readonly steps: readonly Measured[];
  readonly evaluations: readonly Evaluated[];
  readonly phase: { readonly name: string; readonly step: number; readonly done: number; readonly total: number } | null;
  readonly notes: readonly string[];
  readonly problem: string | null;
  /** `performance.now()` at the start and at the end. */
  readonly startedAtMs: number | null;
  readonly endedAtMs: number | null;
}

export type LabEvent =
  | { readonly kind: 'begin'; readonly atMs: number }
  | { readonly kind: 'halt' }
  | { readonly kind: 'heard'; readonly atMs: number; readonly message: FromLab };

export const IDLE: LabState = {
  status: 'idle',
  about: null,
  steps: [],
  evaluations: [],
  phase: null,
  notes: [],
  problem: null,
  startedAtMs: null,
  endedAtMs: null,
};

/** The held-out accuracy that counts as learnt. */
export const GOAL = 0.9;

export function after(state: LabState, event: LabEvent): LabState {
  if (event.kind === 'begin') return { ...IDLE, status: 'starting', startedAtMs: event.atMs };
  if (event.kind === 'halt') return isBusy(state) ? { ...state, status: 'stopping' } : state;
  const { atMs, message } = event;
  const seconds = (atMs - (state.startedAtMs ?? atMs)) / 1000;
  switch (message.kind) {
    case 'opened':
      return { ...state, status: state.status === 'starting' ? 'running' : state.status, about: message };
    case 'phase':
      return { ...state, phase: { name: message.phase, step: message.step, done: 0, total: 0 } };
    case 'progress':
      return state.phase === null ? state : { ...state, phase: { ...state.phase, done: message.done, total: message.total } };
    case 'step':
      return { ...state, steps: [...state.steps, { step: message.step, seconds, values: message.values }] };
    case 'evaluation': {
      const { step, values, transcripts } = message;
      return { ...state, evaluations: [...state.evaluations, { step, seconds, values, transcripts }] };
    }
    case 'note':
      return { ...state, notes: [...state.notes, message.message] };
    case 'ended':
      return { ...state, status: message.how, phase: null, endedAtMs: atMs };
    case 'failed':
      return { ...state, status: 'failed', phase: null, problem: message.message, endedAtMs: atMs };
    case 'adapter':
      return state;
  }
}

/** True while the worker computes. */
export function isBusy({ status }: LabState): boolean {
  return status === 'starting' || status === 'running' || status === 'stopping';
}

/** Seconds from the start to the first evaluation at the goal; null before. */
export function secondsToGoal({ evaluations }: LabState): number | null {
  return evaluations.find(({ values }) => (values['reward_mean'] ?? 0) >= GOAL)?.seconds ?? null;
}
