/** Entry point of the worker that trains: opens the engine and the fact world, runs the training loop, reports to the page. */
import { CancelledError, thrownText } from '../../../src/core/errors.ts';
import type { Environment } from '../../../src/core/environment.ts';
import { adapterFiles } from '../../../src/engine/adapters/adapter-files.ts';
import { HostedEngine } from '../../../src/engine/hosted-engine.ts';
import { openParts } from '../../../src/engine/open-parts.ts';
import { type MemoryObserver, MemoryRun } from '../../../src/lab/train-in-memory.ts';
import { openPassages } from '../../../src/retrieval/bm25/bm25-retriever.ts';
import type { Trajectory } from '../../../src/trainer/trajectory.ts';
import { SearchR1Env } from '../../../environments/search-r1/search-r1-env.ts';
import type { FromLab, NamedFile, ToLab, Transcript } from '../lab-messages.ts';
import type { LabData } from './lab-data.ts';
import { inLaterTurn } from './turns.ts';
import { webHost } from './web-host.ts';

/** Held-out questions whose transcripts the page shows. */
const SHOWN = 12;

// The package's loops give way by Node's setImmediate.
Object.assign(globalThis, { setImmediate: inLaterTurn });

const base = new URL('./', location.href);
let opened: { readonly run: MemoryRun; readonly baseName: string } | null = null;

const say = (message: FromLab) => postMessage(message);

addEventListener('message', ({ data }: MessageEvent<ToLab>) => {
  if (data.kind === 'start') void train(data);
  else if (data.kind === 'stop') opened?.run.stop();
  else if (opened !== null) say({ kind: 'adapter', step: opened.run.step, files: filesOf(opened) });
});

async function train({ seed, threads, steps }: Extract<ToLab, { kind: 'start' }>): Promise<void> {
  try {
    const data = await readData();
    const config = { ...data.config, seed, steps: steps ?? data.config.steps };
    const { signal } = new AbortController();
    const host = webHost(base);
    const cacheTokens = config.policy.embedded?.cacheTokens ?? null;
    const engine = new HostedEngine(
      await openParts(host, {
        modelPath: config.model.path,
        threads: Math.min(threads, host.cores),
        ...(cacheTokens === null ? {} : { cacheTokens }),
        signal,
      }),
    );
    const retriever = openPassages(data.passages, { name: 'bm25' });
    const environmentOf = (options: LabData['environment']) => new SearchR1Env({ ...options, retriever }) as unknown as Environment;
    const [environment, evaluation] = [environmentOf(data.environment), environmentOf(data.evaluation)];
    const run = await MemoryRun.open({ config, environment, evaluation, engine, observer: observerOf(data), signal });
    opened = { run, baseName: config.model.path };
    say({ kind: 'opened', engine: engine.description, threads: engine.stats().threads, steps: config.steps, heldOut: evaluation.eval.length });
    await run.train();
    say({ kind: 'ended', how: run.step < config.steps ? 'stopped' : 'finished' });
  } catch (error) {
    if (!(error instanceof CancelledError)) say({ kind: 'failed', message: thrownText(error) });
  }
}

async function readData(): Promise<LabData> {
  const response = await fetch(new URL('lab.json', base));
  if (!response.ok) throw new Error(`The server answered ${response.status} for lab.json. Build the page again with npm run build:lab.`);
  return (await response.json()) as LabData;
}

function observerOf(data: LabData): MemoryObserver {
  const questions = new Map(data.evaluation.rows.map((row) => [row.id, row]));
  const shown = data.evaluation.rows.slice(0, SHOWN).map(({ id }) => id);
  const transcriptOf = ({ groupId, reward, segments }: Trajectory): Transcript => {
    const { question = '', golden_answers: answers = [] } = questions.get(groupId) ?? {};
    return { id: groupId, question, answers, reward, segments: segments.map(({ kind, text }) => ({ kind, text })) };
  };
  return {
    onPhase: (phase, step) => say({ kind: 'phase', phase, step }),
    onRollouts: ({ step, done, total }) => say({ kind: 'progress', step, done, total }),
    onTrained: (step, values) => say({ kind: 'step', step, values }),
    onEvaluated: (step, values, trajectories) => {
      const first = new Map(trajectories.filter(({ index }) => index === 0).map((each) => [each.groupId, each]));
      const transcripts = shown.flatMap((id) => first.get(id) ?? []).map(transcriptOf);
      say({ kind: 'evaluation', step, values, transcripts });
    },
    onReport: ({ message }) => say({ kind: 'note', message }),
  };
}

function filesOf({ run, baseName }: NonNullable<typeof opened>): readonly NamedFile[] {
  return adapterFiles(run.adapter(), baseName).map(({ name, parts }) => {
    const bytes = new Uint8Array(parts.reduce((sum, { length }) => sum + length, 0));
    let at = 0;
    for (const part of parts) {
      bytes.set(part, at);
      at += part.length;
    }
    return { name, bytes };
  });
}
