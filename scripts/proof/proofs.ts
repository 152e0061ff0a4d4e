/** The proofs by name. A further proof is a further entry. */
import { REAL_MODEL } from '../real-model/prove-real-model.ts';
import { AGENTS } from './agents.ts';
import { COPY } from './copy.ts';
import { DISTILL } from './distill.ts';
import { LAB } from './lab.ts';
import { LAPTOP } from './laptop.ts';
import { LEARNING } from './learning.ts';
import type { Proof } from './proof-options.ts';
import { SEEDS } from './seeds.ts';
import { SELF_PLAY } from './self-play.ts';
import { SELF_PLAY_VLLM } from './self-play-vllm.ts';
import { SUPERVISED } from './supervised.ts';
import { VISUAL } from './visual.ts';

export const PROOFS: Readonly<Record<string, Proof>> = {
  laptop: LAPTOP,
  seeds: SEEDS,
  copy: COPY,
  distill: DISTILL,
  agents: AGENTS,
  visual: VISUAL,
  'self-play': SELF_PLAY,
  'self-play-vllm': SELF_PLAY_VLLM,
  learning: LEARNING,
  supervised: SUPERVISED,
  'real-model': REAL_MODEL,
  lab: LAB,
};
