/** Every command that is declared, for the page of commands and shell completion. No command loads this file for itself. */
import type { AnyCommand } from '../options/define-command.ts';
import { vfCompare } from './vf-compare.ts';
import { vfDoctor } from './vf-doctor.ts';
import { vfEval } from './vf-eval.ts';
import { vfExport } from './vf-export.ts';
import { vfIndex } from './vf-index.ts';
import { vfInit } from './vf-init.ts';
import { vfPipeline } from './vf-pipeline.ts';
import { vfRounds } from './vf-rounds.ts';
import { vfScore } from './vf-score.ts';
import { vfSeed } from './vf-seed.ts';
import { vfServe } from './vf-serve.ts';
import { vfTrain } from './vf-train.ts';
import { vfView } from './vf-view.ts';

export const ALL_COMMANDS: readonly AnyCommand[] = [
  vfCompare,
  vfDoctor,
  vfEval,
  vfExport,
  vfIndex,
  vfInit,
  vfPipeline,
  vfRounds,
  vfScore,
  vfSeed,
  vfServe,
  vfTrain,
  vfView,
];
