/** The files with rollouts of a run, as sets that the page names: `results`, `evaluation/10`, `step/12`, `step/12/propose`. */
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import type { RolloutSet, RunKind } from './view-wire.ts';

/** A set and its file. */
export interface FoundSet extends RolloutSet {
  readonly path: string;
}

const STEP_FILE = /^step-(\d{1,12})(?:\.([\w-]+(?:\.\d+)?))?\.jsonl$/;

/** In the order of their steps, evaluations before the step after them. Names come from a directory listing, so a set never leads out of the run. */
export async function findSets(directory: string, kind: RunKind): Promise<FoundSet[]> {
  if (kind === 'evaluation') return [{ id: 'results', title: 'Rollouts', kind: 'results', step: null, path: join(directory, 'results.jsonl') }];
  const [evaluations, steps] = await Promise.all(['evaluations', 'rollouts'].map((name) => stepFiles(join(directory, name))));
  const sets = [...evaluations!.map((file) => setOf('evaluation', file)), ...steps!.map((file) => setOf('step', file))];
  return sets.toSorted((a, b) => a.step! - b.step! || rank(a) - rank(b) || (a.id < b.id ? -1 : 1));
}

interface StepFile {
  readonly path: string;
  readonly step: number;
  readonly phase: string | null;
}

async function stepFiles(directory: string): Promise<StepFile[]> {
  const entries = await readdir(directory, { withFileTypes: true }).catch(() => []);
  return entries.flatMap((entry) => {
    const [, step, phase = null] = (entry.isFile() ? STEP_FILE.exec(entry.name) : null) ?? [];
    // Calls of models beside the policy stand in files of their own.
    return step === undefined || /(^|\.)asked$/.test(phase ?? '') ? [] : [{ path: join(directory, entry.name), step: Number(step), phase }];
  });
}

function setOf(kind: 'evaluation' | 'step', { path, step, phase }: StepFile): FoundSet {
  const name = kind === 'evaluation' ? `Evaluation after step ${step}` : `Step ${step}`;
  return { id: `${kind}/${step}${phase === null ? '' : `/${phase}`}`, title: phase === null ? name : `${name}, ${phase}`, kind, step, path };
}

/** The evaluation after step 10 comes after step 10. */
function rank({ kind }: RolloutSet): number {
  return kind === 'step' ? 0 : 1;
}

/** The file with what a set's rollouts asked of models beside the policy. */
export function askedPath({ path, kind }: FoundSet): string {
  return kind === 'results' ? join(path, '..', 'asked.jsonl') : path.replace(/\.jsonl$/, '.asked.jsonl');
}
