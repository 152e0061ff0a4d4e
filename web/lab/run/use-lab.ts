/** The run of this page: its worker, its state, and the actions of its buttons. */
import { useCallback, useReducer, useRef } from 'preact/hooks';
import type { FromLab, ToLab } from '../lab-messages.ts';
import { after, IDLE, type LabState } from './lab-state.ts';
import { zipOf } from './zip.ts';

export interface Lab {
  readonly state: LabState;
  readonly start: (settings: { readonly seed: number; readonly threads: number }) => void;
  readonly stop: () => void;
  /** Downloads the adapter of the finished run. */
  readonly save: () => void;
}

export function useLab(): Lab {
  const [state, tell] = useReducer(after, IDLE);
  const worker = useRef<Worker | null>(null);
  const send = (message: ToLab) => worker.current?.postMessage(message);
  const start = useCallback<Lab['start']>(({ seed, threads }) => {
    worker.current?.terminate();
    const fresh = new Worker('train.js', { name: 'vf-search lab' });
    worker.current = fresh;
    tell({ kind: 'begin', atMs: performance.now() });
    const hear = (message: FromLab) => tell({ kind: 'heard', atMs: performance.now(), message });
    fresh.addEventListener('message', ({ data }: MessageEvent<FromLab>) => {
      hear(data);
      if (data.kind === 'adapter') download(zipOf(data.files), `nano-search-seed-${seed}-step-${data.step}.zip`);
    });
    fresh.addEventListener('error', (event) => hear({ kind: 'failed', message: event.message || 'The script of the worker could not be loaded.' }));
    // oxlint-disable-next-line unicorn/require-post-message-target-origin -- a worker is not a window
    fresh.postMessage({ kind: 'start', seed, threads, steps: null } satisfies ToLab);
  }, []);
  const stop = useCallback(() => {
    tell({ kind: 'halt' });
    send({ kind: 'stop' });
  }, []);
  const save = useCallback(() => send({ kind: 'save' }), []);
  return { state, start, stop, save };
}

function download(blob: Blob, name: string): void {
  const link = document.createElement('a');
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  // The browser has begun to read it by then.
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}
