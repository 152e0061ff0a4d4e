/** A small run in a process of its own: `train-small.ts <run folder> <options as JSON>`. Says each phase on stderr, and the outcome on stdout. */
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { branchedSource } from './branched-source.ts';
import { openNano } from './gradients/torch/nano-backend.ts';
import { runningMean } from './running-mean.ts';
import { trainSmall } from './small-run.ts';
import type { SmallProcessOptions } from './small-process.ts';
import { UnigramBackend } from './unigram-backend.ts';

const [path, text] = process.argv.slice(2) as [string, string];
const { config, slowMs = 0, backend = 'unigram', hasOwnCredit = false, isBranched = false } = JSON.parse(text) as SmallProcessOptions;
const say = (line: string) => void process.stderr.write(`${line}\n`);

const outcome = await trainSmall(path, {
  config,
  ...(hasOwnCredit ? { ownCredit: runningMean } : {}),
  ...(isBranched ? { createSource: branchedSource({ slowMs }) } : {}),
  // A change of a file for fail-at.mjs: the adapter itself may be written by a worker.
  session: (made) => {
    made.publisher.before = () => writeFile(join(path, 'publishing'), '');
    return made;
  },
  backend: async () => (backend === 'torch' ? openNano() : new UnigramBackend()),
  observer: { onPhase: (phase, step) => say(`${step} ${phase}`), onRollouts: ({ step, done }) => say(`${step} rollout ${done}`) },
  onTurn: async () => {
    if (slowMs > 0) await sleep(slowMs);
  },
});
process.stdout.write(JSON.stringify(outcome));
